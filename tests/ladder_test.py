"""Holds every #include to the ladder: a rung uses only what its saccade_rung line in CMakeLists.txt links.

All rungs share one include directory, so the compiler alone would let a low rung include a high one. They also share one
namespace, and a linker that meets two types of one name takes the functions of either for both.
"""

import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Headers of other libraries, by the first part of their path, and the target that must be linked to use them.
LIBRARIES = {
    "ATen": "LibTorch::torch",
    "c10": "LibTorch::torch",
    "torch": "LibTorch::torch",
    "hwy": "hwy::hwy",
    "CLI": "CLI11::CLI11",
    "spdlog": "spdlog::spdlog",
    "nlohmann": "nlohmann_json::nlohmann_json",
    "pcre2.h": "PCRE2::8bit",
    "utf8proc.h": "utf8proc::utf8proc",
}
TORCH_FREE = ("base", "formula", "kernels", "text", "weights", "report")
KEYWORDS = {"LINKS", "SOURCES", "PCH", "MAIN", "APART", "COLD"}


def read_rungs(cmake):
    """The rungs in order, each with all that it may use: its links and, through them, theirs."""
    rungs = {}
    cmake = re.sub(r"#.*", "", cmake)
    for call in re.findall(r"saccade_rung\(([^)]*)\)", cmake):
        name, *words = call.split()
        keyword, links = None, set()
        for word in words:
            if word in KEYWORDS:
                keyword = word
            elif keyword == "LINKS":
                links |= {word} | rungs.get(word, set())
        rungs[name] = links
    return rungs


def find_namesakes(root):
    """One line for each type of a header that another header gives the same name in the same namespace."""
    places = {}
    for path in sorted((root / "src/saccade").rglob("*.h")):
        text = path.read_text()
        namespace = re.search(r"^namespace ([\w:]+) \{", text, re.MULTILINE)
        for name in re.findall(r"^(?:struct|class|enum class) (\w+)(?: final)?(?: : [\w:<>, ]+)? \{", text, re.MULTILINE):
            places.setdefault((namespace and namespace.group(1), name), []).append(str(path.relative_to(root)))
    return [f"{name}: {', '.join(files)}" for (_, name), files in places.items() if len(files) > 1]


def find_violations(root):
    """One line for each #include that its rung may not make."""
    rungs = read_rungs((root / "CMakeLists.txt").read_text())
    folders = {path.name for path in (root / "src/saccade").iterdir() if path.is_dir()}
    found = [f"src/saccade/{folder}: no saccade_rung line in CMakeLists.txt" for folder in sorted(folders - rungs.keys())]
    for folder in sorted(folders & rungs.keys()):
        for path in sorted((root / "src/saccade" / folder).rglob("*")):
            if path.suffix not in (".h", ".cc"):
                continue
            for number, line in enumerate(path.read_text().splitlines(), start=1):
                include = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
                if include:
                    reason = judge(include.group(1), folder, rungs)
                    if reason:
                        found.append(f"{path.relative_to(root)}:{number}: {include.group(1)}: {reason}")
    return found


def judge(header, folder, rungs):
    """Why a file of the rung may not include the header, or nothing."""
    parts = header.split("/")
    if "." in parts or ".." in parts:
        return "a path relative to the file hides which rung it belongs to"
    if parts[0] == "saccade" and len(parts) > 2:
        if parts[1] != folder and parts[1] not in rungs[folder]:
            return f"{folder} does not link {parts[1]}"
    elif parts[0] == "saccade" and parts[1] == "torch_pch.h":
        return "the build includes the precompiled header"
    elif parts[0] in LIBRARIES and LIBRARIES[parts[0]] not in rungs[folder]:
        return f"{folder} does not link {LIBRARIES[parts[0]]}"
    return None


class Project(unittest.TestCase):
    def test_every_include_keeps_to_the_ladder(self):
        self.assertEqual(find_violations(ROOT), [])

    def test_every_type_has_a_name_of_its_own(self):
        self.assertEqual(find_namesakes(ROOT), [])

    def test_low_rungs_stand_without_torch(self):
        rungs = read_rungs((ROOT / "CMakeLists.txt").read_text())
        self.assertIn("base", rungs)
        for name in TORCH_FREE:
            self.assertNotIn("LibTorch::torch", rungs.get(name, set()), name)


class Checker(unittest.TestCase):
    """The checker itself, on small trees: it must be able to fail."""

    CMAKE = """
        saccade_rung(base LINKS fmt::fmt)  # saccade_rung(comment LINKS nothing)
        saccade_rung(formula LINKS base SOURCES "${x}/generated.cc")
        saccade_rung(attention LINKS formula LibTorch::torch
                     PCH ${torch_pch})
    """

    def violations(self, files):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / "CMakeLists.txt").write_text(self.CMAKE)
            (root / "src/saccade").mkdir(parents=True)
            for name, text in files.items():
                path = root / "src/saccade" / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            return find_violations(root)

    def test_links_reach_through_lower_rungs(self):
        rungs = read_rungs(self.CMAKE)
        self.assertEqual(list(rungs), ["base", "formula", "attention"])
        self.assertEqual(rungs["attention"], {"formula", "base", "fmt::fmt", "LibTorch::torch"})

    def test_lower_rungs_may_be_included(self):
        text = '#include "saccade/base/a.h"\n#include "saccade/version.h"\n#include <torch/types.h>\n#include <vector>\n'
        self.assertEqual(self.violations({"attention/a.cc": text, "base/a.h": ""}), [])

    def test_higher_rungs_may_not(self):
        found = self.violations({"base/a.cc": '\n#  include "saccade/formula/a.h"\n'})
        self.assertEqual(found, ["src/saccade/base/a.cc:2: saccade/formula/a.h: base does not link formula"])

    def test_torch_only_where_it_is_linked(self):
        for header in ("torch/torch.h", "ATen/ATen.h", "c10/util/Exception.h"):
            self.assertEqual(len(self.violations({"formula/a_test.cc": f"#include <{header}>\n"})), 1, header)

    def test_relative_paths_are_refused(self):
        self.assertEqual(len(self.violations({"base/a.h": '#include "../formula/a.h"\n'})), 1)

    def test_types_of_one_name_are_found(self):
        one, other = "namespace saccade {\nstruct One {\n", "namespace saccade {\nclass One final : public Base<int> {\n"
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for name, text in {"base/a.h": one, "text/b.h": other, "bench/c.h": one.replace("saccade {", "saccade::bench {")}.items():
                path = root / "src/saccade" / name
                path.parent.mkdir(parents=True)
                path.write_text(text)
            self.assertEqual(find_namesakes(root), ["One: src/saccade/base/a.h, src/saccade/text/b.h"])

    def test_a_folder_without_a_rung_is_found(self):
        self.assertEqual(len(self.violations({"stray/a.cc": ""})), 1)


if __name__ == "__main__":
    sys.exit(unittest.main())
