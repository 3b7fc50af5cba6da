"""BLAS at one thread while anything here runs: one setting for the process, wanted by every run."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController


class _Guard:
    """Counts who wants one thread. What the libraries had before comes back when the last one leaves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: dict[str, int] = {}
        self._holders = 0
        self._mine = threading.local()

    def enter(self) -> None:
        with self._lock:
            # Everyone looks, and not only the first: a library may have been loaded since.
            for library in _libraries():
                self._before.setdefault(library.filepath, library.num_threads)
                library.set_num_threads(1)
            self._count(1)

    def leave(self) -> None:
        with self._lock:
            self._count(-1)
            if not self._holders:
                self._restore()

    def _count(self, change: int) -> None:
        self._holders += change
        self._mine.holders = getattr(self._mine, "holders", 0) + change

    def _restore(self) -> None:
        for library in _libraries():
            if library.filepath in self._before:
                library.set_num_threads(self._before[library.filepath])
        self._before = {}

    def before_fork(self) -> None:
        """Let whoever is entering or leaving finish, so that the child sees nothing half done."""
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Forget the other threads: they are not in this process, and will never leave."""
        self._lock = threading.Lock()
        self._holders = getattr(self._mine, "holders", 0)
        if self._before and not self._holders:
            self._restore()


def _libraries() -> list[Any]:
    found: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return found


_guard = _Guard()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_guard.before_fork,
        after_in_parent=_guard.after_fork_in_parent,
        after_in_child=_guard.after_fork_in_child,
    )


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread, in the whole process, until the last block of this kind is left.

    Products here are tall and thin: a second BLAS thread gains nothing on them, and between calls it spins on
    a core that the kernels need (a fit of 32000², rank 5, 2.6 million entries took 1.5 s with two BLAS
    threads, 1.1 s with one).

    Examples
    --------
    >>> import numpy as np
    >>> with one_blas_thread():
    ...     product = np.eye(3) @ np.eye(3)
    """
    _guard.enter()
    try:
        yield
    finally:
        _guard.leave()
