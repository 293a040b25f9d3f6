"""formula_cli_test.py PROGRAM: the commands that take formulas, as a user types them."""

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

PRIOR = """param alpha[head] = 1
param beta[head]  = 1 in [0.01, 4]
mask  = causal
score = s - abs(alpha * d) ^ beta
"""


def run(*arguments, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True, **options}
    return subprocess.run([PROGRAM, *arguments], timeout=300, **options)


class WithFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, text, name="mine.attn"):
        path = pathlib.Path(self.folder.name) / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def check_fails(self, arguments, *messages):
        before = sorted(os.listdir(self.folder.name))
        result = run(*arguments, cwd=self.folder.name)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        for message in messages:
            self.assertIn(message, result.stderr)
        self.assertEqual(sorted(os.listdir(self.folder.name)), before)  # nothing was written


class Explain(WithFolder):
    def test_it_tells_what_follows_from_the_formula(self):
        text = run("explain", self.write(PRIOR)).stdout
        for part in ("weights     = softmax(s - abs(alpha * d) ^ beta)", "allowed     : d >= 0", "d(score) / d(s) = 1",
                     "once per distance", "2016 of 4096 tiles are skipped", "yes: its mask is false for every d < 0",
                     "learned, starts at 1, kept in [0.01, 4]", "fused:"):
            self.assertIn(part, text)

    def test_it_says_why_a_formula_cannot_decode(self):
        for text, reason in (("score = s / n\nmask = causal", "it reads n"), ("score = s", "a key that comes after the query"),
                             ("input t[token]\nmask = causal\nscore = s + t[i + 1]", "t[i + 1], which may lie in the future")):
            self.assertIn(reason, run("explain", self.write(text)).stdout)

    def test_set_changes_a_constant_and_pins_n(self):
        window = self.write("const w = 256\nmask = 0 <= d < w")
        self.assertIn("ring buffer of the last 256 tokens", run("explain", window).stdout)
        self.assertIn("ring buffer of the last 32 tokens", run("explain", window, "--set", "w=32").stdout)
        ape = self.write("mask = causal\nscore = s + 0.1 * (1 - abs(d) / n)", "ape2.attn")
        self.assertTrue(json.loads(run("explain", ape, "--set", "n=512", "--json").stdout)["decoding"]["possible"])

    def test_json_holds_the_facts(self):
        facts = json.loads(run("explain", self.write(PRIOR), "--json", "--length", "1024").stdout)
        self.assertEqual(facts["tiles"], {"n": 1024, "side": 64, "skipped": 120, "full": 120, "mixed": 16})
        self.assertEqual(facts["instructions"]["tile"], 1)
        self.assertEqual(facts["path"]["name"], "fused")
        self.assertIsNone(facts["decoding"]["ring"])

    def test_the_program_is_listed_on_request(self):
        path = self.write(PRIOR)
        self.assertNotIn("registers", run("explain", path).stdout)
        self.assertIn("once per distance (5 instructions", run("explain", path, "--program").stdout)

    def test_it_tells_the_path_and_why(self):
        path = self.write(PRIOR)
        self.assertIn("every formula runs on the fused kernels", run("explain", path).stdout)
        self.assertIn("Path\n  fused: asked for\n", run("explain", path, "--path", "fused").stdout)
        self.assertIn("Path\n  reference: asked for: plain tensor operations", run("explain", path, "--path", "reference").stdout)
        self.assertEqual(json.loads(run("explain", path, "--path", "reference", "--json").stdout)["path"]["name"], "reference")

    def test_it_warns_of_what_is_not_used_and_of_clamped_subscripts(self):
        text = run("explain", self.write("param b[head, 4] = 0\nconst w = 3\nmask = causal\nscore = s + b[d]")).stdout
        self.assertIn("'w' is defined, but nothing uses it", text)
        self.assertIn("b[d] is not provably within 0..3; outside it is clamped", text)


