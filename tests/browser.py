"""What Python tests of pages share: where the browser is, what is missing, and running a script of checks in it."""

import os
import pathlib
import shutil
import subprocess

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def missing(npm):
    """Why pages cannot be tested; None when they can. `npm` is the folder that scripts/setup fills."""
    if not shutil.which("node"):
        return "node is not installed"
    if not BROWSER:
        return "chromium is not installed"
    for package in ("playwright-core", "axe-core"):
        if not (pathlib.Path(npm) / "node_modules" / package).is_dir():
            return f"the npm package {package} is not in {npm}; scripts/setup installs it"
    return None


def browse(test, npm, script, *words):
    """Runs the checks of a script on browser.mjs; each that failed is a line of the failure."""
    environment = {**os.environ, "SACCADE_NPM": str(npm), "SACCADE_BROWSER": BROWSER}
    done = subprocess.run(["node", script, *map(str, words)], capture_output=True, text=True, timeout=300, env=environment)
    test.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr[-3000:])
