"""embed_test.py CMAKE COMPILER: formulas and web files of any content come out of the generated sources byte for byte."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CMAKE, COMPILER = sys.argv.pop(1), sys.argv.pop(1)

PRINTER = r"""
#include <cstdio>
#include "saccade/formula/mechanisms.h"
int main() {
  for (const auto& [name, text] : saccade::embedded_mechanisms()) {
    std::printf("%.*s %zu\n", static_cast<int>(name.size()), name.data(), text.size());
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
}
"""

WEB_PRINTER = PRINTER.replace("saccade/formula/mechanisms.h", "saccade/report/web_files.h").replace("embedded_mechanisms", "web_files")


class Embed(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.directory.name)

    def tearDown(self):
        self.directory.cleanup()

    def generate(self, files):
        for name, content in files.items():
            (self.root / name).write_bytes(content)
        paths = [str(self.root / name) for name in files]
        script = str(ROOT / "cmake/embed_mechanisms.cmake")
        command = [CMAKE, f"-DOUTPUT={self.root}/mechanisms.cc", "-P", script, *paths]
        return subprocess.run(command, capture_output=True, text=True)

    def embedded(self, generated="mechanisms.cc", printer=PRINTER):
        """What a program that links the generated source finds in it."""
        (self.root / "printer.cc").write_text(printer)
        sources = [self.root / generated, self.root / "printer.cc"]
        flags = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT}/src"]
        subprocess.run([COMPILER, *flags, *sources, "-o", self.root / "printer"], check=True)
        return subprocess.run([self.root / "printer"], capture_output=True, check=True).stdout

    def test_any_content_in_any_order(self):
        files = {
            "window.attn": b"mask = 0 <= d < w\n",
            "bytes.attn": bytes(range(256)) * 3,
            "awkward.attn": b'R"(x)" ;[${x}] @x@ \\ \r\n # "quoted" \xc3\xa9 ]==] )" \\',
            "empty.attn": b"",
            "long1.attn": b"# a long comment\n" * 6000,
        }
        self.assertEqual(self.generate(files).returncode, 0)
        expected = b"".join(
            f"{name.removesuffix('.attn')} {len(content)}\n".encode() + content for name, content in sorted(files.items())
        )
        self.assertEqual(self.embedded(), expected)

    def test_web_files_keep_their_names_and_order(self):
        files = {"b.min.js": b"let x = `</a>${1}` ;[$] \\ \xe2\x80\xa8\n", "LICENSE": b"(c)\r\n", "a.css": bytes(range(256))}
        for name, content in files.items():
            (self.root / name).write_bytes(content)
        command = [CMAKE, f"-DOUTPUT={self.root}/web.cc", "-DFUNCTION=web_files", "-P", str(ROOT / "cmake/embed_web.cmake"), "--"]
        subprocess.run([*command, *(str(self.root / name) for name in files)], check=True)
        expected = b"".join(f"{name} {len(content)}\n".encode() + content for name, content in files.items())
        self.assertEqual(self.embedded("web.cc", WEB_PRINTER), expected)

    def test_none_at_all(self):
        self.assertEqual(self.generate({}).returncode, 0)
        self.assertEqual(self.embedded(), b"")

    def test_names_that_nobody_could_type_are_refused(self):
        for name in ("Upper.attn", "two words.attn", "1st.attn", "a-b.attn"):
            result = self.generate({name: b""})
            self.assertNotEqual(result.returncode, 0, name)
            self.assertIn("a mechanism's name is", result.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
