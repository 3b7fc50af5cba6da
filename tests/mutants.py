"""Mutation testing: change one thing in a module, run tests that concern it, see whether one fails.

    python tests/mutants.py solvers problem.py --count 40 --seed 1

Neither mutmut (it wraps each function in a dispatcher, which numba cannot compile, and takes no sample) nor
cosmic-ray (it edits the checkout, with one test command for everything) fits, and this is small.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mutant_runs import end_orphans, prepare, pytest_in
from mutant_tests import DEFAULTS, PACKAGE, Chooser, Mentions, Reached
from mutations import Change, Source, mutants

ROOT = Path(__file__).resolve().parents[1]
EXTREMES = "tests/test_extremes.py"
SURVIVED, NO_TIME = "survived", "no time left"
NOTHING_TO_RUN = 5  # what pytest returns then
FIRST = 6  # tests that a mutant meets before all others
LONGEST = 600  # seconds for the tests of one file, unchanged
# The tests of src/rankfold/a/b/c.py are its doctests, two of all settings, the deepest of tests/a/b and
# tests/a that there is (or tests/test_a.py), then what this table adds for the longest beginning of its name.
ALSO = {
    "costs": ["tests/entries/test_input.py"],
    "data": ["tests/data/io"],
    "entries": ["tests/costs"],
    "estimators": ["tests/estimators", "tests/golden"],
    "estimators/completion/spread": ["tests/estimators", "tests/distributed"],
    "estimators/model_parts": ["tests/estimators", "tests/distributed"],
    "kernels": [
        "tests/entries/test_stores.py", "tests/entries/test_stripes.py", "tests/entries/test_threads.py",
        "tests/entries/test_lines.py", "tests/entries/test_dominant_svd.py", "tests/costs",
    ],
    "kernels/categories": ["tests/costs", "tests/estimators/categories"],
    "kernels/gpu": ["tests/entries/test_gpu.py", "tests/entries/test_gpu_streamed.py"],
    "kernels/gpu_launch": ["tests/test_exchange.py"],
    "kernels/gpu_lines": ["tests/test_on_gpu.py", "tests/entries/test_gpu.py"],
    "kernels/gpu_tall": ["tests/test_on_gpu.py", "tests/test_exchange.py"],
    "kernels/gpu_turn": ["tests/solvers/test_turn_on_gpu.py"],
    "kernels/least_squares": ["tests/entries/test_lines.py", "tests/baselines"],
    "kernels/posteriors": ["tests/estimators/completion/test_variational.py"],
    "kernels/tall": ["tests/test_tall.py", "tests/test_linalg.py"],
    "linalg": ["tests/geometry"],
    "linalg/exchange": ["tests/test_exchange.py"],
    "linalg/lines": ["tests/test_on_gpu.py", "tests/solvers/test_gauss_newton.py"],
    "linalg/on_gpu": ["tests/test_on_gpu.py", "tests/test_exchange.py"],
    "selection": ["tests/metrics", "tests/golden"],
    "run": ["tests/solvers/test_checkpoints.py"],
    "run/parts": ["tests/distributed"],
    "run/team": ["tests/distributed"],
    "solvers": ["tests/golden"],
    "problem": ["tests/solvers", "tests/run"],
}  # fmt: skip


def concerning(path: Path) -> list[str]:
    """Return what pytest is to run for a file of the package."""
    name = path.relative_to(PACKAGE).with_suffix("")
    mirrors = [
        *(Path("tests", folder) for folder in name.parents[:-1]),
        Path("tests", f"test_{name.parts[0]}.py"),
    ]
    mirror = [str(p) for p in mirrors if (ROOT / p).exists()][:1]
    also = next((ALSO[str(p)] for p in [name, *name.parents] if str(p) in ALSO), [])
    chosen = [str(path), *mirror, *also, DEFAULTS, EXTREMES]
    missing = [test for test in chosen if not (ROOT / test).exists()]
    if missing or len(chosen) < 4:
        raise SystemExit(f"tests/mutants.py: which tests are those of {path}? {missing}")
    return chosen


@dataclass(frozen=True)
class Judge:
    """Runs tests that come by the line that a mutant changes."""

    clean: Path
    chooser: Chooser
    deadline: float

    def verdict(self, source: Source, change: Change) -> str:
        """Return that it survived, or what killed it; nothing if the deadline came first."""
        if time.monotonic() > self.deadline:
            return ""
        chosen = self.chooser.chosen(source, change, tuple(concerning(source.path)))
        start = 30 + 90 * source.path.is_relative_to(PACKAGE / "kernels")  # one change recompiles all kernels
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            tree = shutil.copytree(self.clean, Path(folder, "tree"), copy_function=os.link)
            (tree / source.path).unlink()
            (tree / source.path).write_bytes(source.changed(change))
            # The nearest few kill most; to collect the files of all takes longer than these do.
            runs = (self._judged(tree, tests, start) for tests in (chosen[:FIRST], chosen[FIRST:]) if tests)
            return next((verdict for verdict in runs if verdict != SURVIVED), SURVIVED)

    def _judged(self, tree: Path, tests: list[str], start: float) -> str:
        """Return what some tests say of a tree, in twice their seconds, and those of the start."""
        lasting = sum(self.chooser.reached[test][0] for test in tests)
        limit = start + 2 * lasting
        only = tree / "only.json"
        only.write_text(json.dumps(tests))
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        seconds = min(limit, max(0.0, self.deadline - time.monotonic()))
        code, said = pytest_in(tree, ["-x", *files], seconds, REACH_ONLY=str(only))
        end_orphans()
        if code is None:
            return f"killed: more than {limit:.0f} s for {lasting:.0f} s of tests" if seconds == limit else ""
        if code in (0, NOTHING_TO_RUN):
            return SURVIVED
        failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - |$)", said, re.MULTILINE)
        return f"killed by {failed[1] if failed else repr(said.strip()[-200:])}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutation testing of modules of rankfold.")
    parser.add_argument("modules", nargs="+", help="files or folders under src/rankfold")
    parser.add_argument("--count", type=int, default=20, help="how many mutants, at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests for a mutant, at most")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which what there is is told")
    parser.add_argument("--out", type=Path, help="a file for one line of each mutant; what it tells is kept")
    parser.add_argument("--kept", type=Path, help="a folder for the copy of the tree and what tests come by")
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    chosen = sample(options.modules, options.count, options.seed)
    prepare()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        sources = [source for source, _ in chosen]
        clean, reached = unchanged(options.kept or Path(folder), sources, options.jobs)
        judge = Judge(clean, Chooser(reached, Mentions.of(ROOT), options.budget), deadline)
        known = known_from(options.out)
        with (options.out or Path(os.devnull)).open("w") as out:
            told(judged(judge, chosen, known, options.jobs), len(chosen), out)


def sample(modules: list[str], count: int, seed: int) -> list[tuple[Source, Change]]:
    paths = sorted({p for module in modules for p in files_of(module)})
    sources = [Source(ROOT, path) for path in paths]
    everything = [(source, change) for source in sources for change in mutants(source)]
    random.Random(seed).shuffle(everything)
    return list(islice((m for m in everything if m[0].differs(m[1])), count))


def known_from(out: Path | None) -> list[str]:
    """Return what an earlier run, which had too little time, has told of mutants."""
    lines = out.read_text().splitlines() if out and out.exists() else []
    return [line for line in lines if not line.endswith(NO_TIME)]


def judged(
    judge: Judge, chosen: list[tuple[Source, Change]], known: list[str], jobs: int
) -> Iterator[tuple[Source, Change, str]]:
    """Yield each mutant with its verdict, as they come: first those that are known."""
    new = []
    for source, change in chosen:
        start = f"{source.told(change)}: "
        if found := [line for line in known if line.startswith(start)]:
            yield source, change, found[0].removeprefix(start)
        else:
            new.append((source, change))
    with ThreadPoolExecutor(jobs) as pool:
        runs = {pool.submit(judge.verdict, *mutant): mutant for mutant in new}
        for run in as_completed(runs):
            yield *runs[run], run.result()


def told(verdicts: Iterator[tuple[Source, Change, str]], count: int, out) -> None:
    """Write a line for each mutant to a file, show those that survive, and count."""
    total, detected = Counter[str](), Counter[str]()
    for source, change, verdict in verdicts:
        out.write(f"{source.told(change)}: {verdict or NO_TIME}\n")
        out.flush()
        if not verdict:
            continue
        room = source.path.relative_to(PACKAGE).parts[0]
        total[room] += 1
        detected[room] += verdict != SURVIVED
        print(f"{total.total()} of {count}", end="\r", file=sys.stderr, flush=True)
        if verdict == SURVIVED:
            print(source.diff(change), flush=True)
    print("\n".join(f"{name:<12} {detected[name]:>3} of {total[name]:>3}" for name in sorted(total)))
    print(f"{detected.total()} of {total.total()} mutants detected; no time for {count - total.total()}")


def unchanged(folder: Path, sources: list[Source], jobs: int) -> tuple[Path, Reached]:
    """Return a copy of the tree, and what tests that concern these files come by in it; keep both."""
    clean = folder / "tree"
    skipped = [".git", ".venv*", "dist", "site", ".*_cache", ".hypothesis", "results"]
    skipped += ["__pycache__"] * clean.exists()  # those of the copy know kernels that ours may not
    ignore = shutil.ignore_patterns(*skipped)
    shutil.copytree(ROOT, clean, ignore=ignore, copy_function=brought, dirs_exist_ok=True)
    places = {test for source in sources for test in concerning(source.path)}
    needed = {piece for place in places for piece in within(place)}
    rooms = [str(room.relative_to(ROOT)) for room in (ROOT / PACKAGE).iterdir()]
    # What other runs have noted of tests that concern other modules: some come by these files too.
    known = {piece for place in ["tests", *rooms] for piece in within(place) if is_noted(folder, piece)}
    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(lambda piece: kept(clean, folder, piece), sorted(needed | known)))
    if wrong := sorted(place for what in found for place in what["failed"]):
        print("left out, since they fail without any change:", *wrong, sep="\n  ", flush=True)
    return clean, {test: lines for what in found for test, lines in what["passed"].items()}


def brought(source: str, copy: str) -> None:
    """Copy a file where it is missing, or older; mutants' trees have links to what was there."""
    place = Path(copy)
    if not place.exists() or place.stat().st_mtime < Path(source).stat().st_mtime:
        place.unlink(missing_ok=True)
        shutil.copy2(source, copy)


