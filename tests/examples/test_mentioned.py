"""What pages name exists: modules, classes, functions, files, tests, commands and their options."""

import functools
import re
from importlib import import_module
from inspect import getmembers, isclass
from pathlib import Path
from pkgutil import walk_packages

import pytest
import typer

from rankfold.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
PACKAGES = ("baselines", "costs", "experiments", "geometry", "solvers")


def found(page, pattern):
    return sorted(set(re.findall(pattern, page.read_text("utf-8"), re.MULTILINE)))


def exists(name):
    """Whether a dotted name is that of a module, or of what a module or a class holds."""
    first, *rest = name.split(".")
    here = import_module(first)
    for part in rest:
        if not hasattr(here, part):
            try:
                import_module(f"{here.__name__}.{part}")
            except (ImportError, AttributeError):
                return False
        here = getattr(here, part)
    return True


@EVERY_PAGE
def test_dotted_names(page):
    names = found(page, r"(?<![\w./-])(?:rankfold|rf)(?:\.[A-Za-z]\w*)+")
    missing = [name for name in names if not exists(re.sub(r"^rf\b", "rankfold", name))]
    assert not missing


@EVERY_PAGE
def test_files_and_tests(page):
    for path, test in found(page, r"([\w/-]+\.py)\b(?:::(\w+))?"):
        folders = [ROOT / folder for folder in ("src/rankfold", "tests", "docs")]
        there = [place for folder in folders for place in folder.rglob(path)]
        there += [ROOT / path] if (ROOT / path).exists() else []
        assert there, path
        assert not test or f"def {test}(" in there[0].read_text("utf-8"), test
    missing = [folder for folder in found(page, r"`(tests/\w+)`") if not (ROOT / folder).is_dir()]
    assert not missing
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    missing = [test for test in found(page, r"`(test_\w+)`") if f"def {test}(" not in sources]
    assert not missing


def classes():
    """Return the classes of the packages that formulas live in, by name."""
    modules = [
        import_module(module.name)
        for package in PACKAGES
        for module in walk_packages(import_module(f"rankfold.{package}").__path__, f"rankfold.{package}.")
    ]
    return {name: cls for module in modules for name, cls in getmembers(module, isclass)}


def test_the_code_of_formulas():
    known = classes()
    names = found(ROOT / "docs" / "paper-tables.md", r"`([A-Z]\w+)\.(\w+)`")
    assert len(names) >= 10
    missing = [(cls, member) for cls, member in names if not hasattr(known.get(cls), member)]
    assert not missing


@functools.cache
def commands_by_name():
    return typer.main.get_command(app).commands


@EVERY_PAGE
def test_commands_and_options(page):
    commands = commands_by_name()
    for name, words in found(page, r"(?:^\$ |`)rankfold (\w[\w-]*)((?:[ \t][^`\n]*)?)"):
        options = {option for parameter in commands[name].params for option in parameter.opts}
        options |= {option for parameter in commands[name].params for option in parameter.secondary_opts}
        assert set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", words)) <= options | {"--help"}, (name, words)
    for module in found(page, r"python -m (benchmarks\.\w+)"):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists(), module


def test_a_name_that_is_not_there_is_found_missing():
    assert exists("rankfold.data.read_triples")
    assert exists("rankfold.run.stopping.StopKind")
    assert not exists("rankfold.data.read_nothing")
    assert not exists("rankfold.stopping.nothing")
