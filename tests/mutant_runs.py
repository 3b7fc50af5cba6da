"""Runs of pytest for `mutants.py`: each is the fork of a process that has imported what takes long to."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import tempfile
from pathlib import Path

# What the tests import but no mutant changes. Not what pytest must see first, to rewrite its assertions.
HEAVY = [
    "numba", "pandas", "polars", "pyarrow.csv", "pyarrow.parquet", "pytest", "rich.console", "scipy.linalg",
    "scipy.optimize", "scipy.sparse.linalg", "scipy.stats", "sklearn.base", "sklearn.utils.estimator_checks",
    "threadpoolctl", "torch", "torch.func", "typer",
]  # fmt: skip
ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl


def prepare() -> None:
    """Import once, on one thread, what each run needs; become the parent of processes that lose theirs."""
    threads = ("OMP", "OPENBLAS", "NUMBA")
    os.environ.update({f"{name}_NUM_THREADS": "1" for name in threads}, POLARS_MAX_THREADS="1", CI="true")
    # Kernels and byte code are kept beside their source: what no mutant changes is found there, and a mutant
    # has another time of change, or name, and is compiled anew.
    for elsewhere in ("NUMBA_CACHE_DIR", "PYTHONDONTWRITEBYTECODE"):
        os.environ.pop(elsewhere, None)
    multiprocessing.set_start_method("forkserver")
    multiprocessing.set_forkserver_preload(["mutant_runs", *HEAVY])
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)


def pytest_in(
    tree: Path, tests: list[str], limit: float | None = None, **variables: str
) -> tuple[int | None, str]:
    """Run tests in a copy of the tree; return pytest's code, none if it takes longer, and what it said."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        said = Path(folder, "words")
        options = ["-q", "-p", "no:cacheprovider", "-p", "reach", f"--basetemp={folder}/tmp", *tests]
        run = multiprocessing.Process(target=child, args=(tree, options, said, variables))
        run.start()
        run.join(limit)
        code = run.exitcode
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.join()
        return code, said.read_text(errors="replace") if said.exists() else ""


def child(tree: Path, options: list[str], said: Path, variables: dict[str, str]) -> None:
    """Run pytest with a tree's library and tests, in a group of processes of its own."""
    os.setsid()
    output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(tree)
    paths = [str(tree / "src"), str(tree / "tests")]
    sys.path[:0] = paths
    given = filter(None, [os.environ.get("PYTHONPATH")])
    os.environ.update(variables, PYTHONPATH=os.pathsep.join([*paths, *given]))
    import pytest

    os._exit(int(pytest.main(options)))


def end_orphans() -> None:
    """End what tests have left behind, which this process adopted: those whose folder is gone."""
    for place in Path("/proc/self/task").glob("*/children"):
        for pid in map(int, place.read_text().split()):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/cwd").endswith(" (deleted)"):
                    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:  # of our own children, only the server of forks lives on
            pass
