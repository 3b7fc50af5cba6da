"""Mutation testing: change one thing in a module, run the tests that concern it, see whether one fails.

    python tests/mutants.py solvers problem.py --count 40 --seed 1

Neither mutmut (it wraps each function in a dispatcher, which numba cannot compile, and takes no sample) nor
cosmic-ray (it edits the checkout, with one test command for everything) fits, and this is small.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from mutations import Change, Source, mutants

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/rankfold")
# The tests of src/rankfold/a/b/c.py are its doctests, then the deepest of tests/a/b and tests/a that there is
# (or tests/test_a.py), then what this table adds for the longest beginning of its name that it holds.
ALSO = {
    "data": ["tests/data/io"],
    "entries": ["tests/costs"],
    "estimators": ["tests/estimators"],
    "kernels": ["tests/entries", "tests/costs"],
    "kernels/gpu_lines": ["tests/test_on_gpu.py", "tests/entries/test_gpu.py"],
    "kernels/gpu_tall": ["tests/test_on_gpu.py"],
    "linalg": ["tests/geometry"],
    "linalg/lines": ["tests/test_on_gpu.py", "tests/solvers/test_gauss_newton.py"],
    "linalg/on_gpu": ["tests/test_on_gpu.py"],
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


def passes(tree: Path, tests: list[str], limit: float | None = None) -> bool:
    """Run tests in a copy of the tree; too slow is a failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    # Kernels are cached beside their source: those of other modules' mutants are found there, and one that
    # is itself a mutant has another time of change, or name, and is compiled anew.
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": str(tree / "src"), "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.Popen(
        command, cwd=tree, env=environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return run.wait(limit) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def survives(clean: Path, source: Source, change: Change, limit: float) -> bool:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        tree = shutil.copytree(clean, Path(folder, "tree"))
        (tree / source.path).write_bytes(source.changed(change))
        return passes(tree, concerning(source.path), limit)


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
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        skipped = shutil.ignore_patterns(
            ".git", ".venv*", "dist", "site", ".*_cache", ".hypothesis", "results"
        )
        clean = shutil.copytree(ROOT, Path(folder, "clean"), ignore=skipped)
        tests = sorted({test for source, _ in chosen for test in concerning(source.path)})
        start = time.monotonic()
        if not passes(clean, tests):
            raise SystemExit(f"one of these fails without any change: {' '.join(tests)}")
        limit = 60 + 3 * (time.monotonic() - start)
        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = pool.map(lambda mutant: survives(clean, *mutant, limit), chosen)
            survived = 0
            for done, ((source, change), alive) in enumerate(zip(chosen, outcomes, strict=True), start=1):
                print(f"{done} of {len(chosen)}", end="\r", file=sys.stderr, flush=True)
                if alive:
                    survived += 1
                    print(source.diff(change), flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} mutants detected")


def files_of(module: str) -> list[Path]:
    place = ROOT / PACKAGE / module
    found = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    if not all(path.is_file() for path in found):
        raise SystemExit(f"{PACKAGE} has no {module}")
    return [path.relative_to(ROOT) for path in found]


if __name__ == "__main__":
    main()
