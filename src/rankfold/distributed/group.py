"""The processes of a run, and all that they say to each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rankfold.fingerprint import fingerprint

Array = Any  # NumPy's, or torch's
TIMEOUT = 120.0  # seconds that others may take for one pass; torch would wait for half an hour
_FAILING = 5.0  # seconds in which a failure that is everybody's shows everywhere
_WORD = 53  # bits of a hash that a float64 holds
_SMALL = 1 << 16  # bytes that are sent to everybody, and added there
_KEPT = 3  # whole arrays that are kept: R, its change, and one more


class RanksError(RuntimeError):
    """Processes of a run that have ended, do not answer, or do not agree."""


@dataclass
class Traffic:
    """What a process took part in: calls, and the bytes of arrays that were summed, gathered or sent.

    `large` calls are about all rows of a matrix, `small` ones about numbers that every process has.
    """

    small: int = 0
    large: int = 0
    bytes: int = 0

    def count(self, nbytes: int, large: bool) -> None:
        """Count one call."""
        self.large += large
        self.small += not large
        self.bytes += nbytes


@dataclass(eq=False)
class Group:
    """The processes of a run. `rank` is the number of this one, of `size` in all.

    Parameters
    ----------
    rank, size
        The number of this process, and how many there are.
    store
        What they leave each other notes in (torch's); None for one process alone.
    device
        Where tensors must be for this backend: "cpu" for gloo, a GPU for NCCL.
    wire
        The type in which the rows of R, and derivatives in it, travel; None: as they are. float32 halves the
        bytes, and rounds gradients to seven digits.
    timeout
        Seconds to wait for the others.
    """

    rank: int = 0
    size: int = 1
    store: Any = None
    device: str = "cpu"
    wire: Any = None
    timeout: float = TIMEOUT
    traffic: Traffic = field(default_factory=Traffic)
    recent: list[tuple[Any, Array]] = field(default_factory=list, repr=False)
    _calls: int = 0

    def sum(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of everybody's numbers, the same bits everywhere.

        Few numbers are added in the order of the ranks, so that their bits do not depend on what they are
        summed together with, as those of torch's sums do: a resumed run asks for others together.
        """
        if self.size == 1:
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
        if self.size == 1:
            return numbers[None]
        own = self._tensor(np.ascontiguousarray(numbers))
        out = own.new_empty((self.size * own.numel(),))
        parts = list(out.reshape(self.size, -1).unbind())
        self._do(lambda dist: dist.all_gather(parts, own.reshape(-1)), own.nbytes)
        return np.asarray(out.cpu().numpy().reshape(self.size, *np.shape(numbers)))

    def texts(self, text: bytes) -> list[bytes]:
        """Return everybody's bytes."""
        lengths = self.stacked(np.array([len(text)], dtype=np.int64))[:, 0]
        padded = np.zeros(int(lengths.max()) or 1, np.uint8)
        padded[: len(text)] = np.frombuffer(text, np.uint8)
        rows = self.stacked(padded)
        return [rows[k, :length].tobytes() for k, length in enumerate(lengths)]

    def gathered(self, block: Array, cuts: Sequence[int], exact: bool = False) -> Array:
        """Return all rows of a matrix of which everybody has those between two of its `cuts`."""
        if self.size == 1:
            return block
        own = self._on_wire(block, exact)
        rows, width = max(np.diff(cuts)), own.shape[1]
        padded = own if own.shape[0] == rows else _padded(own, int(rows))
        out = padded.new_empty((self.size * int(rows), width))
        nbytes = cuts[-1] * width * own.element_size()
        parts = list(out.reshape(self.size, int(rows), width).unbind())
        self._do(lambda dist: dist.all_gather(parts, padded), nbytes, large=True)
        if len(set(np.diff(cuts))) > 1:
            torch = _torch()
            out = torch.cat([out[k * rows : k * rows + n] for k, n in enumerate(np.diff(cuts))])
        return _as_library_of(block, out)

    def scattered_sum(self, whole: Array, cuts: Sequence[int]) -> Array:
        """Return this process's rows of the sum of everybody's matrices, added in the order of the ranks."""
        if self.size == 1:
            return whole
        sent = self._on_wire(whole)
        counts, width = np.diff(cuts).tolist(), sent.shape[1]
        own = counts[self.rank]
        out = sent.new_empty((self.size * own, width))
        self._do(
            lambda dist: dist.all_to_all_single(out, sent, [own] * self.size, counts),
            sent.nbytes,
            large=True,
        )
        parts = out.reshape(self.size, own, width)
        total = parts[0].to(_dtype_of(whole))
        for part in parts[1:]:
            total = total + part
        return _as_library_of(whole, total)

    def exchanged(self, numbers: NDArray[Any], lengths: Sequence[int]) -> NDArray[Any]:
        """Send the first `lengths[0]` numbers to process 0, the next to 1, ...; return what comes here."""
        if self.size == 1:
            return numbers
        theirs = self.stacked(np.asarray(lengths, dtype=np.int64))[:, self.rank].tolist()
        sent = self._tensor(np.ascontiguousarray(numbers))
        out = sent.new_empty((sum(theirs),))
        self._do(
            lambda dist: dist.all_to_all_single(out, sent, theirs, [int(n) for n in lengths]),
            sent.nbytes,
            large=True,
        )
        return np.asarray(out.cpu().numpy())

    def keep(self, matrix: Any, rows: Array) -> None:
        """Remember all rows of a matrix, and forget those of an older one."""
        self.recent.append((matrix, rows))
        del self.recent[:-_KEPT]

    # One mind -------------------------------------------------------------------------------------------

    def agree(
        self, seconds: float, asked: bool, interrupted: bool, must_be_equal: str
    ) -> tuple[float, bool, bool]:
        """Return the first one's clock, and whether anybody was asked to stop, or interrupted.

        Raises RanksError where `must_be_equal` is not equal everywhere.
        """
        if self.size == 1:
            return seconds, asked, interrupted
        word = int(fingerprint(np.frombuffer(must_be_equal.encode(), np.uint8))[:16], 16) >> (64 - _WORD)
        said = self.stacked(np.array([seconds, asked, interrupted, float(word)]))
        if len(set(said[:, 3].tolist())) > 1:
            self._disagree(must_be_equal)
        return float(said[0, 0]), bool(said[:, 1].any()), bool(said[:, 2].any())

    def require_equal(self, what: str, text: str) -> None:
        """Raise RanksError, everywhere, unless everybody says the same of `what`."""
        if len(set(self.texts(text.encode()))) > 1:
            self._disagree(f"{what}: {text}")

    def _disagree(self, text: str) -> NoReturn:
        said = [part.decode("utf-8", "replace") for part in self.texts(text.encode())]
        shown = "; ".join(f"process {k}: {part[:300]}" for k, part in enumerate(said))
        raise RanksError(
            "processes of this run do not agree on what must be equal: give all of them the same arguments, "
            f"on processors of one kind ({shown})"
        )

    def together(self, call: Callable[[], Any], what: str = "") -> Any:
        """Return what `call`, which talks to nobody, returns; raise everywhere where it fails anywhere."""
        error: Exception | None = None
        try:
            result = call()
        except Exception as caught:
            error, result = caught, None
        said = self.texts(b"" if error is None else f"{type(error).__name__}: {error}".encode())
        if error is not None:
            raise error
        failed = [(k, text.decode("utf-8", "replace")) for k, text in enumerate(said) if text]
        if failed:
            raise RanksError(f"{what or 'this'} failed in process {failed[0][0]}: {failed[0][1]}")
        return result

    def failed_alike(self, error: BaseException) -> bool:
        """Say that this process failed, and whether all did, at the same place: then all may go on.

        Otherwise the others wait for what will never come: leave them, which ends their waiting.
        """
        if self.size == 1:
            return True
        if isinstance(error, RanksError):
            return False
        try:
            self.store.set(f"failed/{self._calls}/{self.rank}", f"{type(error).__name__}: {error}"[:2000])
            names = [f"failed/{self._calls}/{k}" for k in range(self.size)]
            self.store.wait(names, timedelta(seconds=_FAILING))
        except Exception:
            self.leave(f"process {self.rank} failed: {type(error).__name__}: {error}")
            return False
        return True

    def leave(self, why: str = "") -> None:
        """End all connections, and with them the waiting of others; say why, if there is a reason."""
        self.recent.clear()
        if self.size == 1:
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

    def _do(self, call: Callable[[Any], Any], nbytes: int, large: bool = False) -> None:
        import torch.distributed as dist

        self._calls += 1
        self.traffic.count(nbytes, large)
        try:
            call(dist)
        except (RuntimeError, ValueError) as error:
            self._lost(error)

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
        return _torch().from_numpy(numbers).to(self.device)

    def _on_wire(self, block: Array, exact: bool = False) -> Any:
        if type(block) is np.ndarray:
            wire = block.dtype if exact or self.wire is None else np.dtype(self.wire)
            return self._tensor(np.ascontiguousarray(block, dtype=wire))
        tensor = block.contiguous()
        return (
            tensor if exact or self.wire is None else tensor.to(getattr(_torch(), str(np.dtype(self.wire))))
        )


def start(timeout: float = TIMEOUT, backend: str | None = None, wire: Any = None) -> Group:
    """Join the processes that torchrun, Slurm or whoever has started; without any, be the only one.

    Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (or Slurm's SLURM_PROCID and SLURM_NTASKS).

    Parameters
    ----------
    timeout
        Seconds to wait for the others in one exchange, after which the run ends with an error.
    backend
        "gloo" or "nccl"; if None, NCCL where every process has a GPU, else gloo.
    wire
        "float32" to send half the bytes, see `Group`.

    Examples
    --------
    >>> from rankfold.distributed import start
    >>> group = start()  # of a process that nobody else was started with
    >>> group.rank, group.size
    (0, 1)
    """
    variables = os.environ
    rank = int(variables.get("RANK", variables.get("SLURM_PROCID", "0")))
    size = int(variables.get("WORLD_SIZE", variables.get("SLURM_NTASKS", "1")))
    wire = None if wire is None else np.dtype(wire)
    if size == 1:
        return Group(wire=wire, timeout=timeout)
    if "MASTER_ADDR" not in variables or "MASTER_PORT" not in variables:
        raise RanksError(
            f"there are {size} processes, and MASTER_ADDR and MASTER_PORT do not say where they meet: set "
            "both, or let torchrun start them"
        )
    torch = _torch()
    import torch.distributed as dist

    backend = backend or ("nccl" if torch.cuda.is_available() else "gloo")
    device = "cpu"
    if backend == "nccl":
        local = int(variables.get("LOCAL_RANK", variables.get("SLURM_LOCALID", "0")))
        torch.cuda.set_device(local)
        device = f"cuda:{local}"
    store = _meeting_place(rank, size, timeout)
    limit = timedelta(seconds=timeout)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=limit)
    notes = dist.PrefixStore("rankfold", store)
    return Group(rank, size, notes, device, wire, timeout)


def _meeting_place(rank: int, size: int, timeout: float) -> Any:
    """Where processes find each other: torchrun's own store, or one that the first of them keeps.

    Under a name of its own after each restart: what torchrun keeps has the addresses of processes that died.
    """
    import torch.distributed as dist

    kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = dist.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        size,
        is_master=rank == 0 and not kept,
        timeout=timedelta(seconds=timeout),
    )
    return dist.PrefixStore(f"restart {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def _torch() -> Any:
    try:
        import torch
    except ImportError as missing:
        raise ImportError("several processes need torch: pip install 'rankfold[torch]'") from missing
    return torch


def _padded(tensor: Any, rows: int) -> Any:
    out = tensor.new_zeros((rows, tensor.shape[1]))
    out[: tensor.shape[0]] = tensor
    return out


def _dtype_of(array: Array) -> Any:
    return getattr(_torch(), str(array.dtype)) if type(array) is np.ndarray else array.dtype


def _as_library_of(example: Array, tensor: Any) -> Array:
    """A tensor as an array of the library, and of the type, of `example`."""
    if type(example) is np.ndarray:
        return np.asarray(tensor.cpu().numpy(), dtype=example.dtype)
    return tensor.to(example.dtype)
