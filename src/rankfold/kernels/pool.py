"""Threads for the kernels: our own small pool, because numba's threading layers are not safe everywhere.

numba's `omp` layer aborts in a process forked after first use and its `workqueue` layer aborts when two
Python threads enter it. Here every kernel is serial code without the GIL that takes chunks of work until
none is left, or until waiting for the others takes too long (`chunks`). The caller works too, so it never
waits for a thread that has not started (`team`). Chunks are fixed by the data alone, so results have the same
bits for any number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core.compiler_lock import global_compiler_lock
from numpy.typing import NDArray

from rankfold.kernels.chunks import ASKED, KEPT, LEFT, new_progress
from rankfold.kernels.team import Team

# Multiply-adds over gathered rows that take as long as to wake a helper, about 20 µs. All are woken at once,
# so that each is worth it with as much to do for itself. (P2 on 16 cores: 0.15 s for a solve so, 0.17 where
# Grams and sums had fewer helpers, as many as the square root of this one's.)
WORTH_A_HELPER = 60_000

# How long threads may wait for each other (`chunks_in_order`), in looks of about 15 ns: a tenth of the time
# that the work takes, at 0.2 ns a multiply-add, and a millisecond at least.
PATIENCE_PER_WORK, MIN_PATIENCE = 0.1 * 0.2 / 15, 60_000

Passes = list[tuple[Any, ...]]


def threads() -> int:
    """Return how many threads a kernel may use.

    `RANKFOLD_NUM_THREADS`, else `OMP_NUM_THREADS` (which joblib sets in its workers), else the processors
    this process may run on.
    """
    for name in ("RANKFOLD_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdecimal() and int(text) > 0:
            return int(text)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_team = Team()


def _forget() -> None:
    """In a forked child the threads are gone and the locks may be held: start afresh."""
    global _team
    _team = Team()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
    # A fork waits for the thread that compiles: in the child nobody would ever free numba's lock.
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )


def run(kernel: Callable[..., None], chunks: int, work: float, *passes: tuple[Any, ...]) -> None:
    """Call `kernel(progress, *arguments)` for the arguments of each pass, on as many threads as are worth it.

    `chunks` is what each stripe of a pass has at most, `work` what all have together in multiply-adds.
    """
    patience = max(MIN_PATIENCE, int(work * PATIENCE_PER_WORK))
    counted = [(new_progress(patience, chunks), *arguments) for arguments in passes]
    most = min(chunks, 1 + int(work / WORTH_A_HELPER))
    helpers = min(most, threads()) - 1 if most > 1 else 0
    if not helpers:  # without what only others need
        _alone(kernel, counted)
        return
    jobs = _offered(kernel, counted)
    _team.lead(jobs, helpers)
    if any(arguments[0][LEFT] for arguments in counted):
        _alone(kernel, counted)  # what is left undone by those who made room for others


def _alone(kernel: Callable[..., None], passes: Passes) -> None:
    for arguments in passes:
        kernel(*arguments)


def _offered(kernel: Callable[..., None], passes: Passes) -> NDArray[np.int64]:
    """Return, for each pass, where it can be called without Python, and where its arguments are.

    A kernel in Python does not know what it is asked, and works at once.
    """
    jobs = []
    for arguments in passes:
        progress = arguments[0]
        progress[ASKED] = 1
        kernel(*arguments)
        if progress[ASKED] != 1:
            jobs.append((progress[ASKED], progress.ctypes.data + 8 * KEPT))
        progress[ASKED] = 0
    return np.array(jobs, np.int64).reshape(-1, 2)
