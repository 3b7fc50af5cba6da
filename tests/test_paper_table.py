"""The table of the paper's items names only what is there: each place in the code, and each test."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACE = r"`([\w.]+)` in `([\w/-]+\.py)`"
TEST = r"`(tests/[\w/]+\.py)::(test_\w+)`"


def rows(text):
    """The rows of the tables with five columns that begin with a number."""
    cells = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines())
    return [row for row in cells if len(row) == 5 and row[0].isdigit()]


def defined(body):
    """The names that the statements of a module or a class define, with what defines them."""
    names = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = node
        elif isinstance(node, ast.Assign):
            names |= {
                n.id: node for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)
            }
    return names


@functools.cache
def parsed(path):
    return ast.parse(path.read_text("utf-8"))


def is_there(name, file):
    """Whether a file of the package, or of the repository, defines a name, or a class a member."""
    path = next((p for p in (ROOT / "src" / "rankfold" / file, ROOT / file) if p.is_file()), None)
    if path is None:
        return False
    body = parsed(path).body
    for part in name.split("."):
        node = defined(body).get(part)
        if node is None:
            return False
        body = getattr(node, "body", [])
    return True


ROWS = rows((ROOT / "docs" / "paper-tables.md").read_text("utf-8"))


def test_there_are_all_items_and_they_are_numbered():
    assert len(ROWS) >= 99
    assert [int(row[0]) for row in ROWS] == list(range(1, len(ROWS) + 1))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_place_and_each_test_is_there(row):
    _, item, says, places, tests = row
    assert item
    assert says
    assert re.fullmatch(f"{PLACE}(; {PLACE})*", places), places
    assert re.fullmatch(f"{TEST}(, {TEST})*", tests), tests
    assert [place for place in re.findall(PLACE, places) if not is_there(*place)] == []
    assert [test for test in re.findall(TEST, tests) if not is_there(test[1], test[0])] == []


def test_what_is_not_there_is_found_missing():
    assert is_there("Stiefel.project", "geometry/spaces.py")
    assert is_there("DIAGONAL", "experiments/competitors.py")
    assert is_there("GH_GD_2", "experiments/competitors.py")
    assert not is_there("Stiefel.projects", "geometry/spaces.py")
    assert not is_there("Stiefels", "geometry/spaces.py")
    assert not is_there("Stiefel", "geometry/space.py")
    assert len(rows("| 1 | a | b | c | d \\| e |\n| a | b |\n| # | a | b | c | d |")) == 1
