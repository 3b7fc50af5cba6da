"""BLAS at one thread while anything here runs: one setting for the process, wanted by every run."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

from rankfold.interrupts import FIRM, Scope


class _Guard:
    """Counts who wants one thread. What the libraries had before comes back when the last one leaves."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._before: dict[str, tuple[Any, int]] = {}  # each library, by its path, with its threads
        self._holders = 0
        self._mine = threading.local()

    def enter(self) -> None:
        with self.lock:
            # Every thread looks, and not only the first: a library may have been loaded since. It takes
            # milliseconds, so that a run within a run does not look again.
            for library in [] if getattr(self._mine, "holders", 0) else _libraries():
                self._before.setdefault(library.filepath, (library, library.num_threads))
                library.set_num_threads(1)
            self._mine.holders = getattr(self._mine, "holders", 0) + 1
            self._now_hold(self._holders + 1)

    def leave(self) -> None:
        with self.lock:
            self._mine.holders -= 1
            self._now_hold(self._holders - 1)

    def _now_hold(self, holders: int) -> None:
        self._holders = holders
        if not holders:
            for library, threads in self._before.values():
                library.set_num_threads(threads)
            self._before = {}

    def forget_others(self) -> None:
        """In a child: the other threads are not in this process, and will never leave."""
        self.lock = threading.Lock()
        self._now_hold(getattr(self._mine, "holders", 0))


def _libraries() -> list[Any]:
    return _found_after(len(sys.modules))


@functools.lru_cache(maxsize=1)
def _found_after(imports: int) -> list[Any]:
    """Look for BLAS libraries, which imports alone bring: it takes as long as a small fit on a GPU."""
    found: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return found


_guard = _Guard()
if hasattr(os, "register_at_fork"):
    # A fork waits for whoever is entering or leaving, so that the child sees nothing half done.
    os.register_at_fork(
        before=lambda: _guard.lock.acquire(),
        after_in_parent=lambda: _guard.lock.release(),
        after_in_child=_guard.forget_others,
    )


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread, in the whole process, until the last block of this kind is left.

    Products here are tall and thin: a second BLAS thread gains nothing on them, and between calls it spins on
    a core that the kernels need (a fit of 32000², rank 5, 2.6 million entries took 1.5 s with two BLAS
    threads, 1.1 s with one).
    """
    with Scope(FIRM) as scope:  # no Ctrl-C comes between a change and whoever undoes it
        _guard.enter()
        try:
            with scope.outside():
                yield
        finally:
            _guard.leave()
