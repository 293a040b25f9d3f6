"""json_test.py PROGRAM: docs/json.md says what `--json` prints, and the program prints that: every member is documented, every
documented member that is not optional is there, and each has its type. So neither can change without the other."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
SIMPLE = {"string": lambda value: isinstance(value, str), "boolean": lambda value: isinstance(value, bool),
          "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
          "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
          "object": lambda value: isinstance(value, dict), "null": lambda value: value is None, "any": lambda value: True}


def read_tables(text):
    """For each heading of a command, {path: (type, optional)}."""
    tables, current = {}, None
    for line in text.splitlines():
        if heading := re.match(r"#{2,3} `(saccade [^`]*)`(.*)", line):
            current = tables.setdefault(heading[1] + heading[2], {})
        elif row := re.match(r"\| `([^`]+)` \| ([^|]+) \| ", line):
            kind = row[2].strip()
            optional = kind.endswith(", optional")
            if row[1] in current:
                raise ValueError(f"{row[1]} stands twice in a table")
            current[row[1]] = (kind.removesuffix(", optional"), optional)
    return tables


TABLES = read_tables((ROOT / "docs" / "json.md").read_text())


def has_type(value, kind):
    if kind.startswith("array of "):
        return isinstance(value, list) and all(has_type(element, kind.removeprefix("array of ")) for element in value)
    if kind.startswith("object of "):
        return isinstance(value, dict) and all(has_type(member, kind.removeprefix("object of ")) for member in value.values())
    return any(SIMPLE[each](value) for each in kind.split(" or "))


class Schema:
    def __init__(self, table):
        # A container that has no row of its own is an object which is always there.
        self.rows = dict(table)
        for path in table:
            parts = path.split(".")
            for end in range(1, len(parts)):
                self.rows.setdefault(".".join(parts[:end]).removesuffix("[]"), ("object", False))
        self.rows.pop("", None)  # the whole value, where it is an array

    def members(self, path):
        """The names that may stand in the object at a path, with their rows."""
        start = path + "." if path else ""
        return {row.removeprefix(start): value for row, value in self.rows.items()
                if row.startswith(start) and re.fullmatch(r"\w+", row.removeprefix(start))}

    def mistakes(self, value, path=""):
        """What is wrong with a value, in words."""
        if isinstance(value, list):
            return [mistake for element in value for mistake in self.mistakes(element, path + "[]")]
        members = self.members(path)
        if not isinstance(value, dict) or (not members and self.rows.get(path, ("",))[0].startswith(("object of", "any"))):
            return []
        found = [f"{path}.{name} is missing" for name, (_, optional) in members.items() if not optional and name not in value]
        for name, member in value.items():
            place = f"{path}.{name}".removeprefix(".")
            if name not in members:
                found.append(f"{place} is not documented")
            elif not has_type(member, members[name][0]):
                found.append(f"{place} is {json.dumps(member)[:60]}; documented as {members[name][0]}")
            else:
                found += self.mistakes(member, place)
        return found


class TheTest(unittest.TestCase):
    def test_it_sees_what_is_wrong(self):
        schema = Schema({"a": ("integer", False), "b.c": ("number or null", False), "d": ("array of object", True),
                         "d[].e": ("string", False), "f": ("object of number", True)})
        self.assertEqual(schema.mistakes({"a": 1, "b": {"c": None}, "d": [{"e": ""}], "f": {"any": 2.5}}), [])
        self.assertEqual(schema.mistakes({"a": 1.5, "b": {"c": 2, "x": 1}, "d": [{}]}),
                         ["a is 1.5; documented as integer", "b.x is not documented", "d[].e is missing"])
        self.assertEqual(schema.mistakes({"a": 1}), [".b is missing"])


class Documented(unittest.TestCase):
    """Small models in one folder, and each command on them."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        (cls.folder / "text.txt").write_text("The cat sat on the mat and looked at the dog.\nThe dog looked back for a while.\n" * 20)
        (cls.folder / "nan.attn").write_text("mask = causal\nscore = s - log(d)\n")
        small = ("model.width=16", "model.layers=1", "model.heads=2", "train.steps=1", "train.batch=2", "train.warmup=1",
                 "train.validation_sequences=2", "train.validate_every=1", "train.checkpoint_every=1", "sample.tokens=0")
        cls.small = ("recipes/tiny.toml", *small, "data.tokenizer=bytes", "data.length=128")
        cls.pairs = ("recipes/translation.toml", *small, "model.encoder_layers=1", "data.tokenizer=bpe:300")

    def run_command(self, *words, code=0, **options):
        words = [str(ROOT / word) if str(word).startswith("recipes/") else str(word) for word in words]
        result = subprocess.run([PROGRAM, *words, "--json"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"}, **options)
        self.assertEqual(result.returncode, code, (words, result.stderr))
        return result.stdout

    def hold(self, heading, *words, lines=False, **options):
        """Runs a command; what it prints must be what is documented under the heading."""
        output = self.run_command(*words, **options)
        for text in output.splitlines() if lines else [output]:
            value = json.loads(text)
            self.assertTrue(value, heading)
            self.assertEqual(Schema(TABLES[heading]).mistakes(value), [], heading)
        return value

    def test_formulas(self):
        checks = self.hold("saccade check", "check", "causal", "nan.attn", "--only", "shapes", "gradients-at-bounds", code=1)[1]["checks"]
        self.assertEqual([row["outcome"] for row in checks], ["FAILED", "n/a"])
        self.assertIn("case", checks[0])
        for formula in ("prior", "gpam", "document"):
            self.hold("saccade explain", "explain", formula)
        self.hold("saccade mechanisms", "mechanisms")
        self.hold("saccade language", "language")
        self.hold("saccade check --list", "check", "--list")
        self.hold("saccade mechanisms NAME", "mechanisms", "alibi")
        self.hold("saccade train --keys", "train", "--keys")

    def test_a_trained_model(self):
        plan = self.hold("saccade train --dry-run", "train", *self.small, "--dry-run")
        self.assertGreater(plan["parameters"], 0)
        self.hold("saccade train", "train", *self.small, "--out", "model")
        self.hold("saccade generate", "generate", "model", "--prompt", "Ann", "-n", 2, "--beams", 2)
        self.hold("saccade generate --compare", "generate", "model", "--prompt", "Ann", "-n", 2, "--compare", "model")
        window = ("--data", "text.txt", "--context", 64, "--max-tokens", 256)
        self.hold("saccade eval", "eval", "model", *window, "--robustness", "--length-curve", "--attention", "last10")
        looked = self.hold("saccade diagnose", "diagnose", "model", "--data", "text.txt", "--tokens", 32, "--batch-size", 1,
                           "--attention", "gpam", "--out", "diagnosis")
        self.assertIn("negative", looked["layers"][0]["weights"])
        self.hold("saccade certify", "certify", "model", *window, "--attention", "last10", "--look-windows", 1, "--look-tokens", 32,
                  "--memory-lengths", "32,64", code=1)
        self.hold("saccade convert", "convert", "model", "converted", "--verify")
        sparse = ("--data", "text.txt", "--context", 64, "--query-tile", 16, "--pool", 4, "--rank", 2, "--steps", 1)
        self.hold("saccade distill", "distill", "model", "--kl", 1, *sparse)
        self.hold("saccade distill --attention", "distill", "model", "--data", "text.txt", "--attention", "last10", "--context", 32,
                  "--epochs", 1, "--snippets", 1)
        self.run_command("distill", "model", "--data", "text.txt", "--crossover", code=2)  # is not sparse
        self.run_command("train", *self.small, "model.context=512", "--out", "longer")
        self.run_command("distill", "longer", "--kl", 1, *sparse, "--always", "--out", "sparse")
        timed = self.hold("saccade distill --crossover", "distill", "sparse", "--data", "text.txt", "--crossover")
        self.assertEqual([time["tokens"] for time in timed["times"]], [512])
        written = json.loads((self.folder / "sparse" / "sparse.json").read_text())
        self.assertEqual(written["min_keys"], timed["min_keys"])
        self.assertIn(timed["min_keys"], (512, 1024))  # where it wins, or beyond all that was measured

    def test_a_comparison(self):
        self.hold("saccade compare", "compare", *self.small, "--attention", "causal,prior", "--runs", 1, "--lengths", 1, "--out", "compared")

    def test_translation(self):
        self.run_command("train", *self.pairs, "--out", "pairs")
        lines = (self.folder / "pairs" / "validation.source").read_text().splitlines()[:2]
        (self.folder / "source").write_text("\n".join(lines) + "\n")
        self.hold("saccade translate", "translate", "pairs", "--input", "source", "--n-best", 2, "--max-new-tokens", 2, lines=True)
        self.hold("saccade eval --bleu", "eval", "pairs", "--input", "source", "--bleu", "source", "--beams", 1, "--sentence-level",
                  "--length-curve")
        self.hold("saccade eval --bleu", "eval", "--bleu", "source", "--hypotheses", "source")

    def test_the_rest(self):
        self.hold("saccade bench", "bench", "causal", "--lengths", "16,32", "--forward", "--heads", 1, "--width", 8, "--repeats", 1)
        self.hold("saccade info", "info")
        self.hold("saccade fetch without a name", "fetch")
        self.hold("saccade prepare", "prepare", "text.txt", "--validation", "nan.attn", "--tokenizer", "bytes", "-o", "prepared")
        if "completion" in self.commands():
            self.hold("saccade completion", "completion")

    def commands(self):
        listing = subprocess.run([PROGRAM, "--help"], stdout=subprocess.PIPE, text=True, timeout=60).stdout
        return [line.split()[0] for line in listing.split("Commands:\n")[1].split("\n\n")[0].splitlines()]

    def test_every_command_has_its_section(self):
        for command in self.commands():
            self.assertIn(f"saccade {command}", TABLES)

    def test_every_type_is_one_that_is_explained(self):
        for heading, table in TABLES.items():
            for path, (kind, _) in table.items():
                rest = re.sub(r"^((array|object) of )*", "", kind)
                self.assertTrue(all(each in SIMPLE for each in rest.split(" or ")), (heading, path, kind))


if __name__ == "__main__":
    unittest.main()
