"""view_test.py PROGRAM NPM: `saccade view`, from its first line to what a person sees in a browser. NPM is the folder that
scripts/setup fills. The test of the page exits as skipped when node, chromium or a package is missing."""

import base64
import json
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

from browser import browse, missing

PROGRAM, NPM = (str(pathlib.Path(sys.argv.pop(1)).resolve()) for _ in range(2))
PAGE = pathlib.Path(__file__).resolve().parent / "view_page.mjs"
RECIPES = PAGE.parent.parent / "recipes"
SMALL = ("model.width=32", "model.heads=4", "model.layers=2", "train.steps=20", "train.batch=4", "train.validation_sequences=2",
         "data.length=64", "model.context=128", "sample.tokens=0")


def floats(text):
    data = base64.b64decode(text)
    return list(struct.unpack(f"<{len(data) // 4}f", data))


class Viewer:
    """The program while it serves."""

    def __init__(self, *words):
        self.process = subprocess.Popen([PROGRAM, "view", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)

    def ask(self, name, question):
        request = urllib.request.Request(self.address + name, json.dumps(question).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


class View(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.directory.name)
        for name in ("prior", "causal"):
            subprocess.run([PROGRAM, "train", RECIPES / "tiny.toml", f"attention={name}", *SMALL, "--out", cls.path / name, "--quiet"],
                           check=True, capture_output=True, timeout=120)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def refused(self, *words):
        result = subprocess.run([PROGRAM, "view", *map(str, words)], capture_output=True, text=True, timeout=60)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        return result.stderr

    def test_without_a_model_it_shows_formulas(self):
        with Viewer() as viewer:
            status, answer = viewer.ask("describe", {})
            self.assertEqual((status, answer["models"]), (200, {}))
            self.assertEqual(viewer.ask("formula", {"formula": "score = s - "})[1]["errors"][0]["line"], 1)
            status, answer = viewer.ask("attention", {"text": "a", "layer": 0})
            self.assertEqual(status, 400)
            self.assertIn("no model was given", answer["error"])

    def test_wrong_arguments(self):
        self.assertIn("none", self.refused(self.path / "none"))
        self.assertIn("expected a model first", self.refused("--attention", "alibi"))
        self.assertIn("expected one of them", self.refused(self.path / "prior", "--attention", "alibi", "--compare", self.path / "causal"))
        self.assertIn("alibbi", self.refused(self.path / "prior", "--attention", "alibbi"))

    def test_ctrl_c_ends_it(self):
        viewer = Viewer(self.path / "prior", "--json")
        self.assertTrue(json.loads(viewer.address)["address"].startswith("http://127.0.0.1:"))
        viewer.process.send_signal(signal.SIGINT)
        self.assertEqual(viewer.process.wait(timeout=20), 130)
        viewer.process.communicate()

    def test_captured_weights_are_those_of_the_viewer(self):
        text = self.path / "text.txt"
        text.write_text("Ann gave Ben a key.")
        out = self.path / "diagnosis"
        subprocess.run([PROGRAM, "diagnose", self.path / "prior", "--data", text, "--capture", "1", "--out", out], check=True,
                       capture_output=True, timeout=60)
        capture = json.loads((out / "attention.json").read_text())
        with Viewer(self.path / "prior") as viewer:
            answer = viewer.ask("attention", {"text": "Ann gave Ben a key.", "layer": 1})[1]
        self.assertEqual(capture["tokens"], answer["tokens"])
        tokens = len(answer["tokens"])
        self.assertEqual([each["head"] for each in capture["maps"]], [0, 1, 2, 3])
        for stored, shown in zip(capture["maps"], answer["heads"]):
            self.assertTrue(stored["triangle"])
            triangle, whole = floats(stored["weights"]), floats(shown["weights"])
            self.assertEqual(triangle, [whole[row * tokens + key] for row in range(tokens) for key in range(row + 1)])
            self.assertAlmostEqual(sum(triangle), tokens, places=4)  # every row sums to 1
        self.assertEqual(capture["attention"], "prior")

    def test_the_page(self):
        reason = missing(NPM)
        if reason:
            self.skipTest(reason)
        with Viewer(self.path / "prior", "--compare", self.path / "causal") as viewer:
            browse(self, NPM, PAGE, viewer.address)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    sys.exit(not program.result.wasSuccessful() or (77 if missing(NPM) else 0))
