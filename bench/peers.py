#!/usr/bin/env python3
"""Saccade beside peers that live in Python: compiled FlexAttention, and ONNX Runtime where it is installed.

Forward passes only: FlexAttention has no backward on the CPU. With --library both run in this process and take turns;
without it our times come from `saccade bench --json` on the same shapes, in a process of its own.

    bench/peers.py --lengths 1024 4096 --program build/saccade --json peers.json
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARK = 1.5  # FlexAttention's time / ours, on every formula that both can run
LARGEST_ERROR = 5e-3  # beyond it they compute different things, and times say nothing
ALPHA, BETA = 1.0, 1.0  # where the prior starts
DOCUMENTS = 8
SHORTEST = 0.01  # what takes less is run several times in a row


def causal(b, h, i, j):
    return i >= j


def formulas(n, heads):
    """Each formula as FlexAttention takes it: (mask, score, inputs of ours). The inputs are those of `saccade bench`."""
    window, sinks, cap, prefix = 256, 4, 50.0, n // 4
    slopes = 2.0 ** (-8.0 * (torch.arange(heads) + 1) / heads)
    alpha, beta = torch.full((heads,), ALPHA), torch.full((heads,), BETA)
    documents = torch.arange(n) * DOCUMENTS // n
    return {
        "full": (None, None, {}),
        "causal": (causal, None, {}),
        "window": (lambda b, h, i, j: (i >= j) & (i - j < window), None, {}),
        "alibi": (causal, lambda s, b, h, i, j: s - slopes[h] * (i - j), {}),
        "prior": (causal, lambda s, b, h, i, j: s - torch.abs(alpha[h] * (i - j)) ** beta[h], {}),
        "softcap": (causal, lambda s, b, h, i, j: cap * torch.tanh(s / cap), {}),
        "document": (lambda b, h, i, j: (i >= j) & (documents[i] == documents[j]), None, {"doc": documents}),
        "prefix_lm": (lambda b, h, i, j: (i >= j) | (j < prefix), None, {"p": torch.tensor([prefix])}),
        "sink_window": (lambda b, h, i, j: (i >= j) & ((j < sinks) | (i - j < window)), None, {}),
    }


def dense(query, key, value, mask, score):
    """The same by the n x n map, to judge the peers by."""
    heads, n = query.shape[1:3]
    h, i, j = torch.arange(heads)[:, None, None], torch.arange(n)[:, None], torch.arange(n)[None]
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    if score:
        scores = score(scores, 0, h, i, j)
    if mask:
        scores = scores.masked_fill(~mask(0, h, i, j), -math.inf)
    return scores.softmax(-1) @ value


def flex(query, key, value, mask, score):
    """A function that runs compiled FlexAttention, and how long its block mask took to make, which is not counted."""
    torch._dynamo.reset()
    n = query.shape[2]
    begin = time.perf_counter()
    blocks = create_block_mask(mask, None, None, n, n, device="cpu") if mask else None
    seconds = time.perf_counter() - begin
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda: compiled(query, key, value, score_mod=score, block_mask=blocks), seconds


def onnx_runtime(query, key, value, name, threads):
    """A function that runs ONNX Runtime's attention operator, which knows plain and causal attention."""
    if name not in ("full", "causal"):
        raise LookupError("its operator has no such formula")
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    batch, heads, n, width = query.shape
    shape = [batch, n, heads * width]
    names = ["query", "key", "value"]
    node = helper.make_node("MultiHeadAttention", names, ["output"], domain="com.microsoft", num_heads=heads,
                            unidirectional=int(name == "causal"))
    values = {which: helper.make_tensor_value_info(which, TensorProto.FLOAT, shape) for which in (*names, "output")}
    graph = helper.make_graph([node], "attention", [values[which] for which in names], [values["output"]])
    model = helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {which: tensor.transpose(1, 2).reshape(shape).contiguous().numpy()
            for which, tensor in zip(names, (query, key, value))}

    def run():
        output = torch.from_numpy(session.run(None, feed)[0])
        return output.view(batch, n, heads, width).transpose(1, 2)

    return run


def our_operator(name, query, key, value, inputs):
    """A function that runs our operator: the one place that knows how it is called."""
    text = (ROOT / "mechanisms" / f"{name}.attn").read_text()
    heads = query.shape[1]
    # Tables in the order of their declarations, as [batch or 1, head or 1, what is subscripted].
    tables = [table.float().view(1, 1, -1) if name == "document" else table.float().view(-1, 1) for table in inputs.values()]
    if name == "prior":
        tables = [torch.full((1, heads), ALPHA), torch.full((1, heads), BETA)]
    operator = torch.ops.saccade.attention
    return lambda: operator(text, [query], [key], value, tables, None, None, None, 0, 0, 64, 1, 0.0, True, True, False)[0]


def ours_by_program(arguments, name, n):
    """Our time and memory, from the program."""
    command = [arguments.program, "bench", name, "--length", str(n), "--heads", str(arguments.heads), "--width",
               str(arguments.width), "--threads", str(arguments.threads), "--repeats", str(arguments.repeats), "--forward",
               "--rivals", "saccade", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it failed")
    row = json.loads(done.stdout)["rows"][0]
    if row["failure"]:
        raise RuntimeError(row["failure"])
    return row


def stopwatch(run, times):
    begin = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - begin) / times


