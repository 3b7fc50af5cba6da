"""Ctrl-C at a moment of our choosing: raised while nothing can be lost by it, kept while something can.

Python raises KeyboardInterrupt between any two operations: also after a fit has ended and before its result
has a name. A `Scope` keeps a first Ctrl-C until somebody asks for it (`Scope.answer`), until work that may be
given up begins (`interruptible`), or until its own end. A second one is raised at once.

Taken over is only what would raise KeyboardInterrupt, only in the main thread, where Python handles signals,
and only while a scope lasts. A program with a handler of its own keeps it. One that wants SIGTERM to end a
fit like Ctrl-C says `signal.signal(signal.SIGTERM, signal.default_int_handler)`, as the command line does.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from math import inf
from types import FrameType, TracebackType
from typing import Any, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# How many signals a level keeps: none, the first, or, for operations that must not be torn apart, all.
RAISE, KEEP, FIRM = 0, 1, inf


class _MainThread:
    """What the main thread does with signals: as its innermost level says, which is the last."""

    def __init__(self) -> None:
        self.levels: list[Scope] = []
        self.received: list[int] = []  # since the outermost scope began
        self.waiting = False
        self.found: dict[signal.Signals, Any] = {}

    def take_over(self) -> None:
        self.received, self.waiting = [], False
        for number in _SIGNALS:
            if signal.getsignal(number) is signal.default_int_handler:
                self.found[number] = signal.signal(number, self.handle)

    def give_back(self) -> None:
        self.levels.clear()
        while self.found:
            signal.signal(*self.found.popitem())

    def handle(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)
        self.waiting = True  # also if raised: where Python must ignore exceptions, it comes again
        self.raise_waiting()

    def raise_waiting(self) -> None:
        if self.waiting and not (self.levels and len(self.received) <= self.levels[-1].patience):
            raise KeyboardInterrupt


_main = _MainThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_main.give_back)  # a child begins with nothing to lose


class Scope:
    """A block in which signals are treated alike: with a given patience, or as around it until `keep`.

    A `unit` is work that yields one thing, such as a fit: `keep_until_done` lasts until its end.
    """

    def __init__(self, patience: float | None = None, *, unit: bool = False) -> None:
        self.patience = RAISE if patience is None else patience
        self.unit, self._inherits, self._index = unit, patience is None, -1
        self.received: list[int] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._index = len(_main.levels)
            try:
                if self._index == 0:
                    _main.take_over()
                if self._inherits:
                    self.patience = self._outside
                self.received = _main.received
                _main.levels.append(self)
            except BaseException:
                self._leave()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._index >= 0:
            self._leave()
            if kind is not None and issubclass(kind, KeyboardInterrupt):
                _main.waiting = False
            _main.raise_waiting()

    def _leave(self) -> None:
        del _main.levels[self._index :]
        if self._index == 0:
            _main.give_back()

    @property
    def _outside(self) -> float:
        return _main.levels[self._index - 1].patience if self._index > 0 else RAISE

    def outside(self) -> Scope:
        """Return a scope within this one that is as if this one did not exist."""
        return Scope(self._outside)

    def keep(self) -> None:
        """Keep what comes from now on until this block ends, whatever it has called."""
        for level in _main.levels[self._index :] if self._index >= 0 else ():
            level.patience = max(level.patience, KEEP)

    def answer(self) -> bool:
        """Whether one is waiting, which with this has had its answer."""
        waiting = self._index >= 0 and _main.waiting
        if waiting:
            _main.waiting = False
        return waiting


def keep_until_done() -> None:
    """Keep what comes until the innermost unit of work ends; without one, do nothing."""
    if threading.current_thread() is threading.main_thread():
        units = [level for level in _main.levels if level.unit]
        if units:
            units[-1].keep()


def interruptible(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `call` returns, unless a Ctrl-C, also one that waits, ends it by KeyboardInterrupt."""
    levels = _main.levels
    if not levels or threading.current_thread() is not threading.main_thread():
        return call(*args, **kwargs)
    index = len(levels)
    try:
        levels.append(Scope(RAISE))
        _main.raise_waiting()
        return call(*args, **kwargs)
    finally:
        del levels[index:]
