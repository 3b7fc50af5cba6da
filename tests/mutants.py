"""Mutation testing: change one thing in a module, run the tests that concern it, see whether one fails.

    python tests/mutants.py solvers problem.py --count 40 --seed 1

Neither mutmut (it wraps each function in a dispatcher, which numba cannot compile, and takes no sample) nor
cosmic-ray (it edits the checkout, with one test command for everything) fits, and this is small.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from mutations import Change, Source, mutants

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/rankfold")
NOTHING_TO_RUN = 5  # what pytest returns then
# The tests of src/rankfold/a/b/c.py are its doctests, then the deepest of tests/a/b and tests/a that there is
# (or tests/test_a.py), then what this table adds for the longest beginning of its name that it holds.
ALSO = {
    "data": ["tests/data/io"],
    "entries": ["tests/costs"],
    "estimators": ["tests/estimators"],
    "kernels": ["tests/entries", "tests/costs"],
    "kernels/gpu_launch": ["tests/test_exchange.py"],
    "kernels/gpu_lines": ["tests/test_on_gpu.py", "tests/entries/test_gpu.py"],
    "kernels/gpu_tall": ["tests/test_on_gpu.py", "tests/test_exchange.py"],
    "linalg": ["tests/geometry"],
    "linalg/exchange": ["tests/test_exchange.py"],
    "linalg/lines": ["tests/test_on_gpu.py", "tests/solvers/test_gauss_newton.py"],
    "linalg/on_gpu": ["tests/test_on_gpu.py", "tests/test_exchange.py"],
    "problem": ["tests/solvers", "tests/run"],
}


def concerning(path: Path) -> list[str]:
    """Return what pytest is to run for a file of the package."""
    name = path.relative_to(PACKAGE).with_suffix("")
    mirrors = [
        *(Path("tests", folder) for folder in name.parents[:-1]),
        Path("tests", f"test_{name.parts[0]}.py"),
    ]
    mirror = [str(p) for p in mirrors if (ROOT / p).exists()][:1]
    also = next((ALSO[str(p)] for p in [name, *name.parents] if str(p) in ALSO), [])
    chosen = [str(path), *mirror, *also]
    missing = [test for test in chosen if not (ROOT / test).exists()]
    if missing or len(chosen) < 2:
        raise SystemExit(f"tests/mutants.py: which tests are those of {path}? {missing}")
    return chosen


@dataclass(frozen=True)
class Judge:
    """Runs the tests that concern a mutant: first those that reach the function it is in, then all others."""

    clean: Path
    reached: dict[str, tuple[float, list[tuple[str, int]]]]

    def survives(self, source: Source, change: Change) -> bool:
        all_tests = concerning(source.path)
        first = self.first(source, change)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            tree = shutil.copytree(self.clean, Path(folder, "tree"))
            (tree / source.path).write_bytes(source.changed(change))
            chosen = Path(folder, "first.json")
            chosen.write_text(json.dumps(first))
            files = list(dict.fromkeys(test.partition("::")[0] for test in first))
            if files and not passes(tree, files, 60 + 5 * self.seconds(first), REACH_ONLY=str(chosen)):
                return False
            others = [test for test in self.reached if test.startswith(tuple(all_tests))]
            return passes(tree, all_tests, 60 + 5 * self.seconds(others), REACH_WITHOUT=str(chosen))

    def seconds(self, tests: list[str]) -> float:
        return sum(self.reached[test][0] for test in tests)

    def first(self, source: Source, change: Change) -> list[str]:
        """Return tests that call the function of a mutant, those of one file together, quick files first."""
        own = str(source.path.relative_to(PACKAGE))
        around = source.around(change)
        seconds: dict[str, dict[str, float]] = {}
        for test, (lasted, places) in self.reached.items():
            if any(name == own and line in around for name, line in places):
                seconds.setdefault(test.partition("::")[0], {})[test] = lasted
        files = sorted(seconds.values(), key=lambda tests: sum(tests.values()) / len(tests))
        return [test for tests in files for test in tests]


def passes(tree: Path, tests: list[str], limit: float | None = None, **variables: str) -> bool:
    """Run tests in a copy of the tree; too slow is a failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "reach", *tests]
    # Kernels are cached beside their source: those of other modules' mutants are found there, and one that
    # is itself a mutant has another time of change, or name, and is compiled anew.
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    paths = os.pathsep.join([str(tree / "src"), str(tree / "tests")])
    environment |= {"PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", **variables}
    run = subprocess.Popen(
        command, cwd=tree, env=environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return run.wait(limit) in (0, NOTHING_TO_RUN)
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutation testing of modules of rankfold.")
    parser.add_argument("modules", nargs="+", help="files or folders under src/rankfold")
    parser.add_argument("--count", type=int, default=20, help="how many mutants, at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    paths = sorted({p for module in options.modules for p in files_of(module)})
    sources = [Source(ROOT, path) for path in paths]
    everything = [(source, change) for source in sources for change in mutants(source)]
    random.Random(options.seed).shuffle(everything)
    chosen = list(islice((m for m in everything if m[0].differs(m[1])), options.count))
    detected: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        judge = judge_of(Path(folder), [source for source, _ in chosen])
        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = pool.map(lambda mutant: judge.survives(*mutant), chosen)
            for done, ((source, change), alive) in enumerate(zip(chosen, outcomes, strict=True), start=1):
                print(f"{done} of {len(chosen)}", end="\r", file=sys.stderr, flush=True)
                detected[room(source)] += not alive
                if alive:
                    print(source.diff(change), flush=True)
    total = Counter(room(source) for source, _ in chosen)
    print("\n".join(f"{name:<12} {detected[name]:>3} of {total[name]:>3}" for name in sorted(total)))
    print(f"{detected.total()} of {len(chosen)} mutants detected")


def room(source: Source) -> str:
    return source.path.relative_to(PACKAGE).parts[0]


def judge_of(folder: Path, sources: list[Source]) -> Judge:
    """Run all tests that concern these files once, unchanged: they must pass, and say what they reach."""
    skipped = shutil.ignore_patterns(".git", ".venv*", "dist", "site", ".*_cache", ".hypothesis", "results")
    clean = shutil.copytree(ROOT, folder / "clean", ignore=skipped)
    tests = sorted({test for source in sources for test in concerning(source.path)})
    found = folder / "reached.json"
    if not passes(clean, tests, REACH_OUT=str(found)):
        raise SystemExit(f"one of these fails without any change: {' '.join(tests)}")
    return Judge(clean, json.loads(found.read_text()))


def files_of(module: str) -> list[Path]:
    place = ROOT / PACKAGE / module
    found = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    if not all(path.is_file() for path in found):
        raise SystemExit(f"{PACKAGE} has no {module}")
    return [path.relative_to(ROOT) for path in found]


if __name__ == "__main__":
    main()
