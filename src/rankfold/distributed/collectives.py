"""Sums, gathers and exchanges of arrays over processes, and what happens when one of these is gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rankfold.distributed.wire import Traffic, as_library_of, dtype_of, none_of, the_torch

Array = Any  # NumPy's, or torch's
TIMEOUT = 120.0  # seconds that others may take for one pass; torch would wait for half an hour
ROOM = 1e9  # bytes of others' rows that a process keeps from one pass to the next
KEPT = 3  # whole arrays that are kept: R, its change, and one more
_SMALL = 1 << 16  # bytes that are sent to everybody, and added there
_TAGS = 1 << 20  # exchanges that have names of their own: more than are ever on their way at a time


class RanksError(RuntimeError):
    """Processes of a run that have ended, do not answer, or do not agree."""


def nothing() -> None:
    """Have nothing to wait for."""


@dataclass(frozen=True, eq=False)
class Coming:
    """Rows that are on their way, while the process does something else."""

    made: Callable[[], Array]
    wait: Callable[[], None] = nothing

    def take(self) -> Array:
        """Wait for them, and return them."""
        self.wait()
        return self.made()


@dataclass(eq=False)
class Collectives:
    """What processes do with arrays together; see `Group`, which has its parameters."""

    rank: int = 0
    size: int = 1
    store: Any = None
    device: str = "cpu"
    wire: Any = None
    timeout: float = TIMEOUT
    room: float = ROOM
    downward: Any = None
    traffic: Traffic = field(default_factory=Traffic)
    recent: list[tuple[Any, Any, Array]] = field(default_factory=list, repr=False)
    _calls: int = 0

    @property
    def alone(self) -> bool:
        """Whether there is nobody else to exchange anything with."""
        return self.size == 1

    def sum(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of everybody's numbers, the same bits everywhere.

        Few numbers are added in the order of the ranks, so that their bits do not depend on what they are
        summed together with, as those of torch's sums do: a resumed run asks for others together.
        """
        if self.alone:
            return numbers
        if numbers.nbytes <= _SMALL:
            total, *others = self.stacked(numbers)
            for part in others:
                total = total + part
            return np.asarray(total)
        tensor = self._tensor(np.array(numbers, dtype=np.float64))
        self._do(lambda dist: dist.all_reduce(tensor), tensor.nbytes)
        return np.asarray(tensor.cpu().numpy(), dtype=numbers.dtype)

    def most(self, number: float) -> float:
        """Return the largest of everybody's numbers."""
        return float(self.stacked(np.array([number], dtype=np.float64)).max())

    def stacked(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return everybody's numbers, of one shape and type, in the order of the ranks."""
        if self.alone:
            return numbers[None]
        own = self._tensor(np.ascontiguousarray(numbers)).reshape(-1)
        out = own.new_empty((self.size, own.numel()))
        self._swapping([own] * self.size, out.unbind(), own.nbytes)()
        return np.asarray(out.cpu().numpy().reshape(self.size, *np.shape(numbers)))

    def texts(self, text: bytes) -> list[bytes]:
        """Return everybody's bytes."""
        lengths = self.stacked(np.array([len(text)], dtype=np.int64))[:, 0]
        padded = np.zeros(int(lengths.max()) or 1, np.uint8)
        padded[: len(text)] = np.frombuffer(text, np.uint8)
        rows = self.stacked(padded)
        return [rows[k, :length].tobytes() for k, length in enumerate(lengths)]

    def joined(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return everybody's rows, of which each has as many as it has, in the order of the ranks."""
        lengths = self.stacked(np.array([len(rows)], dtype=np.int64))[:, 0]
        return np.asarray(self.gathered(rows, (0, *np.cumsum(lengths).tolist()), exact=True))

    def gathered(self, block: Array, cuts: Sequence[int], exact: bool = False) -> Array:
        """Return all rows of a matrix of which everybody has those between two of its `cuts`."""
        return self.gathering(block, cuts, exact).take()

    def gathering(self, block: Array, cuts: Sequence[int], exact: bool = False) -> Coming:
        """Begin what `gathered` does: whoever takes the rows waits for them."""
        if self.alone:
            return Coming(lambda: block)
        own = self._on_wire(block, exact)
        lengths, width = np.diff(cuts).tolist(), own.shape[1]
        out = own.new_empty((cuts[-1] - cuts[0], width))
        waiting = self._swapping([own] * self.size, out.split(lengths), out.nbytes, large=True)
        example = none_of(block)
        return Coming(lambda: as_library_of(example, out), waiting)

    def scattered_sum(self, whole: Array, cuts: Sequence[int]) -> Array:
        """Return this process's rows of the sum of everybody's matrices, added in the order of the ranks."""
        return self.scattering(whole, cuts).take()

    def scattering(self, whole: Array, cuts: Sequence[int]) -> Coming:
        """Begin what `scattered_sum` does: whoever takes the rows waits for them."""
        if self.alone:
            return Coming(lambda: whole)
        sent = self._on_wire(whole)
        counts, width, kind = np.diff(cuts).tolist(), sent.shape[1], dtype_of(whole)
        out = sent.new_empty((self.size, counts[self.rank], width))
        waiting = self._swapping(sent.split(counts), out.unbind(), sent.nbytes, large=True)
        example = none_of(whole)

        def made() -> Array:
            total = out[0].to(kind)
            for part in out[1:]:
                total = total + part
            return as_library_of(example, total)

        return Coming(made, waiting)

    def exchanged(self, numbers: NDArray[Any], lengths: Sequence[int]) -> NDArray[Any]:
        """Send the first `lengths[0]` numbers to process 0, the next to 1, ...; return what comes here."""
        if self.alone:
            return numbers
        theirs = self.stacked(np.asarray(lengths, dtype=np.int64))[:, self.rank].tolist()
        kind = numbers.dtype
        plain = np.ascontiguousarray(numbers)
        if kind.kind == "u":  # torch knows few of these, and bits are bits
            plain = plain.view(f"i{kind.itemsize}")
        sent = self._tensor(plain)
        out = sent.new_empty((sum(theirs),))
        self._do(
            lambda dist: dist.all_to_all_single(out, sent, theirs, [int(n) for n in lengths]),
            sent.nbytes,
            large=True,
        )
        return np.asarray(out.cpu().numpy().view(kind))

    def keep(self, matrix: Any, rows: Array, order: Any = None) -> None:
        """Remember all rows of a matrix, in an order of theirs, and forget those of an older one."""
        self.recent.append((matrix, order, rows))
        del self.recent[:-KEPT]

    def keep_of(self, matrices: Sequence[Any], others: int) -> None:
        """Forget all rows but those of these matrices, and of as many others as were remembered last."""
        wanted = [entry for entry in self.recent if any(entry[0] is each for each in matrices)]
        more = [entry for entry in self.recent if not any(entry[0] is each for each in matrices)]
        self.recent[:] = more[len(more) - max(others - len(wanted), 0) :] + wanted

    def kept(self, matrix: Any, order: Any = None) -> Any:
        """Return all rows of a matrix in this order, if they are remembered; else None."""
        found = (rows for each, its, rows in self.recent if each is matrix and its is order)
        return next(found, None)

    def leave(self, why: str = "") -> None:
        """End all connections, and with them the waiting of others; say why, if there is a reason."""
        self.recent.clear()
        if self.alone:
            return
        import torch.distributed as dist

        if why:
            try:
                self.store.set("why", why[:2000])
            except Exception:  # whoever kept the notes has gone
                why = ""
        if dist.is_initialized():
            dist.destroy_process_group()

    # What is beneath ------------------------------------------------------------------------------------

    def _do(self, call: Callable[[Any], Any], nbytes: int, large: bool = False) -> Any:
        """Make a call of torch.distributed, and return what is to be waited for, if there is anything."""
        import torch.distributed as dist

        self._calls += 1
        self.traffic.count(nbytes, large)
        try:
            return call(dist)
        except (RuntimeError, ValueError) as error:
            self._lost(error)

    def _swapping(
        self, sent: Sequence[Any], arriving: Sequence[Any], nbytes: int, large: bool = False
    ) -> Callable[[], None]:
        """Begin to send a tensor to each process, and to take one of each; return what waits for all of it.

        Straight from one to the other: gloo hands its gathers and exchanges to threads of its own, and to
        wake these takes more of a processor than to send what an iteration sends. By one connection upwards
        and one downwards: who sends holds a connection, and gloo's thread, woken by what arrives on it, would
        ask for it again and again meanwhile.
        """
        others = [k for k in range(self.size) if k != self.rank]

        def begun(dist: Any) -> list[Any]:
            if self.device != "cpu":
                return [dist.all_to_all(list(arriving), list(sent), async_op=True)]
            arriving[self.rank].copy_(sent[self.rank])
            tag, up, down = self._calls % _TAGS, None, self.downward
            coming = [
                dist.irecv(arriving[k], k, up if k < self.rank else down, tag)
                for k in others
                if arriving[k].numel()
            ]
            return coming + [
                dist.isend(sent[k], k, up if k > self.rank else down, tag) for k in others if sent[k].numel()
            ]

        works = self._do(begun, nbytes, large)

        def wait() -> None:
            try:
                for work in works:
                    work.wait()
            except (RuntimeError, ValueError) as error:
                self._lost(error)

        return wait

    def _lost(self, error: Exception) -> NoReturn:
        why = ""
        try:
            self.store.wait(["why"], timedelta(seconds=1))
            why = self.store.get("why").decode("utf-8", "replace")
        except Exception:  # nobody said why, or whoever kept the notes has gone
            why = ""
        self.leave(why or f"process {self.rank} lost the others")
        reason = why or f"one has ended, or has not answered for {self.timeout:.0f} s"
        raise RanksError(
            f"process {self.rank} of {self.size} cannot reach the others: {reason}. Start the run again; "
            f"with a checkpoint it goes on from there ({type(error).__name__}: {str(error)[:300]})"
        ) from error

    def _tensor(self, numbers: NDArray[Any]) -> Any:
        own = numbers if numbers.flags.writeable else numbers.copy()  # torch warns of others
        return the_torch().from_numpy(own).to(self.device)

    def _on_wire(self, block: Array, exact: bool = False) -> Any:
        if type(block) is np.ndarray:
            wire = block.dtype if exact or self.wire is None else np.dtype(self.wire)
            return self._tensor(np.ascontiguousarray(block, dtype=wire))
        kept = exact or self.wire is None
        kind = block.dtype if kept else getattr(the_torch(), str(np.dtype(self.wire)))
        return block.contiguous().to(device=self.device, dtype=kind)