class Check(WithFolder):
    def test_a_conforming_formula_gets_one_line_per_check(self):
        result = run("check", self.write(PRIOR))
        self.assertEqual(result.returncode, 0, result.stdout)
        listed = [line.split()[0] for line in run("check", "--list").stdout.splitlines()[1:]]
        self.assertEqual(re.findall(r"^  ok +(\S+)", result.stdout, re.M), listed)
        self.assertIn(f"{len(listed)} passed, 0 failed, 0 not applicable", result.stdout)

    def test_a_failing_formula_exits_1_with_a_case_and_a_command(self):
        # 1e200 squared overflows double on the way to a score that is an ordinary number.
        result = run("check", self.write("mask = causal\nscore = s + sqrt((d * 1e25) ^ 14) * 1e-30 * 0"), "--only", "finite-gradients", "definition")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("FAILED", result.stdout)
        self.assertIn("smallest case:", result.stdout)
        again = re.search(r"again: saccade (.*)", result.stdout).group(1).split()
        self.assertEqual(run(*again).returncode, 1)

    def test_what_does_not_apply_is_not_called_passed(self):
        result = run("check", "ape", "--only", "cache-tokens")
        self.assertEqual(result.returncode, 0)
        self.assertIn("n/a", result.stdout)
        self.assertIn("0 passed, 0 failed, 1 not applicable", result.stdout)

    def test_one_case_can_be_run_again(self):
        result = run("check", "causal", "--only", "causality", "--case", "b1.h1.g1.q3.k3.o0.d2.v2.r0.s1", "--json")
        checks = json.loads(result.stdout)[0]["checks"]
        self.assertEqual([(check["check"], check["outcome"], check["cases"]) for check in checks], [("causality", "ok", 1)])

    def test_each_path_alone_conforms(self):
        for path in ("fused", "reference"):
            result = run("check", self.write(PRIOR), "--path", path)
            self.assertEqual(result.returncode, 0, result.stdout)

    def test_the_command_to_see_a_failure_again_names_the_path(self):
        result = run("check", self.write("mask = causal\nscore = s + sqrt((d * 1e25) ^ 14) * 1e-30 * 0"), "--only", "finite-gradients",
                     "definition", "--path", "reference")
        self.assertRegex(result.stdout, r"again: saccade check .* --path reference\n")

    def test_mistakes(self):
        self.check_fails(["check"], "no formula given")
        for command in ("check", "explain", "bench"):
            self.check_fails([command, "causal", "--path", "slow"], "--path")
        self.check_fails(["check", "causal", "--only", "causalty"], "did you mean 'causality'?")
        self.check_fails(["check", "causal", "--case", "b1"], "case: cannot read 'b1'")
        self.check_fails(["check", "causal", "--case", "b1.h3.g2.q1.k1.o0.d2.v2.r0.s1"], "3 heads are not a multiple of 2")


class BadInput(WithFolder):
    def test_all_errors_of_a_file_are_shown_at_once_with_a_caret(self):
        path = self.write("param alpha[head] = 1\nmask = s\nscore = s - aplha * d\n")
        result = run("check", path)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn(f"{path}:2:8: mask needs a condition such as 'd >= 0', but 's' is a number\n    mask = s\n           ^", result.stderr)
        self.assertIn(f"{path}:3:13: unknown name 'aplha'; did you mean 'alpha'?\n    score = s - aplha * d\n                ^^^^^", result.stderr)

    def test_files_that_are_none(self):
        for command in ("explain", "check"):
            self.check_fails([command, "nowhere.attn"], "nowhere.attn")
            self.check_fails([command, "alibbi"], "did you mean 'alibi'?")
            self.check_fails([command, self.folder.name], self.folder.name)
            self.check_fails([command, "/dev/zero"], "/dev/zero")

    def test_hostile_text(self):
        texts = {"binary": bytes(range(256)), "nul": b"score = s\0", "huge": b"# " + b"x" * 1_000_000, "deep": b"score = " + b"(" * 50_000,
                 "latin": "score = s − d".encode(), "long": b"score = s" + b" + s" * 10_000, "number": b"score = " + b"9" * 5000}
        for name, text in texts.items():
            with self.subTest(name):
                self.check_fails(["check", self.write(text, name + ".attn")], name + ".attn")

    def test_an_empty_file_is_plain_attention(self):
        self.assertIn("every pair", run("explain", self.write("")).stdout)

    def test_set_needs_a_known_constant_and_a_number(self):
        path = self.write("const width = 4\nmask = 0 <= d < width")
        self.check_fails(["explain", path, "--set", "widht=3"], "did you mean 'width'?")
        self.check_fails(["explain", path, "--set", "width=three"], "expected a name and a number")
        self.check_fails(["explain", path, "--set", "width"], "expected a name and a number")
        self.check_fails(["explain", path, "--set", "n=0"], "expected a whole number of keys")


