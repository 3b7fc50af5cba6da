"""Small numbers on their way between the host and a GPU, without a wait for each of them.

Tables go there through pinned memory, slot after slot. Sums come back by a kernel that writes them to pinned
memory itself, and beside that to where other kernels find them; whoever reads one of them first waits for all
that are on their way.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold import kernels

Tensor = Any
_SLOTS, _SIZE = 32, 4096  # tables that may be on their way, and numbers of each
_ROOM = 1 << 15  # for numbers that come back


class Coming:
    """So many numbers that a GPU is to write, to the memory of a desk from the number `place` on."""

    __slots__ = ("_desk", "count", "found", "place")

    def __init__(self, desk: Desk, place: int, count: int) -> None:
        self._desk, self.place, self.count = desk, place, count
        self.found: NDArray[np.float64] | None = None

    def numbers(self) -> NDArray[np.float64]:
        """Return them, after a wait if need be."""
        while self.found is None:
            self._desk.wait()
        return self.found


class Desk:
    """The memory through which one thread exchanges small numbers with one device."""

    def __init__(self, device: Any) -> None:
        import torch

        pinned = device.type == "cuda"
        self._stream = functools.partial(torch.cuda.current_stream, device.index) if pinned else None
        #: where kernels write what the host waits for, and where those sums are for other kernels
        self.home = torch.empty(_ROOM, dtype=torch.float64, pin_memory=pinned)
        self._there = torch.empty(_ROOM, dtype=torch.float64, device=device)
        self._numbers, self._used = self.home.numpy(), 0
        self._coming: list[Coming] = []
        given = torch.empty((_SLOTS, _SIZE), dtype=torch.int64, pin_memory=pinned)
        there = torch.empty((_SLOTS, _SIZE), dtype=torch.int64, device=device)
        self._slots = [(A.numpy(), A, B, B.view(torch.float64)) for A, B in zip(given, there, strict=True)]
        self._sent = 0
        # Room for sums of which parts are there: those that wait to be added up, and the next ones.
        self._rooms = [torch.empty(0, dtype=torch.float64, device=device) for _ in range(2)]
        self._parts: list[tuple[Coming, Tensor, int]] = []

    def send(self, numbers: NDArray[Any]) -> Tensor:
        """Bring 64-bit numbers to the device, without a wait; they are there until the next few were sent."""
        if numbers.size > _SIZE:
            import torch

            return torch.from_numpy(numbers).to(self._rooms[0].device)
        given, integers, floats = self._filled(numbers)
        integers.copy_(given, non_blocking=True)
        return integers if numbers.dtype == np.int64 else floats

    def lend(self, numbers: NDArray[np.int64]) -> Tensor:
        """Have the device read numbers where they are, on the host: for a few, each of which is read once."""
        return self.send(numbers) if numbers.size > _SIZE else self._filled(numbers)[0]

    def _filled(self, numbers: NDArray[Any]) -> tuple[Tensor, Tensor, Tensor]:
        if self._sent == _SLOTS:
            self.wait()
        home, given, integers, floats = self._slots[self._sent]
        self._sent += 1
        home[: numbers.size] = numbers.reshape(-1).view(np.int64)
        return given, integers, floats

    def scratch(self, count: int) -> Tensor:
        """Return memory for so many numbers, which the next call of `summed` is to read."""
        own, other = self._rooms
        if self._parts and self._parts[0][1] is own:
            own, other = other, own
        if own.shape[0] < count:
            own = own.new_empty(count)
        self._rooms = [own, other]
        return own

    def summed(self, parts: Tensor, rows: int, count: int) -> Coming:
        """Have the rows of `parts`, each `count` numbers long, added up: by a launch for two such calls."""
        if rows > _ROOM:
            coming = Coming(self, 0, rows)
            coming.found = parts[: rows * count].reshape(rows, count).sum(1).cpu().numpy()
            return coming
        coming = self._expected(rows)
        self._parts.append((coming, parts, count))
        if len(self._parts) == 2:
            self._add_up()
        return coming

    def added_up(self) -> Tensor:
        """Return where kernels find the sums that are on their way, each at its place."""
        if self._parts:
            self._add_up()
        return self._there

    def expected(self, count: int) -> Coming:
        """Return the place for numbers that a kernel is to write to `home`."""
        self.added_up()  # those that are added up by one launch lie side by side
        return self._expected(count)

    def _expected(self, count: int) -> Coming:
        if self._used + count > _ROOM:
            self.wait()
        coming = Coming(self, self._used, count)
        self._used += count
        self._coming.append(coming)
        return coming

    def _add_up(self) -> None:
        (coming, parts, count), (last, others, length) = self._parts[0], self._parts[-1]
        both = last.place + last.count - coming.place
        tensors = parts, others, self.home, self._there
        numbers = coming.place, coming.count, count, length
        layout = kernels.gpu_tall.totalling(count, length)
        kernels.gpu_launch.launch(kernels.gpu_tall.totals, (both,), tensors, numbers, layout)
        self._parts.clear()

    def wait(self) -> None:
        """Wait for the device, and take all numbers that it has written."""
        self.added_up()
        if self._stream is not None:
            self._stream().synchronize()
        for coming in self._coming:
            coming.found = self._numbers[coming.place : coming.place + coming.count].copy()
        self._coming.clear()
        self._used = self._sent = 0


class _Desks(threading.local):
    def __init__(self) -> None:
        self.of: dict[int, Desk] = {}


_desks = _Desks()


def desk(example: Tensor) -> Desk:
    """Return this thread's desk for the device of a tensor."""
    number = example.get_device()
    if (found := _desks.of.get(number)) is None:
        found = _desks.of[number] = Desk(example.device)
    return found
