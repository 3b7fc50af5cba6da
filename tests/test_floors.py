"""What `make test-oldest` and `make test-wheel` take their versions and files from."""

import tomllib
from pathlib import Path

import pytest

from oldest import floors, pinned

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_floors_are_those_of_the_library_and_of_its_tests():
    assert pinned("numpy>=2.0; python_version > '3'") == "numpy==2.0"
    names = [floor.partition("==")[0] for floor in floors()]
    assert {"numpy", "numba", "scikit-learn", "typer", "pytest", "matplotlib"} <= set(names)
    assert len(names) == len(set(names))
    assert "pytest-xdist" not in names  # begins like pytest, but nothing there needs it
    with pytest.raises(ValueError, match="no floor: write name>=version"):
        pinned("numpy")


def test_extras_agree_on_their_floors():
    """One package, one floor."""
    found = {}
    for lines in (PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"].values()):
        for line in lines:
            name, _, version = line.partition(";")[0].partition(">=")
            assert found.setdefault(name, version) == version, name


def test_the_source_distribution_has_what_a_contributor_needs():
    inside = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"CONTRIBUTING.md", "mkdocs.yml", "CHANGELOG.md", "Makefile", "tests", "docs"} <= set(inside)
    assert all((ROOT / name).exists() for name in inside)
