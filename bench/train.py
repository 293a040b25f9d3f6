#!/usr/bin/env python3
"""Times steps of `saccade train`: beside eager PyTorch on the same model, and with each mechanism beside causal attention.

    bench/train.py --program build/saccade
    bench/train.py --program build/saccade --shapes tiny --no-peer --targets     # exit code 1 when a mark is missed

A run is a process of a few steps, of which the first ones are not counted; its result is the median of the others. Runs take turns, so that
a slow moment of the machine meets all of them, and ratios are medians over rounds. Both sides use single precision, the same number of
threads and the same sizes; PyTorch reads random ids that lie ready, while our steps also make the text that they read. Nothing is validated
or saved between steps."""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECIPE = ROOT / "recipes/tiny.toml"
# What differs from the recipe, by its keys; `tiny` is as it stands there.
SHAPES = {
    "tiny": {"model.width": 128, "model.layers": 4, "model.heads": 4, "data.length": 256, "train.batch": 16, "model.vocabulary": 512},
    "small": {"model.width": 384, "model.layers": 6, "model.heads": 6, "data.length": 512, "train.batch": 8, "model.vocabulary": 8192},
}
MECHANISMS = ["prior", "alibi", "ape", "gpam", "diff", "softpick", "sigmoid", "t5", "cog", "fox", "window"]
# At most so many times the step of causal attention: what computes a second score for each pair may take longer.
MARK, MARK_OF_TWO_STREAMS = 1.3, 1.9
TWO_STREAMS = {"gpam", "diff"}
UNCOUNTED = 5  # first steps, in which memory is fresh


def ours(options, shape, attention="causal"):
    """Seconds of a step."""
    changes = {**SHAPES[shape], "attention": attention, "train.steps": UNCOUNTED + options.steps, "train.validate_every": 0,
               "train.validation_sequences": 1, "train.checkpoint_every": 0, "train.separate_documents": "false", "sample.tokens": 0}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([options.program, "train", str(RECIPE), "--out", folder + "/run", "--quiet", "--threads", str(options.threads),
                               *(f"{key}={value}" for key, value in changes.items())],
                              capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(options.threads)})
        if done.returncode != 0:
            sys.exit(f"saccade train attention={attention}: {done.stderr.strip()}")
        lines = pathlib.Path(folder, "run/metrics.jsonl").read_text().splitlines()
    return statistics.median(json.loads(line)["seconds"] for line in lines[UNCOUNTED:])


