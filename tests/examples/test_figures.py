"""Every picture on a page names the command that makes it, and those that take seconds are made here."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A picture, and the paragraph below it.
PICTURE = re.compile(r"^!\[[^]]*\]\(([^)]+)\)\n\n((?:\S.*\n?)*)", re.MULTILINE)
COMMAND = re.compile(r"`(?:python|rankfold) ")
FIGURES = ROOT / "docs" / "figures"
EXAMPLES = sorted(path.stem for path in (ROOT / "docs" / "examples").glob("*.py"))
GALLERY = runpy.run_path(str(FIGURES / "gallery.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_pictures_exist_and_name_what_makes_them(page):
    found = PICTURE.findall(page.read_text("utf-8"))
    assert len(found) == len(re.findall(r"^!\[", page.read_text("utf-8"), re.MULTILINE))
    for picture, below in found:
        assert (page.parent / picture).is_file(), picture
        assert COMMAND.search(below), picture


def test_the_gallery_shows_every_example():
    page = (ROOT / "docs" / "examples.md").read_text("utf-8")
    assert sorted(GALLERY["SHOWN"]) == EXAMPLES
    for name in EXAMPLES:
        assert f"](figures/example-{name.replace('_', '-')}.png)" in page
        assert f'--8<-- "{name}.py"' in page


def test_pictures_of_examples_can_be_made(tmp_path):
    GALLERY["draw"]("stock_returns", tmp_path)
    assert (tmp_path / "example-stock-returns.png").stat().st_size > 1000


def test_the_picture_of_fibres_can_be_made(tmp_path):
    runpy.run_path(str(FIGURES / "quotient.py"))["main"](str(tmp_path / "fibres.png"))
    assert (tmp_path / "fibres.png").stat().st_size > 1000


@pytest.mark.docs
def test_the_picture_of_a_rank_path_can_be_made(tmp_path):
    chosen = runpy.run_path(str(FIGURES / "rank_path.py"))["main"](str(tmp_path / "path.png"))
    assert chosen == 6
    assert (tmp_path / "path.png").stat().st_size > 1000