class Mechanisms(unittest.TestCase):
    def test_one_line_each(self):
        files = sorted(path.stem for path in (ROOT / "mechanisms").glob("*.attn"))
        listing = run("mechanisms").stdout.split("\n\n")[0].splitlines()[1:]
        self.assertEqual([line.split()[0] for line in listing], files)
        self.assertEqual([entry["name"] for entry in json.loads(run("mechanisms", "--json").stdout)], files)

    def test_one_by_name_is_its_file(self):
        self.assertEqual(run("mechanisms", "alibi").stdout, (ROOT / "mechanisms" / "alibi.attn").read_text())
        self.assertEqual(run("mechanisms", "alibbi").returncode, 2)


class Documentation(unittest.TestCase):
    def test_the_language_reference_is_the_programs_own(self):
        self.assertEqual((ROOT / "docs" / "language.md").read_text(), run("language").stdout,
                         "run: build/saccade language > docs/language.md")

    def test_the_tables_of_the_language_are_there_as_json_too(self):
        tables = json.loads(run("language", "--json").stdout)
        text = (ROOT / "docs" / "language.md").read_text()
        rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("|---")]
        for row in tables["operations"] + tables["norms"]:
            self.assertIn(f"| `{row['written']}` | {row['meaning'].replace('|', chr(92) + '|')} |", text)
        for row in tables["statements"]:
            self.assertIn(f"| `{row['example']}` | {row['meaning']} |", text)
        for row in tables["host_functions"]:
            self.assertIn(f"| `{row['name']}` | {row['meaning']} |", text)
        names = [name for row in tables["variables"] for name in row["names"]]
        self.assertEqual(names, ["s", "i", "j", "d", "h", "H", "n", "causal", "full", "inf"])
        headers = 6  # one line of each table
        kinds = ("statements", "dimensions", "variables", "operations", "norms", "host_functions")
        self.assertEqual(sum(len(tables[kind]) for kind in kinds) + headers, len(rows))
        power = next(row for row in tables["operations"] if row["name"] == "^")
        self.assertEqual((power["operands"], len(power["derivatives"]), power["result"]), (2, 2, "real"))
        self.assertEqual(next(row for row in tables["operations"] if row["name"] == "floor")["derivatives"], ["0"])
        self.assertGreater(tables["limits"]["text_bytes"], 0)

    def test_the_readme_lists_every_mechanism_with_its_line(self):
        readme = (ROOT / "README.md").read_text()
        for entry in json.loads(run("mechanisms", "--json").stdout):
            self.assertIn(f"| [`{entry['name']}`](mechanisms/{entry['name']}.attn) | {'yes' if entry['decodes'] else 'no'} | {entry['summary']} |", readme)


class Bench(unittest.TestCase):
    SMALL = ("--heads", "2", "--repeats", "1", "--json")

    def rows(self, *arguments):
        return json.loads(run("bench", *arguments, *self.SMALL).stdout)["rows"]

    def test_it_sets_a_formula_beside_torch(self):
        rows = self.rows("causal", "--length", "16", "32")
        self.assertEqual([(row["n"], row["work"]) for row in rows if row["by"] == "saccade"],
                         [(16, "forward"), (16, "training step"), (32, "forward"), (32, "training step")])
        self.assertEqual({row["by"] for row in rows}, {"saccade", "naive", "sdpa"})
        for row in rows:
            self.assertIsNone(row["failure"])
            self.assertGreater(row["seconds"], 0)
            self.assertGreater(row["bytes"], 0)
            if row["by"] != "saccade":
                self.assertLess(row["error"], 1e-4)

    def test_lengths_work_and_rivals_can_be_chosen(self):
        rows = self.rows("prior", "--lengths", "8,16", "--decode", "--kv-heads", "1", "--rivals", "sdpa-bias")
        self.assertEqual([(row["n"], row["by"]) for row in rows],
                         [(8, "saccade"), (8, "sdpa-bias"), (16, "saccade"), (16, "sdpa-bias")])
        self.assertEqual({row["work"] for row in rows}, {"decoding step"})

    def test_wrong_choices_are_named(self):
        self.assertIn("did you mean 'sdpa'", run("bench", "causal", "--rivals", "spda").stderr)
        self.assertIn("cannot decode", run("bench", "full", "--decode", "--length", "8").stderr)
        self.assertIn("no target", run("bench", "--targets", "--only", "nothing like it").stderr)
        for arguments in (("--rivals", "spda"), ("--only", "x"), ("--dtype", "int")):
            self.assertEqual(run("bench", "causal", *arguments).returncode, 2)


if __name__ == "__main__":
    sys.exit(unittest.main())
