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
import queue
import threading
from collections.abc import Callable
from math import sqrt
from typing import Any

from numba.core.compiler_lock import global_compiler_lock

from rankfold.kernels.chunks import LEFT, new_progress

# Multiply-adds over gathered rows that take as long as to wake a helper, about 20 µs. Helpers come one after
# the other, each once it has had the GIL, so that the last of n comes after n such times: that it finds its
# share of the work still there takes n² of them. (P2 on 16 cores with all helpers asked for anything: Grams
# and sums of tall arrays took as long on 16 threads as on 4, for the caller had to wait for its turn too.)
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


class _Job:
    """One call of `run`, which helpers may join until the caller has found no more work."""

    def __init__(self, kernel: Callable[..., None], passes: Passes) -> None:
        self.kernel = kernel
        self.passes = passes
        self.error: BaseException | None = None
        self._lock = threading.Lock()
        self._inside = 0
        self._over = False
        self._empty = threading.Lock()
        self._empty.acquire()

    def work(self) -> None:
        _alone(self.kernel, self.passes)

    def join(self) -> None:
        """Work with the others, in a helper; do nothing if they are done."""
        if not self._enter():
            return
        try:
            self.work()
        except BaseException as error:  # the caller raises it
            self.error = error
        self._leave()

    def _enter(self) -> bool:
        with self._lock:
            self._inside += not self._over
            return not self._over

    def _leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._over and not self._inside:
                self._empty.release()

    def end(self) -> None:
        """Let nobody else join, and wait for those who have."""
        with self._lock:
            self._over = True
            wait = self._inside > 0
        if wait:
            self._empty.acquire()
        self.passes = []  # who comes too late must not keep the arrays


class _Pool:
    """Threads that wait for jobs; all callers share them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._size = 0

    def ask(self, job: _Job, helpers: int) -> None:
        """Ask for so many helpers; they come when they are free."""
        with self._lock:
            while self._size < helpers:
                name = f"rankfold_{self._size}"
                threading.Thread(target=_help, args=(self._jobs,), name=name, daemon=True).start()
                self._size += 1
        for _ in range(helpers):
            self._jobs.put(job)


def _help(jobs: queue.SimpleQueue[_Job]) -> None:
    while True:
        job = jobs.get()
        job.join()
        del job  # not to be kept while waiting for the next


_pool = _Pool()


def _forget() -> None:
    """In a forked child the threads are gone and the locks may be held: start afresh."""
    global _pool
    _pool = _Pool()


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
    most = min(chunks, 1 + int(sqrt(work / WORTH_A_HELPER)))
    helpers = min(most, threads()) - 1 if most > 1 else 0
    if not helpers:  # without what only others need
        _alone(kernel, counted)
        return
    _together(_Job(kernel, counted), helpers)
    if any(arguments[0][LEFT] for arguments in counted):
        _alone(kernel, counted)  # what is left undone by those who made room for others


def _alone(kernel: Callable[..., None], passes: Passes) -> None:
    for arguments in passes:
        kernel(*arguments)


def _together(job: _Job, helpers: int) -> None:
    try:
        _ask(job, helpers)
        job.work()
    finally:
        job.end()
    if job.error is not None:
        raise job.error


def _ask(job: _Job, helpers: int) -> None:
    with contextlib.suppress(RuntimeError):  # while the interpreter exits there are no new threads
        _pool.ask(job, helpers)
