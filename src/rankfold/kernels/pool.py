"""Threads for the kernels: our own small pool, because numba's threading layers are not safe everywhere.

numba's `omp` layer aborts in a process forked after first use and its `workqueue` layer aborts when two
Python threads enter it. Here every kernel is serial code without the GIL that takes chunks of work until
none is left, or until waiting for the others takes too long (`chunks`). The caller works too, so it never
waits for a thread that has not started. Chunks are fixed by the data alone, so results have the same bits
for any number of threads.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

MAX_HELPERS = 256
# Waking a helper costs about 40 µs: the time of this many multiply-adds over gathered rows.
SERIAL_WORK = 60_000

# How long threads may wait for each other (`chunks.next_chunk`): a tenth of the time that the work takes, and
# a millisecond at least, in looks of about 15 ns.
LOOKS, MIN_LOOKS = 0.1 * 0.2 / 15, 60_000

_lock = threading.Lock()
_executor: ThreadPoolExecutor | None = None


def threads() -> int:
    """Return how many threads a kernel may use.

    `RANKFOLD_NUM_THREADS`, else `OMP_NUM_THREADS` (which joblib sets in its workers), else the processors
    this process may run on.

    Examples
    --------
    >>> threads() >= 1
    True
    """
    for name in ("RANKFOLD_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdecimal() and int(text) > 0:
            return int(text)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _pool() -> ThreadPoolExecutor:
    global _executor
    with _lock:
        if _executor is None:
            _executor = ThreadPoolExecutor(MAX_HELPERS, thread_name_prefix="rankfold")
        return _executor


def _forget() -> None:
    """In a forked child the threads are gone and the locks may be held: start afresh."""
    global _lock, _executor
    _lock, _executor = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def run(kernel: Callable[..., None], chunks: int, work: float, *passes: tuple[Any, ...]) -> None:
    """Call `kernel(progress, *arguments)` for the arguments of each pass, on as many threads as are worth it.

    `chunks` is what each stripe of a pass has at most, `work` what all have together in multiply-adds.
    """
    patience = max(MIN_LOOKS, int(work * LOOKS))
    counted = [(np.array([0, 0, 0, patience, 0], np.int64), *arguments) for arguments in passes]
    helpers = min(threads(), chunks) - 1 if work > SERIAL_WORK else 0
    futures: list[Future[None]] = []
    try:
        with contextlib.suppress(RuntimeError):  # no new threads while the interpreter exits: work alone
            futures.extend(_pool().submit(_work, kernel, counted) for _ in range(helpers))
        _work(kernel, counted)
    finally:
        for future in futures:
            if not future.cancel():
                future.result()
    if any(progress[-1] for progress, *_ in counted):
        _work(kernel, counted)  # what is left undone by those who made room for others


def _work(kernel: Callable[..., None], passes: list[tuple[Any, ...]]) -> None:
    for arguments in passes:
        kernel(*arguments)
