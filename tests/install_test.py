"""Installs the library into a new folder and builds the example project with it, as someone else would."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CMAKE, BUILD = sys.argv[1:3]


def run(*command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
    return result.stdout


class TestInstall(unittest.TestCase):
    def test_the_example_builds_and_agrees_with_itself(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix, build = Path(folder) / "prefix", Path(folder) / "build"
            run(CMAKE, "--install", BUILD, "--prefix", prefix)
            self.assertTrue((prefix / "include/saccade/saccade.h").exists())
            self.assertFalse(list(prefix.rglob("testing.h")))
            self.assertTrue(os.access(prefix / "bin/saccade", os.X_OK))
            run(CMAKE, "-S", ROOT / "examples/cpp", "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
            run(CMAKE, "--build", build)
            output = run(build / "own_attention", env={**os.environ, "OMP_NUM_THREADS": "1"})
            self.assertIn("path: fused", output)
            self.assertIn("gradient of alpha", output)
            self.assertIn("checks that failed: 0", output)
            # Nothing of the tree that it was built in is needed: only where LibTorch lies is remembered.
            configuration = "".join(path.read_text() for path in prefix.rglob("*.cmake"))
            self.assertNotIn(str(ROOT / "src"), configuration)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
