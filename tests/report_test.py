"""report_test.py PROGRAM NPM: `saccade report`, from small results to what a reader sees in a browser. NPM is the folder
that scripts/setup fills. The tests of the page exit as skipped when node, chromium or a package is missing."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from browser import browse, missing
from report_fixtures import EVIL, Fixtures

PROGRAM, NPM = (str(pathlib.Path(sys.argv.pop(1)).resolve()) for _ in range(2))
PAGE = pathlib.Path(__file__).resolve().parent / "report_page.mjs"


def report(*words):
    return subprocess.run([PROGRAM, "report", *map(str, words)], capture_output=True, text=True, timeout=300)


class Mistakes(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.directory.name)

    def tearDown(self):
        self.directory.cleanup()

    def refused(self, *words):
        out = self.path / "out.html"
        result = report(*words, "-o", out)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        self.assertFalse(out.exists())
        return result.stderr

    def test_what_is_not_there(self):
        self.assertIn("there is no such file or folder", self.refused(self.path / "none"))

    def test_a_folder_without_results_says_what_it_has_and_what_was_expected(self):
        (self.path / "stray").mkdir()
        (self.path / "stray/notes.txt").write_text("x")
        message = self.refused(self.path / "stray")
        self.assertIn("found notes.txt", message)
        for name in ("recipe.toml (training run)", "comparison.json", "certificate.json", "saccade bench --json"):
            self.assertIn(name, message)

    def test_other_json_is_told_by_its_members(self):
        (self.path / "a.json").write_text('{"answer": 42}')
        self.assertIn("found 'answer'", self.refused(self.path / "a.json"))

    def test_broken_json_is_told_by_file_line_and_column(self):
        (self.path / "a.json").write_text('{"rows": [\n  1,\n  oops]}')
        self.assertIn(f"{self.path}/a.json:3:3: ", self.refused(self.path / "a.json"))

    def test_a_broken_line_within_metrics_is_told_by_its_number(self):
        run = self.path / "run"
        run.mkdir()
        (run / "recipe.toml").write_text('name = "x"\nattention = "causal"\nseed = 1\n')
        (run / "metrics.jsonl").write_text('{"step":1,"loss":2}\n{"step":2,"lo\n{"step":3,"loss":1}\n')
        self.assertIn(f"{run}/metrics.jsonl:2:", self.refused(run))

    def test_a_file_that_lacks_a_member_is_told_by_its_place(self):
        (self.path / "frontier.json").write_text('{"tokens": 5, "curves": [{"name": "a", "points": [{"density": "x"}]}]}')
        self.assertIn("curves[0].points[0].density is text; expected a number", self.refused(self.path / "frontier.json"))


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = missing(NPM)
        if reason:
            raise unittest.SkipTest(reason)
        cls.directory = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.directory.name)
        make = cls.fixtures = Fixtures(PROGRAM, cls.path)
        comparison = make.comparison()
        certificate = make.certificate(comparison / "causal-1")
        cls.inputs = [comparison, make.benchmark(), certificate, make.samples(comparison / "causal-1", comparison / "prior-1"),
                      make.diagnosis(comparison / "prior-1"), make.evaluation(comparison / "causal-1"), make.frontier(),
                      make.distillation(), make.attention(), make.torn_run(comparison / "prior-1"), comparison / "causal-2"]

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def test_every_kind_is_recognised_and_the_page_holds_what_the_files_say(self):
        out = self.path / "report.html"
        result = report(*self.inputs, "-o", out, "--title", "All of it " + EVIL, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        made = json.loads(result.stdout)
        self.assertEqual(made["bytes"], out.stat().st_size)
        kinds = [section["kind"] for section in made["sections"]]
        self.assertEqual(kinds, ["training run", "comparison", "benchmark", "frontier", "distillation", "certificate", "evaluation",
                                 "diagnosis", "attention capture", "sample"])
        self.assertIn("torn/metrics.jsonl: the last line is cut off", made["sections"][0]["notes"][0])
        again = self.path / "again.html"
        report(*self.inputs, "-o", again, "--title", "All of it " + EVIL)
        self.assertEqual(out.read_bytes(), again.read_bytes(), "the same inputs give the same page")
        browse(self, NPM, PAGE, "report", out, self.path)

    def test_a_long_text_is_drawn_quickly_and_exactly(self):
        out = self.path / "long.html"
        self.assertEqual(report(self.fixtures.long_attention(), "-o", out).returncode, 0)
        browse(self, NPM, PAGE, "long", out)


if __name__ == "__main__":
    if missing(NPM):
        print(f"the tests of the page are skipped: {missing(NPM)}")
    program = unittest.main(exit=False)
    sys.exit(not program.result.wasSuccessful() or (77 if missing(NPM) else 0))
