"""Processes of a run as threads of this one: what they say to each other, without their start."""

from __future__ import annotations

import queue
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
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
        self.mail: dict[Any, queue.Queue[Any]] = defaultdict(queue.Queue)  # by sender, receiver and tag

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

    def isend(self, tensor: Any, to: int, group: Any, tag: int) -> Letter:
        with self.meeting.lock:
            box = self.meeting.mail[self.rank, to, tag]
        box.put(tensor.clone())
        return Letter(self.meeting)

    def irecv(self, room: Any, of: int, group: Any, tag: int) -> Letter:
        with self.meeting.lock:
            return Letter(self.meeting, self.meeting.mail[of, self.rank, tag], room)

    def all_reduce(self, tensor: Any) -> None:
        tensor.copy_(sum(self.meeting.exchanged(self.rank, tensor.clone())))

    def all_to_all_single(self, out: Any, sent: Any, theirs: list[int], lengths: list[int]) -> None:
        pieces = self.meeting.exchanged(self.rank, sent.clone().split(lengths))
        at = 0
        for piece, length in zip((each[self.rank] for each in pieces), theirs, strict=True):
            out[at : at + length] = piece
            at += length


@dataclass
class Letter:
    """A tensor on its way, or that was sent."""

    meeting: Meeting
    box: queue.Queue[Any] | None = None
    room: Any = None

    def wait(self) -> None:
        while self.box is not None:
            try:
                self.room.copy_(self.box.get(timeout=0.1))
                return
            except queue.Empty:
                if self.meeting.barrier.broken:
                    raise threading.BrokenBarrierError from None


class ThreadGroup(Group):
    """A group whose processes are threads."""

    def _do(self, call: Callable[[Any], Any], nbytes: int, large: bool = False) -> Any:
        self._calls += 1
        self.traffic.count(nbytes, large)
        return call(Dist(self.store, self.rank))

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
