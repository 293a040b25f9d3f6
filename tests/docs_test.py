"""docs_test.py: links between the pages lead somewhere, and the index of the documentation names every page."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def anchors(page):
    """What can stand behind the #: headings as GitHub spells them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Links(unittest.TestCase):
    def test_they_lead_somewhere(self):
        for page in PAGES:
            for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
                if "://" in target:
                    continue
                file, _, anchor = target.partition("#")
                place = (page.parent / file).resolve() if file else page
                with self.subTest(page=page.name, target=target):
                    self.assertTrue(place.exists())
                    if anchor:
                        self.assertIn(anchor, anchors(place))

    def test_the_index_names_every_page(self):
        index = (ROOT / "docs" / "README.md").read_text()
        for page in PAGES[2:]:
            if page.name != "README.md":
                self.assertIn(f"({page.name})", index)


if __name__ == "__main__":
    unittest.main()