def theirs(options, shape, optimiser):
    """The same in PyTorch, in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--peer", shape, "--optimiser", optimiser, "--steps", str(options.steps), "--threads",
                           str(options.threads)], capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": str(options.threads)})
    if done.returncode != 0:
        sys.exit(f"PyTorch: {done.stderr.strip()}")
    return float(done.stdout)


def peer(shape, optimiser, steps, threads):
    """A model and its training as people write them."""
    import torch
    import torch.nn.functional as F
    from torch import nn
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    sizes = {key.split(".")[1]: value for key, value in SHAPES[shape].items()}
    width, heads, length, vocabulary = sizes["width"], sizes["heads"], sizes["length"], sizes["vocabulary"]
    inner = math.ceil(width * 8 / 3 / 32) * 32

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            return F.rms_norm(x, (width,), self.weight, 1e-6)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm, self.mlp_norm = Norm(), Norm()
            self.qkv, self.output = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            self.up, self.down = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)

        def forward(self, x, cosine, sine):
            batch, tokens, _ = x.shape
            query, key, value = (part.view(batch, tokens, heads, width // heads).transpose(1, 2)
                                 for part in self.qkv(self.attention_norm(x)).split(width, -1))

            def turn(y):
                first, second = y.chunk(2, -1)
                return y * cosine + torch.cat([-second, first], -1) * sine
            mixed = F.scaled_dot_product_attention(turn(query), turn(key), value, is_causal=True)
            x = x + self.output(mixed.transpose(1, 2).reshape(batch, tokens, width))
            gate, wide = self.up(self.mlp_norm(x)).chunk(2, -1)
            return x + self.down(F.silu(gate) * wide)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            nn.init.normal_(self.tokens.weight, 0, 0.02)
            self.blocks = nn.ModuleList(Block() for _ in range(sizes["layers"]))
            self.norm = Norm()
            half = width // heads // 2
            angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(half) / half)
            angles = torch.cat([angles, angles], -1)
            self.register_buffer("cosine", angles.cos())
            self.register_buffer("sine", angles.sin())

        def forward(self, ids):
            x = self.tokens(ids)
            for block in self.blocks:
                x = block(x, self.cosine, self.sine)
            return F.linear(self.norm(x), self.tokens.weight)

    model = Model()
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    update = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95), fused=optimiser == "fused" or None)
    seconds = []
    for _ in range(UNCOUNTED + steps):
        row = torch.randint(vocabulary, (sizes["batch"], length + 1))
        begin = time.perf_counter()
        update.zero_grad()
        logits = model(row[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), row[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update.step()
        loss.item()
        seconds.append(time.perf_counter() - begin)
    print(statistics.median(seconds[UNCOUNTED:]))


def compare_with_peer(options, shape):
    tokens = SHAPES[shape]["data.length"] * SHAPES[shape]["train.batch"]
    best = min(("fused", "default"), key=lambda optimiser: theirs(options, shape, optimiser))
    times = [(ours(options, shape), theirs(options, shape, best)) for _ in range(options.rounds)]
    mine, other = (statistics.median(column) for column in zip(*times))
    ratios = sorted(other / mine for mine, other in times)
    row = {"shape": shape, "ours": tokens / mine, "theirs": tokens / other, "optimiser": best, "ratio": statistics.median(ratios),
           "lowest": ratios[0], "highest": ratios[-1]}
    print(f"{shape:6} {row['ours']:9.0f} tokens/s   PyTorch eager, {best} AdamW {row['theirs']:9.0f} tokens/s   {row['ratio']:.2f}x "
          f"({ratios[0]:.2f}-{ratios[-1]:.2f})", flush=True)
    return row


def compare_mechanisms(options, shape):
    times = [{name: ours(options, shape, name) for name in ["causal", *options.mechanisms]} for _ in range(options.rounds)]
    causal = statistics.median(round["causal"] for round in times)
    print(f"{shape:6} causal     {causal * 1e3:8.1f} ms a step", flush=True)
    rows = []
    for name in options.mechanisms:
        ratio = statistics.median(round[name] / round["causal"] for round in times)
        mark = MARK_OF_TWO_STREAMS if name in TWO_STREAMS else MARK
        seconds = statistics.median(round[name] for round in times)
        rows.append({"shape": shape, "mechanism": name, "seconds": seconds, "causal": causal, "ratio": ratio, "mark": mark, "met": ratio <= mark})
        print(f"{shape:6} {name:10} {seconds * 1e3:8.1f} ms a step   {ratio:.2f}x of causal (mark {mark:.1f}x) "
              f"{'met' if ratio <= mark else 'missed'}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/saccade"))
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--mechanisms", nargs="*", default=MECHANISMS, help="none: leave out that table")
    parser.add_argument("--no-peer", action="store_true", help="leave out PyTorch")
    parser.add_argument("--steps", type=int, default=15, help="that are counted in a run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--targets", action="store_true", help="exit code 1 when a mark is missed")
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--peer", choices=list(SHAPES), help=argparse.SUPPRESS)  # how this script starts itself
    parser.add_argument("--optimiser", default="fused", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        return peer(options.peer, options.optimiser, options.steps, options.threads)
    throughput = [] if options.no_peer else [compare_with_peer(options, shape) for shape in options.shapes]
    mechanisms = [row for shape in options.shapes if options.mechanisms for row in compare_mechanisms(options, shape)]
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"threads": options.threads, "throughput": throughput, "mechanisms": mechanisms},
                                                         indent=1))
    return 1 if options.targets and not all(row["met"] for row in mechanisms) else 0


if __name__ == "__main__":
    sys.exit(main())
