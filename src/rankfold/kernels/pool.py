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

from numba.core.compiler_lock import global_compiler_lock

from rankfold.kernels.chunks import LEFT, new_progress

# Waking a helper costs about 40 µs: the time of this many multiply-adds over gathered rows.
SERIAL_WORK = 60_000

# How long threads may wait for each other (`chunks_in_order`), in looks of about 15 ns: a tenth of the time
# that the work takes, at 0.2 ns a multiply-add, and a millisecond at least.
PATIENCE_PER_WORK, MIN_PATIENCE = 0.1 * 0.2 / 15, 60_000

_lock = threading.Lock()
_executor: ThreadPoolExecutor | None = None
_size = 0  # threads that the executor may have


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


def _pool(helpers: int) -> ThreadPoolExecutor:
    """Return the executor of this process, with a thread for each helper: callers share them."""
    global _executor, _size
    with _lock:
        if _executor is None or _size < helpers:
            if _executor is not None:
                _executor.shutdown(wait=False)
            _executor, _size = ThreadPoolExecutor(helpers, thread_name_prefix="rankfold"), helpers
        return _executor


def _forget() -> None:
    """In a forked child the threads are gone and the locks may be held: start afresh."""
    global _lock, _executor, _size
    _lock, _executor, _size = threading.Lock(), None, 0


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
    counted = [(new_progress(patience), *arguments) for arguments in passes]
    helpers = min(threads(), chunks) - 1 if work > SERIAL_WORK else 0
    futures: list[Future[None]] = []
    try:
        # Work alone while the interpreter exits, when there are no new threads, and when another thread has
        # just asked for a larger pool.
        with contextlib.suppress(RuntimeError):
            futures.extend(_pool(helpers).submit(_work, kernel, counted) for _ in range(helpers))
        _work(kernel, counted)
    finally:
        for future in futures:
            if not future.cancel():
                future.result()
    if any(progress[LEFT] for progress, *_ in counted):
        _work(kernel, counted)  # what is left undone by those who made room for others


def _work(kernel: Callable[..., None], passes: list[tuple[Any, ...]]) -> None:
    for arguments in passes:
        kernel(*arguments)
