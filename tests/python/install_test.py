"""pip makes a package that can be imported from elsewhere: with the library of this build, so that nothing is compiled twice. That pip can
also compile it is shown by `pip install ./python`, which takes minutes and is left to people."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

import support

support.require()

ROOT = pathlib.Path(__file__).parents[2]
LIBRARY = os.environ["SACCADE_LIBRARY"]


class Install(unittest.TestCase):
    def test_the_version_is_the_same_everywhere(self):
        import saccade

        built = re.search(r"project\(saccade VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        packed = re.search(r'^version = "(.*)"', (ROOT / "python" / "pyproject.toml").read_text(), re.MULTILINE).group(1)
        self.assertEqual({built, packed}, {saccade.__version__})

    def test_a_wheel_for_this_python(self):
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder)
            command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir", folder,
                       "-C", f"cmake.define.SACCADE_OPERATORS_LIBRARY={LIBRARY}", "-C", f"build-dir={target / 'build'}", str(ROOT / "python")]
            # Without scikit-build-core here, pip fetches it from the package index.
            if importlib.util.find_spec("scikit_build_core"):
                command.insert(4, "--no-build-isolation")
            made = subprocess.run(command, capture_output=True, text=True, timeout=300)
            if "Could not find a version" in made.stderr or "No matching distribution" in made.stderr:
                self.skipTest("scikit-build-core is not installed, and the package index cannot be reached")
            self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
            wheel, = target.glob("saccade-0.1.0-*.whl")
            self.assertIn(f"cp{sys.version_info.major}{sys.version_info.minor}", wheel.name)
            with zipfile.ZipFile(wheel) as archive:
                names = set(archive.namelist())
                archive.extractall(target / "installed")
            sources = {str(path.relative_to(ROOT / "python")) for path in (ROOT / "python" / "saccade").rglob("*.py")}
            self.assertLessEqual(sources | {"saccade/py.typed", "saccade/libsaccade_operators.so"}, names)
            environment = {name: value for name, value in os.environ.items() if not name.startswith("SACCADE_")}
            environment["PYTHONPATH"] = str(target / "installed")
            code = "import saccade, torch; q = torch.ones(1, 2, 3, 4); print(saccade.__file__, saccade.attention(q, q, q, 'prior').sum().item())"
            found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=folder)
            self.assertEqual(found.returncode, 0, found.stderr)
            self.assertEqual(found.stdout.split(), [str(target / "installed" / "saccade" / "__init__.py"), "24.0"])


if __name__ == "__main__":
    support.main()
