"""cpp_guide_test.py PROGRAM: every block of C++ in docs/cpp.md stands in tests/cpp_guide.cc, which was compiled, and its program ends well."""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = sys.argv.pop(1)


def bare(code):
    """Without comments, blanks and line ends, which may differ."""
    return re.sub(r"\s", "", re.sub(r"//.*", "", code))


class Guide(unittest.TestCase):
    def test_its_code_is_compiled(self):
        compiled = bare((ROOT / "tests" / "cpp_guide.cc").read_text())
        blocks = re.findall(r"```cpp\n(.*?)```", (ROOT / "docs" / "cpp.md").read_text(), re.DOTALL)
        self.assertGreater(len(blocks), 8)
        for block in blocks:
            self.assertIn(bare(block), compiled, block)

    def test_what_it_says_is_true(self):
        result = subprocess.run([PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertNotIn("does not hold", result.stdout)
        self.assertIn("key has 3 heads, query has 8; 8 is not a multiple of 3", result.stdout)


if __name__ == "__main__":
    unittest.main()
