"""view_test.py PROGRAM NPM: `saccade view`, from its first line to what a person sees in a browser. NPM is the folder that
scripts/setup fills. The test of the page exits as skipped when node, chromium or a package is missing."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

PROGRAM, NPM = (str(pathlib.Path(sys.argv.pop(1)).resolve()) for _ in range(2))
PAGE = pathlib.Path(__file__).resolve().parent / "view_page.mjs"
RECIPES = PAGE.parent.parent / "recipes"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SMALL = ("model.width=32", "model.heads=4", "model.layers=2", "train.steps=20", "train.batch=4", "train.validation_sequences=2",
         "data.length=64", "model.context=128", "sample.tokens=0")


def missing():
    if not shutil.which("node"):
        return "node is not installed"
    if not BROWSER:
        return "chromium is not installed"
    for package in ("playwright-core", "axe-core"):
        if not (pathlib.Path(NPM) / "node_modules" / package).is_dir():
            return f"the npm package {package} is not in {NPM}; scripts/setup installs it"
    return None


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
        self.assertEqual([each["head"] for each in capture["maps"]], [0, 1, 2, 3])
        self.assertEqual(capture["attention"], "prior")

    def test_the_page(self):
        reason = missing()
        if reason:
            self.skipTest(reason)
        with Viewer(self.path / "prior", "--compare", self.path / "causal") as viewer:
            environment = {**os.environ, "SACCADE_NPM": NPM, "SACCADE_BROWSER": BROWSER}
            done = subprocess.run(["node", PAGE, viewer.address], capture_output=True, text=True, timeout=200, env=environment)
            self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr[-3000:])


if __name__ == "__main__":
    program = unittest.main(exit=False)
    sys.exit(not program.result.wasSuccessful() or (77 if missing() else 0))
