"""demo_test.py PROGRAM: `saccade demo --quick` goes through all its stages and says what it found."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())


class Demo(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.directory.name)

    def tearDown(self):
        self.directory.cleanup()

    def run_demo(self, *words):
        return subprocess.run([PROGRAM, "demo", *words], capture_output=True, text=True, timeout=300, cwd=self.path)

    def test_all_stages(self):
        result = self.run_demo("--quick", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        told = json.loads(result.stdout)
        self.assertEqual([each["stage"] for each in told["findings"]],
                         ["formulas", "speed", "training", "inside", "sparse mask", "certificate", "texts", "report"])
        self.assertEqual(told["findings"][0]["found"][:13], "4 of 4 confor")
        self.assertIn("step of 256 tokens", told["findings"][1]["found"])
        for number in range(1, 9):
            self.assertIn(f"{number}/8  ", result.stderr)
        page = (self.path / told["report"]).read_text()
        for words in ("Comparison: demo", "Speed and memory", "Sparse attention", "Certificate", "Diagnosis", "Attention", "Samples"):
            self.assertIn(words, page)
        self.assertEqual(json.loads((self.path / "runs/demo/demo.json").read_text()), told)
        self.assertEqual(len(told["next"]), 3)
        # Every command that it names is one that can be typed.
        for command in told["commands"]:
            self.assertTrue(command.startswith("saccade "), command)

    def test_only_what_a_demo_wrote_is_replaced(self):
        folder = self.path / "mine"
        (folder / "compare").mkdir(parents=True)
        (folder / "demo.json").write_text("{}")
        (folder / "notes.txt").write_text("keep")
        (folder / "compare/old").write_text("stale")
        demo = subprocess.Popen([PROGRAM, "demo", "--quick", "--out", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertIn("1/8", demo.stdout.readline())  # the folder is ready by then
        demo.kill()
        demo.communicate()
        self.assertEqual((folder / "notes.txt").read_text(), "keep")
        self.assertFalse((folder / "compare/old").exists())

    def test_a_folder_of_others_is_left_alone(self):
        (self.path / "mine").mkdir()
        (self.path / "mine/notes.txt").write_text("keep")
        result = self.run_demo("--out", "mine")
        self.assertEqual(result.returncode, 2)
        self.assertIn("was not written by a demo", result.stderr)
        self.assertEqual((self.path / "mine/notes.txt").read_text(), "keep")


if __name__ == "__main__":
    unittest.main()
