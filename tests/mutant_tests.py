"""Which tests a mutant meets, for `mutants.py`: those that come by its line first."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mutations import Change, Source

PACKAGE = Path("src/rankfold")
DEFAULTS = "tests/test_public_defaults.py"  # looks at functions that it does not call
HOPS = 3
# Of each test that is chosen beside what it takes itself: pytest's own work.
OVERHEAD = 0.02
Reached = dict[str, tuple[float, dict[str, int]]]  # seconds, and the lines of each file as bits of a number
Lines = dict[str, int]


@dataclass(frozen=True)
class Mentions:
    """Where names of functions, classes and constants are mentioned, and in what."""

    places: dict[str, list[tuple[str, int, tuple[str, ...]]]]

    @classmethod
    def of(cls, root: Path) -> Mentions:
        """Look through the package."""
        found = defaultdict(list)
        for path in sorted((root / PACKAGE).rglob("*.py")):
            name = str(path.relative_to(root / PACKAGE))
            for statement in ast.parse(path.read_bytes()).body:
                for owners, node in owned(statement, ()):
                    used = node.id if isinstance(node, ast.Name) else getattr(node, "attr", None)
                    if used and isinstance(getattr(node, "ctx", None), ast.Load):
                        found[used].append((name, node.lineno, owners))
        return cls(dict(found))

    def around(self, names: tuple[str, ...]) -> Iterator[Lines]:
        """Yield the lines that mention these names, then those that mention what does so, and so on."""
        seen: set[str] = set()
        for _ in range(HOPS):
            lines, owners = defaultdict(int), set()
            for file, line, owner in (place for name in names for place in self.places.get(name, [])):
                lines[file] |= 1 << line
                owners.update(owner)
            yield lines
            seen.update(names)
            names = tuple(sorted(owners - seen))


def owned(node: ast.AST, owners: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ast.AST]]:
    """Yield all nodes below one, with the names by which others know what they stand in."""
    if not owners and isinstance(node, ast.FunctionDef):
        owners = (node.name,)
    if not owners and isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        owners = tuple(t.id for target in targets for t in ast.walk(target) if isinstance(t, ast.Name))
    yield owners, node
    for child in ast.iter_child_nodes(node):
        yield from owned(child, owners)


def names_of(source: Source, change: Change) -> tuple[str, ...]:
    """Return the names by which others know what a change is in, or that of its class."""
    line = source.line(change)
    for statement in source.tree.body:
        if statement.lineno <= line <= statement.end_lineno:
            inside = [o for o, node in owned(statement, ()) if o and spans(node, line)]
            return inside[0] if inside else (getattr(statement, "name", ""),)
    return ()


def spans(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", line + 1) <= line <= (getattr(node, "end_lineno", 0) or 0)


@dataclass(frozen=True)
class Chooser:
    """Chooses the tests that a mutant meets, so many seconds of them."""

    reached: Reached
    mentions: Mentions
    budget: float

    def chosen(self, source: Source, change: Change, room: tuple[str, ...]) -> list[str]:
        """Return tests: those of the statement, then those of its function, then of what mentions it."""
        taken: dict[str, None] = {}
        left = self.budget
        for tests in self.nearer_and_nearer(source, change, room):
            for test in tests:
                seconds = self.reached[test][0] + OVERHEAD
                if test not in taken and (seconds <= left or not taken):
                    taken[test] = None
                    left -= seconds
        return list(taken)

    def nearer_and_nearer(self, source: Source, change: Change, room: tuple[str, ...]) -> Iterator[list[str]]:
        own, stem = str(source.path.relative_to(PACKAGE)), source.path.stem
        if source.is_default(change):
            yield [test for test in self.reached if test.startswith(DEFAULTS)]
        by_hops = self.mentions.around(names_of(source, change))
        yield self.one_of_each_way(
            self.ordered(self.coming_by({own: bits(source.statement(change))}), stem, room),
            own,
            bits(source.around(change)),
        )
        # What others run for them, in processes of their own, is not seen to come by.
        yield self.ordered([test for test in self.reached if f"test_{stem}" in test], stem, room)
        for lines in ({own: bits(source.around(change))}, *by_hops, {own: -1}):
            yield self.ordered(self.coming_by(lines), stem, room)

    def one_of_each_way(self, tests: list[str], file: str, function: int) -> list[str]:
        """Return tests, one of each way through a function first: what all come by, some only pass."""
        ways, nth = Counter[int](), {}
        for test in tests:
            way = self.reached[test][1].get(file, 0) & function
            nth[test] = ways[way]
            ways[way] += 1
        return sorted(tests, key=nth.__getitem__)

    def coming_by(self, lines: Lines) -> list[str]:
        return [
            test
            for test, (_, places) in self.reached.items()
            if any(places.get(file, 0) & mask for file, mask in lines.items())
        ]

    def ordered(self, found: list[str], stem: str, room: tuple[str, ...]) -> list[str]:
        """Return tests, one case of each first; the room's own, the quickest."""
        found.sort(key=lambda test: self.reached[test][0])
        cases, nth = Counter[str](), {}
        for test in found:
            function = test.partition("[")[0]
            nth[test] = cases[function]
            cases[function] += 1

        def key(test: str) -> tuple[bool, bool, int, float]:
            file = test.partition("::")[0]
            return not test.startswith(room), stem not in file, nth[test], self.reached[test][0]

        return sorted(found, key=key)


def bits(lines: range) -> int:
    return (1 << lines.stop) - (1 << lines.start)
