"""Results for tests of the report: small real ones that the program makes in seconds, and some that are written here by
their schema because the real ones take minutes. Text that comes from outside is hostile wherever it may be."""

import array
import base64
import json
import math
import os
import pathlib
import random
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
EVIL = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>'\"&amp;\u2028\u2029<!--"
SMALL = ["model.width=32", "model.layers=2", "model.heads=2", "data.tokenizer=bytes", "data.length=128", "train.steps=20",
         "train.batch=4", "train.warmup=2", "train.validate_every=10", "train.validation_sequences=8", "train.checkpoint_every=20",
         "train.diagnose_every=5", "sample.tokens=0"]


class Fixtures:
    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)

    def run(self, *words, code=(0,)):
        """What the program prints; results that say no are results too."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "SACCADE_TUNING": "off"}
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, timeout=300, cwd=self.folder, env=environment)
        if done.returncode not in code:
            raise RuntimeError(f"{words}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def write(self, name, value):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
        return path

    def comparison(self):
        self.run("compare", ROOT / "recipes/tiny.toml", *SMALL, "--attention", "causal,prior", "--runs", 2, "--lengths", "1,2", "--out",
                 "comparison", "--no-corruption", "--no-control")
        return self.folder / "comparison"

    def benchmark(self):
        text = self.run("bench", "prior", "--lengths", "64,128,256", "--heads", 2, "--width", 16, "--repeats", 3, "--forward", "--json")
        (self.folder / "bench.json").write_text(text)
        return self.folder / "bench.json"

    def certificate(self, model):
        (self.folder / "text.txt").write_text((ROOT / "CONTRIBUTING.md").read_text()[:1500])
        self.run("certify", model, "--attention", "last10", "--data", "text.txt", "--context", 64, "--memory-lengths", "64,128",
                 "--look-tokens", 64, "--look-windows", 2, "--out", "certificate", code=(0, 1))
        return self.folder / "certificate"

    def samples(self, one, other):
        text = self.run("generate", one, "--compare", other, "--prompt", "Ann <b>went</b>", "--prompt", EVIL, "--max-new-tokens", 12,
                        "--seed", 3, "--json")
        (self.folder / "samples.json").write_text(text)
        return self.folder / "samples.json"

    def diagnosis(self, model):
        self.run("diagnose", model, "--tokens", 64, "--batch-size", 2, "--out", "diagnosis")
        return self.folder / "diagnosis"

    def evaluation(self, model):
        text = self.run("eval", model, "--data", "text.txt", "--context", 64, "--attention", "last10", "--json")
        (self.folder / "eval.json").write_text(text)
        return self.folder / "eval.json"

    def torn_run(self, run):
        """A run that was killed while it wrote a line."""
        target = self.folder / "torn"
        target.mkdir()
        for name in ("recipe.toml", "attention.attn", "environment.json"):
            (target / name).write_bytes((run / name).read_bytes())
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        (target / "metrics.jsonl").write_text("".join(lines[:7]) + lines[7][:25])
        return target

    def frontier(self):
        curves = []
        for place, name in enumerate(("learned gate", "oracle", "learned span", "sinks and window", "random " + EVIL)):
            densities = [0.02 * 1.6 ** step for step in range(8)]
            points = [{"density": density, "divergence": (place + 1) * 2e-5 / density ** 2} for density in densities]
            curves.append({"name": name, "meaning": f"keys that are chosen, {EVIL}", "points": points})
        return self.write("frontier/frontier.json", {
            "tokens": 1024, "curves": curves,
            "decomposition": {"density": 0.14, "best": 4e-4, "granularity": 2e-4, "mistakes": 3e-4, "approximation": 1e-4}}).parent

    def distillation(self):
        held_out = {"found": True, "saves": True, "divergence": 8.9e-4, "density": 0.231, "dense_heads": 3, "tries": 3,
                    "ranges": [{"begin": 0, "divergence": 9e-4, "density": 0.31}, {"begin": 1024, "divergence": 8.8e-4, "density": 0.19}]}
        folder = self.write("sparse/sparse.json", {
            "format": "saccade sparse attention 1", "base": "smollm2 " + EVIL, "kind": "low_rank", "layers": 2, "causal": True,
            "notes": {"goal": {"kl": 0.001, "density": 0}, "held_out": held_out, "learned_divergence": 8e-4, "selection_cost": 0.031,
                      "seconds": 321.5, "decoding": {**held_out, "density": 0.2}}}).parent
        lines = [{"stage": "solve", "try": step, "divergence": 4e-3 / step ** 2, "density": 0.1 + 0.05 * step, "holds": step == 3}
                 for step in (1, 2, 3)]
        lines += [{"stage": "speed", "tokens": n, "dense_seconds": 1e-9 * n * n, "sparse_seconds": 2e-6 * n, "choosing_seconds": 4e-7 * n,
                   "density": 0.2} for n in (1024, 2048, 4096)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return folder

    def attention(self):
        """Two layers of two heads over 24 tokens: one of them signed, one with a mask."""
        tokens = [EVIL, "The", " harbour", "\n", " town"] + [f" word{index}" for index in range(19)]
        generator, maps = random.Random(1), []
        for layer in range(2):
            for head in range(2):
                values = []
                for row in range(24):
                    weights = [math.exp(-abs(row - column) * (0.2 + 0.3 * head)) * generator.random() for column in range(row + 1)]
                    if layer == 1:
                        weights = [weight - 0.3 for weight in weights]
                    values += [weight / sum(map(abs, weights)) for weight in weights]
                one = {"layer": layer, "head": head, "first_row": 0, "rows": 24, "columns": 24, "signed": layer == 1, "triangle": True,
                       "weights": floats(values)}
                if layer == 0 and head == 0:
                    one["mask"] = {"query_block": 8, "key_block": 4, "kept": floats([generator.choice((0, 0.5, 1)) for _ in range(18)])}
                maps.append(one)
        return self.write("attention.json", {"format": "saccade attention 1", "model": "tiny " + EVIL, "attention": "gpam", "data": "text.txt",
                                             "tokens": tokens, "maps": maps})

    def long_attention(self, tokens=4096):
        """One head of a long text; its one strong weight stands at query 3000, key 1234."""
        pattern = array.array("f", [1e-4 * ((index * 37) % 101) / 101 for index in range(2 * tokens)])
        values = array.array("f")
        for row in range(tokens):
            values.extend(pattern[row % 101:row % 101 + row + 1])
            if row == 3000:
                values[len(values) - 1 - row + 1234] = 0.75
        maps = [{"layer": 0, "head": 0, "first_row": 0, "rows": tokens, "columns": tokens, "signed": False, "triangle": True,
                 "weights": base64.b64encode(values.tobytes()).decode()}]
        return self.write("long/attention.json", {"format": "saccade attention 1", "model": "long", "attention": "causal", "data": "",
                                                  "tokens": [f"t{index}" for index in range(tokens)], "maps": maps}).parent


def floats(values):
    return base64.b64encode(array.array("f", values).tobytes()).decode()