def kept(clean: Path, folder: Path, piece: str) -> Any:
    """Return what the tests of a file, or the examples of a room, come by: as noted before, or run now."""
    note = note_of(folder, piece)
    if not is_noted(folder, piece):
        found = folder / f"{note.stem}.new"
        _, said = pytest_in(clean, [piece], LONGEST, REACH_OUT=str(found))
        if not found.exists():
            print(f"no test of {piece} is known, since its run ended with:", said[-2000:], flush=True)
            found.write_text(json.dumps({"passed": {}, "failed": [piece]}))
        found.replace(note)
    return json.loads(note.read_text())


def note_of(folder: Path, piece: str) -> Path:
    return folder / f"{piece.replace(os.sep, '.')}.json"


def is_noted(folder: Path, piece: str) -> bool:
    note = note_of(folder, piece)
    return note.exists() and note.stat().st_mtime >= (ROOT / piece).stat().st_mtime


def within(test: str) -> list[str]:
    """Return the files of a folder with tests, or the file that it is; of modules, the room."""
    if Path(test).is_relative_to(PACKAGE):
        return [str(Path(*Path(test).parts[: len(PACKAGE.parts) + 1]))]
    found = sorted((ROOT / test).rglob("test_*.py")) or [ROOT / test]
    return [str(path.relative_to(ROOT)) for path in found]


def files_of(module: str) -> list[Path]:
    place = ROOT / PACKAGE / module
    found = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    if not all(path.is_file() for path in found):
        raise SystemExit(f"{PACKAGE} has no {module}")
    return [path.relative_to(ROOT) for path in found]


if __name__ == "__main__":
    main()
