"""Processes of a run as threads of this one: what they say to each other, without their start."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rankfold.distributed import Group

LIMIT = 300  # seconds: for a machine that is busy, not for a hang


class Meeting:
    """Where threads leave what the others take, and notes."""

    def __init__(self, size: int) -> None:
        self.slots: list[Any] = [None] * size
        self.barrier = threading.Barrier(size, timeout=LIMIT)
        self.notes: dict[str, Any] = {}
        self.lock = threading.Lock()

    def exchanged(self, rank: int, thing: Any) -> list[Any]:
        """Return everybody's things."""
        self.slots[rank] = thing
        self.barrier.wait()
        found = list(self.slots)
        self.barrier.wait()
        return found

    def set(self, name: str, value: Any) -> None:
        self.notes[name] = value

    def check(self, names: list[str]) -> bool:
        return all(name in self.notes for name in names)

    def add(self, name: str, number: int) -> int:
        with self.lock:
            self.notes[name] = self.notes.get(name, 0) + number
            return self.notes[name]


class Dist:
    """What is used of torch.distributed."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.meeting, self.rank = meeting, rank

    def all_gather(self, parts: list[Any], own: Any, async_op: bool = False) -> None:
        for part, other in zip(parts, self.meeting.exchanged(self.rank, own.clone()), strict=True):
            part.copy_(other)

    def all_reduce(self, tensor: Any) -> None:
        tensor.copy_(sum(self.meeting.exchanged(self.rank, tensor.clone())))

    def all_to_all_single(
        self, out: Any, sent: Any, theirs: list[int], lengths: list[int], async_op: bool = False
    ) -> None:
        pieces = self.meeting.exchanged(self.rank, sent.clone().split(lengths))
        at = 0
        for piece, length in zip((each[self.rank] for each in pieces), theirs, strict=True):
            out[at : at + length] = piece
            at += length


class ThreadGroup(Group):
    """A group whose processes are threads."""

    def _do(self, call: Callable[[Any], Any], nbytes: int, large: bool = False) -> None:
        self._calls += 1
        self.traffic.count(nbytes, large)
        call(Dist(self.store, self.rank))

    def leave(self, why: str = "") -> None:
        self.recent.clear()


def on_threads(size: int, work: Callable[[Group], Any]) -> list[Any]:
    """Return what each of so many threads makes of its group; an error of one is raised here."""
    meeting, found, errors = Meeting(size), [None] * size, []

    def run(rank: int) -> None:
        try:
            found[rank] = work(ThreadGroup(rank, size, meeting))
        except BaseException as error:
            errors.append(error)
            meeting.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    real = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
    if real or errors:
        raise (real or errors)[0]
    return found
