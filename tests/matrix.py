"""Run the tests under all that they must not depend on: `python tests/matrix.py [--quick] [name ...]`.

A quarter of an hour on two cores. Each run is the part of the suite that its condition could break, in a
process with its own environment; `--quick` takes a part of that part. A run that this machine cannot do is
skipped, and says why. On many cores, `--jobs 4` has four runs at a time share them: every worker of a run
imports all its tests, and at its end most wait for the one that has the longest file.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite.binding import get_host_cpu_features

ROOT = Path(__file__).resolve().parent.parent
NUMERICAL = (
    "baselines",
    "costs",
    "entries",
    "estimators",
    "geometry",
    "kernels",
    "selection",
    "solvers",
    "test_linalg.py",
)
# Where rounding decides what stalls, or what a line search accepts: what `--quick` takes on other processors,
# with all solvers on the one that is least like this.
ROUNDING = (
    "baselines",
    "geometry/test_hessians.py",
    "geometry/test_properties.py",
    "solvers/test_conjugate_gradient.py",
    "solvers/test_grid.py",
    "solvers/test_solvers.py",
    "solvers/test_trust_region.py",
    "test_linalg.py",
)
ALL_SOLVERS = ("baselines", "solvers")
# As much of the processor's rounding as decides anything, where it is most like this one.
ALIKE = ("baselines", "costs", "geometry", "selection", "solvers", "test_linalg.py")
THREADED = ("entries", "kernels", "selection", "solvers", "test_linalg.py", "test_tall.py")
TERMINAL = ("cli", "run", "examples", "report")
DRAWN = (
    "costs",
    "data",
    "entries",
    "estimators",
    "geometry",
    "kernels",
    "report",
    "solvers",
    "test_linalg.py",
)
PROPERTIES = ("-m", "hypothesis")
# What the runs on other processors do not have, in random order too.
REST = (
    "checks", "cli", "data", "distributed", "examples", "experiments", "fuzz", "golden", "interop", "metrics",
    "report", "run",
)  # fmt: skip
# What writes: files, folders, caches of kernels.
WRITING = (
    "cli", "data", "entries/test_on_disk.py", "estimators/completion/test_spilled_fits.py",
    "estimators/test_model_files.py", "examples", "experiments", "fuzz", "golden", "kernels", "report", "run",
    "test_atomic.py", "test_writers.py",
)  # fmt: skip
SOAK = ("-m", "docs or soak or not soak")  # with what `make test` leaves out
OTHER_USER = "nobody"


@dataclass(frozen=True)
class Run:
    """A condition: the tests it is about (all, and the quick part), variables, options of pytest, needs."""

    name: str
    tests: tuple[str, ...]
    quick: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    cpu_feature: str = ""
    read_only: bool = False


def on_cpu(
    name: str,
    blas: str,
    numba: str,
    feature: str,
    *tests: tuple[str, ...],
    order: tuple[str, ...],
    **more: str,
) -> Run:
    """Numerical tests with the BLAS kernels and the machine code of another processor, in random order."""
    variables = {"OPENBLAS_CORETYPE": blas, "NUMBA_CPU_NAME": numba, **more}
    return Run(name, *tests, variables, order, cpu_feature=feature)


def runs(seed: int) -> list[Run]:
    """Every run; `seed` is that of the random order."""
    one_thread = {"RANKFOLD_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    shuffled = ("--random-order", f"--random-order-seed={seed}")
    simd = " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))
    # One colour is as good as another: what a terminal says of itself is said all at once.
    terminal = {"FORCE_COLOR": "1", "COLUMNS": "40", "GITHUB_ACTIONS": "true"}
    without_simd = {"NPY_DISABLE_CPU_FEATURES": simd}
    return [
        on_cpu("haswell", "Haswell", "haswell", "avx2", NUMERICAL, ROUNDING, order=shuffled),
        on_cpu("skylake", "SkylakeX", "skylake-avx512", "avx512f", ALIKE, ROUNDING, order=shuffled),
        on_cpu(
            "nehalem", "Nehalem", "nehalem", "sse4.2", NUMERICAL, ALL_SOLVERS, order=shuffled, **without_simd
        ),
        Run("one-thread", THREADED, ("kernels", "selection"), one_thread),
        Run("terminal", TERMINAL, ("cli/test_cli_app.py",), terminal),
        Run("locale", ("cli", "data", "report"), ("data",), {"LC_ALL": "C", "TZ": "Asia/Kathmandu"}),
        Run("read-only", WRITING, ("data", "report", "test_linalg.py"), read_only=True),
        Run("order", REST, ("data", "run"), options=shuffled),
        *(
            Run(f"seed-{k}", DRAWN, ("data", "test_linalg.py"),
                options=("--hypothesis-profile=random", f"--hypothesis-seed={k}", *PROPERTIES))
            for k in (1, 2, 3)
        ),
    ]  # fmt: skip


def obstacle(run: Run) -> str:
    """Return why this machine cannot do a run; empty if it can."""
    if run.cpu_feature and not get_host_cpu_features().get(run.cpu_feature, False):
        return f"this processor has no {run.cpu_feature}"
    if run.read_only and os.geteuid() != 0:
        return f"only root can become {OTHER_USER}"
    if run.read_only and not interpreter_for_others():
        return f"{OTHER_USER} may start no Python of this version"
    return ""


def interpreter_for_others() -> str:
    """Return a Python of this version that the other user may start: root's own folder is closed to him."""
    system = shutil.which(f"python{sys.version_info.major}.{sys.version_info.minor}", path=os.defpath)
    packages = os.environ | {"PYTHONPATH": python_path(ROOT)}
    for interpreter in filter(None, (sys.executable, system)):
        with contextlib.suppress(PermissionError):
            trial = subprocess.run(
                [interpreter, "-c", "import pytest"],
                cwd="/", env=packages, **other_user(), capture_output=True,
            )  # fmt: skip
            if trial.returncode == 0:
                return interpreter
    return ""


