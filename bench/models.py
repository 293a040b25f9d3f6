#!/usr/bin/env python3
"""Times a model of ours beside `transformers` on the same weights, taking turns: prefill, decoding and loading.

    bench/models.py smollm2 --runner build/model_runner
    bench/models.py smollm2 --runner build/model_runner --targets     # exit code 1 when a mark is missed

Both use the same number of threads and single precision, and compute logits for the last token only. Ratios are medians over rounds of
the peer's time over ours; a round runs each once, so that a slow moment of the machine meets both."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

# What is asked, and at least how much faster than the peer we mean to be.
MARKS = {("prefill", "sdpa"): 1.3, ("prefill", "eager"): 1.3, ("decode", "sdpa"): 2.0, ("decode", "eager"): 2.0}
LOAD_SECONDS = 3.0


class Ours:
    def __init__(self, runner, model, threads):
        self.process = subprocess.Popen([runner], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        self.ask(f"threads {threads}")
        self.ask(f"load {model}")  # the first time reads from the disk
        self.load_seconds = self.ask(f"load {model}")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer or answer.startswith("error"):
            sys.exit(f"{line}: {answer.strip() or 'the runner ended'}")
        return float(answer)

    def prefill(self, tokens):
        return self.ask(f"prefill {tokens}")

    def decode(self, steps, prompt):
        return self.ask(f"decode {steps} {prompt}")


class Transformers:
    def __init__(self, path, implementation, threads):
        import torch
        import transformers
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        torch.set_num_threads(threads)
        self.torch = torch
        gguf = sorted(path.glob("*.gguf"))
        options = {"gguf_file": gguf[0].name} if gguf else {}
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, attn_implementation=implementation, **options).eval()

    def ids(self, tokens):
        generator = self.torch.Generator().manual_seed(1)
        return self.torch.randint(0, self.model.config.vocab_size, (1, tokens), generator=generator)

    def prefill(self, tokens):
        ids = self.ids(tokens)
        with self.torch.inference_mode():
            begin = time.perf_counter()
            self.model(ids, use_cache=False, logits_to_keep=1)
            return time.perf_counter() - begin

    def decode(self, steps, prompt):
        with self.torch.inference_mode():
            result = self.model(self.ids(prompt), use_cache=True, logits_to_keep=1)
            token = result.logits.argmax(-1)
            begin = time.perf_counter()
            for _ in range(steps):
                result = self.model(token, past_key_values=result.past_key_values, use_cache=True)
                token = result.logits.argmax(-1)
            return (time.perf_counter() - begin) / steps


def find_model(name):
    if os.path.exists(name):
        return pathlib.Path(name)
    home = os.environ.get("SACCADE_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "saccade")
    path = pathlib.Path(home) / "models" / name
    if not path.exists():
        sys.exit(f"there is no model '{name}'; try: saccade fetch {name}")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--runner", default="build/model_runner")
    parser.add_argument("--peers", nargs="+", default=["sdpa", "eager"], choices=["sdpa", "eager"])
    parser.add_argument("--tokens", type=int, default=1024, help="of the prompt that is read")
    parser.add_argument("--steps", type=int, default=20, help="tokens that are decoded")
    parser.add_argument("--prompt", type=int, default=128, help="tokens before those")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--targets", action="store_true", help="exit code 1 when a mark is missed")
    parser.add_argument("--json", help="write the results to this file")
    options = parser.parse_args()
    path = find_model(options.model)
    ours = Ours(options.runner, path, options.threads)
    rows, missed = [], 0
    for peer_name in options.peers:
        peer = Transformers(path, peer_name, options.threads)
        work = {"prefill": lambda who: who.prefill(options.tokens),
                "decode": lambda who: who.decode(options.steps, options.prompt)}
        for name, run in work.items():
            run(ours), run(peer)  # warm up
            times = [(run(ours), run(peer)) for _ in range(options.rounds)]
            ratio = statistics.median(theirs / mine for mine, theirs in times)
            mine, theirs = (statistics.median(column) for column in zip(*times))
            tokens = options.tokens if name == "prefill" else 1
            mark = MARKS[name, peer_name]
            missed += ratio < mark
            rows.append({"work": name, "peer": peer_name, "ours": tokens / mine, "theirs": tokens / theirs, "ratio": ratio, "mark": mark})
            print(f"{name:8} {tokens / mine:8.1f} tokens/s   transformers {peer_name:6} {tokens / theirs:8.1f} tokens/s   "
                  f"{ratio:.2f}x (mark {mark:.1f}x) {'met' if ratio >= mark else 'missed'}", flush=True)
        del peer
    missed += ours.load_seconds > LOAD_SECONDS
    print(f"loading  {ours.load_seconds:.2f} s (mark {LOAD_SECONDS:.0f} s) {'met' if ours.load_seconds <= LOAD_SECONDS else 'missed'}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"rows": rows, "load_seconds": ours.load_seconds}, indent=1))
    return 1 if options.targets and missed else 0


sys.exit(main())
