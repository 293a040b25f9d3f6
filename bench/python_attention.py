#!/usr/bin/env python3
"""The learnable prior in Python beside what PyTorch offers: a training step against SDPA with the same prior as a bias and against plain
SDPA, and a forward pass against compiled FlexAttention, which has no backward on the CPU.

All run in this process and take turns, so that what the machine does meanwhile hits all alike; the figures are medians of times and of
the ratios within a round.

    python bench/python_attention.py --lengths 1024 2048 --threads 1
"""

import argparse
import json
import statistics
import sys
import time

import torch
from torch.nn import functional as F

import saccade

ALPHA, BETA = 0.5, 0.8
LARGEST_ERROR = 5e-3  # beyond it they compute different things, and times say nothing


def scene(n, heads, width):
    generator = torch.Generator().manual_seed(1)
    q, k, v, goal = (torch.randn(1, heads, n, width, generator=generator) for _ in range(4))
    alpha, beta = torch.full((heads,), ALPHA), torch.full((heads,), BETA)
    return [tensor.requires_grad_() for tensor in (q, k, v, alpha, beta)], goal


def steps(n, heads, width):
    """Forward and backward by every learned tensor, one function per way; and the prior's output by each."""
    (q, k, v, alpha, beta), goal = scene(n, heads, width)
    place = torch.arange(n)
    distance = (place[:, None] - place).clamp(min=0).float()
    ahead = place[:, None] < place

    def ours():
        return saccade.attention(q, k, v, "prior", params={"alpha": alpha, "beta": beta})

    def with_bias():
        # At d = 0 the power's derivative by its base is infinite for beta < 1; there a small distance stands in.
        bias = -((alpha.abs()[:, None, None] * distance.clamp(min=1e-6)) ** beta[:, None, None])
        return F.scaled_dot_product_attention(q, k, v, bias.masked_fill(ahead, float("-inf"))[None])

    def plain():
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def step(output):
        def run():
            result = output()
            leaves = [q, k, v] + ([] if output is plain else [alpha, beta])
            return torch.autograd.grad((result * goal).sum(), leaves)
        return run

    return {"saccade": step(ours), "SDPA with bias": step(with_bias), "plain SDPA": step(plain)}, {"saccade": ours, "SDPA with bias": with_bias}


def forwards(n, heads, width):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    (q, k, v, alpha, beta), _ = scene(n, heads, width)
    q, k, v, alpha, beta = (tensor.detach() for tensor in (q, k, v, alpha, beta))
    blocks = create_block_mask(lambda b, h, i, j: i >= j, None, None, n, n, device="cpu")
    compiled = torch.compile(flex_attention, dynamic=False)

    def score(s, b, h, i, j):
        return s - torch.abs(alpha[h] * (i - j)) ** beta[h]

    return {"saccade": lambda: saccade.attention(q, k, v, "prior", params={"alpha": alpha, "beta": beta}),
            "compiled FlexAttention": lambda: compiled(q, k, v, score_mod=score, block_mask=blocks)}


def take_turns(runs, repeats):
    """Seconds of each run in each round; the order turns round, so that no run always follows the same one."""
    for run in runs.values():
        run()
    times = {name: [] for name in runs}
    names = list(runs)
    for repeat in range(repeats):
        for name in names[repeat % len(names):] + names[:repeat % len(names)]:
            begin = time.perf_counter()
            runs[name]()
            times[name].append(time.perf_counter() - begin)
    return times


def check_equal(outputs):
    expected = next(iter(outputs.values()))()
    for name, run in outputs.items():
        error = float((run() - expected).abs().max().detach())
        if error > LARGEST_ERROR:
            sys.exit(f"python_attention: the output of {name} is off by {error:.3g}; expected at most {LARGEST_ERROR}")


def report(what, n, times, rows):
    ours = times["saccade"]
    for name, seconds in times.items():
        ratio = statistics.median(other / own for other, own in zip(seconds, ours))
        rows.append({"what": what, "length": n, "who": name, "milliseconds": 1e3 * statistics.median(seconds), "ratio": ratio})
        print(f"| {what} | {n} | {name} | {rows[-1]['milliseconds']:.2f} | {ratio:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024])
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--without-flex", action="store_true", help="leave out FlexAttention, which takes a minute to compile")
    parser.add_argument("--json", help="also write the rows to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = []
    print("| what | tokens | who | ms | time / ours |\n|---|---|---|---|---|")
    for n in arguments.lengths:
        trained, outputs = steps(n, arguments.heads, arguments.width)
        check_equal(outputs)
        report("training step", n, take_turns(trained, arguments.repeats), rows)
        if not arguments.without_flex:
            runs = forwards(n, arguments.heads, arguments.width)
            check_equal(runs)
            report("forward", n, take_turns(runs, arguments.repeats), rows)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=2)


if __name__ == "__main__":
    main()
