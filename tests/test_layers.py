"""Imports go downwards only: a room imports from the floors below it, as CONTRIBUTING.md draws them."""

import ast
import functools
import re
from pathlib import Path

import pytest

import rankfold

SOURCE = Path(rankfold.__file__).parent
# From the ground up. Rooms of one floor know nothing of each other.
FLOORS = (
    ("_version", "atomic", "fingerprint", "interrupts", "remembered", "kernels"),
    ("linalg",),
    ("geometry", "entries"),
    ("costs", "data"),
    ("problem", "distributed"),
    ("solvers", "checks"),
    ("baselines", "run"),
    ("selection", "report"),
    ("estimators",),
    ("metrics", "experiments", "interop"),
    ("cli",),
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


FACES = FLOORS[-1] + FLOORS[-2]  # these may use the package as its users do, by `import rankfold`


def modules():
    """The name of each module below the package, as a tuple, and its file."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).with_suffix("").parts, path


@functools.cache
def imported(path):
    """The modules that a file imports, also inside functions; (), the root, for the package itself."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [name.name.split(".") for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [[*node.module.split("."), name.name] for name in node.names]
        else:
            continue
        for package, *below in names:
            if package == "rankfold":
                found.append(tuple(below) if is_module(below) else tuple(below[:-1]))
    return found


def is_module(parts):
    target = SOURCE.joinpath(*parts)
    return target.is_dir() or target.with_suffix(".py").is_file()


def graph():
    """The rooms that each room imports, with the files that do."""
    edges = {}
    for parts, path in modules():
        if parts[0] != "__init__":  # the face of the package imports lazily whatever is asked for
            for target in imported(path):
                room = target[0] if target else "rankfold"
                edges.setdefault(parts[0], {}).setdefault(room, set()).add("/".join(parts))
    return edges


def test_every_room_has_its_floor():
    assert {parts[0] for parts, _ in modules()} - {"__init__", "__main__"} == set(FLOOR)


@pytest.mark.parametrize("room", FLOOR)
def test_imports_go_downwards(room):
    below = {other for other in FLOOR if FLOOR[other] < FLOOR[room]} | {room}
    if room in FACES:
        below.add("rankfold")
    assert not {other: files for other, files in graph().get(room, {}).items() if other not in below}


def test_no_modules_import_each_other_in_a_circle():
    edges = {parts: set(imported(path)) for parts, path in modules() if parts[-1] != "__init__"}

    def reachable(start):
        found, front = set(), {start}
        while front:
            front = {target for module in front for target in edges.get(module, ())} - found
            found |= front
        return found

    assert not [module for module in edges if module in reachable(module)]


def test_the_drawing_in_contributing_is_true():
    page = SOURCE.parents[1] / "CONTRIBUTING.md"
    if not page.exists():
        pytest.skip("an installed package has no CONTRIBUTING.md")
    drawn = re.findall(r"^ *(\d+)  ([\w, ]+?)   ", page.read_text("utf-8"), re.MULTILINE)
    floors = {int(number): set(rooms.split(", ")) for number, rooms in drawn}
    assert floors == {number: set(rooms) for number, rooms in enumerate(FLOORS)}