def other_user() -> dict[str, Any]:
    """Return the options of subprocess that give up every right of root, its groups too."""
    account = pwd.getpwnam(OTHER_USER)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def start(run: Run, asked: argparse.Namespace, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run pytest under the condition; what numba compiles and what tests write is kept in `folder`."""
    root, identity = ROOT, {}
    variables = os.environ | {"PYTHONPATH": python_path(ROOT)} | run.environment
    if run.environment.keys() & {"NUMBA_CPU_NAME"} or run.read_only:
        variables["NUMBA_CACHE_DIR"] = str(folder / "numba")
    if run.read_only:
        root, identity = read_only_copy(folder), other_user()
        variables |= {"PYTHONPATH": python_path(root), "HOME": "/nonexistent", "TMPDIR": str(folder)}
        variables |= {"USER": OTHER_USER, "LOGNAME": OTHER_USER}
    tests = [str(Path("tests", part)) for part in (run.quick if asked.quick else run.tests)]
    python = interpreter_for_others() if run.read_only else sys.executable
    options = (*(SOAK if asked.soak else ()), *run.options)
    workers = str(-(-len(os.sched_getaffinity(0)) // asked.jobs))
    command = [python, "-m", "pytest", "-q", "-n", workers, "--dist", "loadfile", *options, *tests]
    print(
        f"\n{run.name}: {shlex.join([f'{k}={v}' for k, v in run.environment.items()] + command)}", flush=True
    )
    return subprocess.run(command, cwd=root, env=variables, **identity, capture_output=True, text=True)


def python_path(root: Path) -> str:
    """Return a search path: the library of a checkout, then the packages that are installed here."""
    installed = sysconfig.get_path("purelib")
    return os.pathsep.join(filter(None, [str(root / "src"), os.environ.get("PYTHONPATH", ""), installed]))


def read_only_copy(folder: Path) -> Path:
    """Return a copy of the checkout that nobody may write to, in a folder that belongs to another user."""
    copy = folder / "checkout"
    skipped = shutil.ignore_patterns(
        ".git", ".venv*", "dist", ".*_cache", ".hypothesis", "__pycache__", "site"
    )
    shutil.copytree(ROOT, copy, ignore=skipped)
    for path in (copy, *copy.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222 | 0o444)
    for path in (folder.parent, folder):
        path.chmod(0o755)
    os.chown(folder, pwd.getpwnam(OTHER_USER).pw_uid, -1)
    return copy


def counts_of(output: str) -> Counter[str]:
    """Return pytest's counts, from the last line that has some."""
    found = re.findall(r"^=*\s*(\d+ (?:passed|failed|skipped|error).*) in [\d.]+s", output, re.MULTILINE)
    return Counter({k.rstrip("s"): int(n) for n, k in re.findall(r"(\d+) (\w+)", found[-1] if found else "")})


def result_of(run: Run, asked: argparse.Namespace, folder: Path) -> tuple[str, Counter[str]]:
    """Do one run; return what to say of it and its counts."""
    if reason := obstacle(run):
        return f"skipped: {reason}", Counter()
    folder.mkdir()
    began = time.monotonic()
    done = start(run, asked, folder)
    took = time.monotonic() - began
    counts = counts_of(done.stdout)
    if done.returncode != 0:
        print(done.stdout[-20_000:], done.stderr[-5_000:])
        counts["failed"] = max(1, counts["failed"] + counts["error"])
    verdict = "ok" if done.returncode == 0 else "FAILED"
    print(f"{run.name}: {verdict}, {took:.0f} s", flush=True)
    return f"{verdict:<7} {counts['passed']:>5} passed {took:>5.0f} s", counts


def main() -> int:
    """Do the runs that are asked for, and print a table of them."""
    names = [run.name for run in runs(0)]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="*", help=f"runs to do, all if none is named: {', '.join(names)}")
    parser.add_argument(
        "--quick", action="store_true", help="the part that takes less than ten minutes on two cores"
    )
    parser.add_argument("--soak", action="store_true", help="with what `make test` leaves out")
    parser.add_argument("--seed", type=int, help="of the random order; the same in every run where CI is set")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    asked = parser.parse_args()
    if unknown := set(asked.name) - set(names):
        parser.error(f"there is no run {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    drawn = 0 if os.environ.get("CI") else int(time.time())
    chosen = [
        run for run in runs(drawn if asked.seed is None else asked.seed) if run.name in (asked.name or names)
    ]
    temporary = tempfile.TemporaryDirectory(prefix="rankfold-matrix-")
    with temporary as folder, ThreadPoolExecutor(asked.jobs) as pool:
        results = list(pool.map(lambda run: result_of(run, asked, Path(folder, run.name)), chosen))
    print("\n" + "\n".join(f"{run.name:<12} {said}" for run, (said, _) in zip(chosen, results, strict=True)))
    total = sum((counts for _, counts in results), Counter())
    print(f"{total['passed']} passed, {total['failed']} failed")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