def take_turns(runs, repeats):
    """The seconds of each round, by name. Each has run once already."""
    times = {name: max(1, min(1000, round(SHORTEST / max(stopwatch(run, 1), 1e-7)))) for name, run in runs.items()}
    seconds = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            seconds[name].append(stopwatch(run, times[name]))
    return seconds


def measure(arguments, name, n):
    """One row for each contestant; ours is the first."""
    torch.manual_seed(1)
    query, key, value = (torch.randn(1, arguments.heads, n, arguments.width) for _ in range(3))
    mask, score, inputs = formulas(n, arguments.heads)[name]
    makers = {"flex": lambda: flex(query, key, value, mask, score)[0],
              "onnxruntime": lambda: onnx_runtime(query, key, value, name, arguments.threads)}
    if arguments.library:
        makers = {"saccade": lambda: our_operator(name, query, key, value, inputs), **makers}
    rows = {by: {"formula": name, "work": "forward", "n": n, "by": by, "failure": None}
            for by in ("saccade", *makers)}
    runs = {}
    expected = dense(query, key, value, mask, score) if n <= arguments.judge else None
    for by, make in makers.items():
        try:
            runs[by] = make()
            output = runs[by]()
            if expected is not None:
                rows[by]["error"] = float((output - expected).abs().max() / expected.abs().max())
        except Exception as error:
            runs.pop(by, None)
            rows[by]["failure"] = f"{type(error).__name__}: {error}".splitlines()[0]
    if not arguments.library:
        try:
            rows["saccade"] = ours_by_program(arguments, name, n)
        except Exception as error:
            rows["saccade"]["failure"] = str(error)
    for by, seconds in take_turns(runs, arguments.repeats).items():
        rows[by].update(seconds=statistics.median(seconds), seconds_low=min(seconds), seconds_high=max(seconds))
    ours = rows["saccade"].get("seconds")
    for row in rows.values():
        if ours and row.get("seconds"):
            row["ratio"] = row["seconds"] / ours
    return list(rows.values())


def show(row):
    if row["failure"]:
        print(f"{row['formula']:12} {row['n']:6}  {row['by']:12} not measured: {row['failure']}", flush=True)
        return
    error = f"{row['error']:.0e}" if row.get("error") is not None else "-"
    ratio = f"{row['ratio']:8.2f}x" if "ratio" in row else f"{'-':>9}"
    print(f"{row['formula']:12} {row['n']:6}  {row['by']:12} {1e3 * row['seconds']:9.3f} {ratio} {error:>8}", flush=True)


def missed(rows):
    """In words, the cases that miss the mark."""
    result = []
    for row in rows:
        case = f"{row['formula']} n={row['n']}"
        if row["failure"] and row["by"] in ("saccade", "flex"):
            result.append(f"{case}: {row['by']} was not measured")
        elif row["by"] == "flex" and row.get("ratio", 0) < MARK:
            result.append(f"{case}: {row.get('ratio', 0):.2f}x; the mark is {MARK}x")
        elif row["by"] in ("saccade", "flex") and not (row.get("error") or 0) <= LARGEST_ERROR:
            result.append(f"{case}: {row['by']} is off by {row['error']:.1e}")
    return result


def main():
    known = list(formulas(16, 1))
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("formulas", nargs="*", metavar="formula", help=f"some of {', '.join(known)}; all by default")
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--judge", type=int, default=2048, metavar="N", help="compare results up to this length")
    parser.add_argument("--library", help="our operator library; without it, our times come from the program")
    parser.add_argument("--program", default=str(ROOT / "build/saccade"))
    parser.add_argument("--json", metavar="FILE", help="write the rows there as well")
    parser.add_argument("--targets", action="store_true", help=f"exit with 1 unless FlexAttention takes {MARK}x our time everywhere")
    arguments = parser.parse_args()
    for name in arguments.formulas:
        if name not in known:
            parser.error(f"unknown formula '{name}'; there are {', '.join(known)}")
    torch.set_num_threads(arguments.threads)
    if arguments.library:
        torch.ops.load_library(arguments.library)
    print(f"{'formula':12} {'n':>6}  {'by':12} {'ms':>9} {'/ ours':>9} {'error':>8}")
    rows = []
    with torch.no_grad():
        for name in arguments.formulas or known:
            for n in arguments.lengths:
                for row in measure(arguments, name, n):
                    rows.append(row)
                    show(row)
    if arguments.json:
        settings = {"torch": torch.__version__, "threads": arguments.threads, "heads": arguments.heads, "width": arguments.width}
        pathlib.Path(arguments.json).write_text(json.dumps({**settings, "rows": rows}, indent=2) + "\n")
    if arguments.targets:
        misses = missed(rows)
        print("\n" + ("\n".join(["missed:", *misses]) if misses else f"FlexAttention takes at least {MARK}x our time everywhere"))
        return 1 if misses else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
