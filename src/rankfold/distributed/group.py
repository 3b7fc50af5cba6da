"""The processes of a run, and how they stay of one mind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic, sleep
from typing import Any, NoReturn

import numpy as np

from rankfold.distributed.collectives import Collectives, RanksError
from rankfold.fingerprint import fingerprint

_FAILING = 5.0  # seconds in which a failure that is everybody's shows everywhere
_BEAT, _PAUSE = 2.0, 0.05  # seconds from one sign of life to the next, and between looks for others
_WORD = 53  # bits of a hash that a float64 holds


@dataclass(eq=False)
class Group(Collectives):
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
    room
        Bytes that rows of R may take which a process keeps from one pass to the next, where R comes in
        stripes. If R alone takes more, it holds two stripes of each matrix, and R is sent once more.
    downward
        torch's group for what goes to processes of lower numbers; None: that for all else.
    """

    _meetings: int = 0

    def agree(
        self, seconds: float, asked: bool, interrupted: bool, must_be_equal: str
    ) -> tuple[float, bool, bool]:
        """Return the first one's clock, and whether anybody was asked to stop, or interrupted.

        Raises RanksError where `must_be_equal` is not equal everywhere.
        """
        if self.alone:
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
        """Return what `call`, which talks to nobody, returns; raise everywhere where it fails anywhere.

        It may take any time, and one process longer than another: whoever is at work says so all the while.
        """
        error: Exception | None = None
        with self._beating():
            try:
                result = call()
            except Exception as caught:
                error, result = caught, None
        self._wait_for_all(what)
        said = self.texts(b"" if error is None else f"{type(error).__name__}: {error}".encode())
        if error is not None:
            raise error
        failed = [(k, text.decode("utf-8", "replace")) for k, text in enumerate(said) if text]
        if failed:
            raise RanksError(f"{what or 'this'} failed in process {failed[0][0]}: {failed[0][1]}")
        return result

    @contextmanager
    def _beating(self) -> Iterator[None]:
        """Tell the others every few seconds that this process is at work."""
        if self.alone:
            yield
            return
        done = threading.Event()

        def beat() -> None:
            while not done.wait(_BEAT):
                self.store.add(f"beat/{self.rank}", 1)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _wait_for_all(self, what: str) -> None:
        """Wait until all are here, as long as those that are not say that they are at work."""
        if self.alone:
            return
        self._meetings += 1
        names = [f"here/{self._meetings}/{k}" for k in range(self.size)]
        heard, since = [-1] * self.size, monotonic()
        try:
            self.store.set(names[self.rank], "yes")
            while not self.store.check(names):
                beats = [self.store.add(f"beat/{k}", 0) for k in range(self.size)]
                if beats != heard:
                    heard, since = beats, monotonic()
                if monotonic() - since > self.timeout:
                    raise TimeoutError(f"nothing was heard of a process during {what or 'a step'}")
                sleep(_PAUSE)
        except Exception as error:
            self._lost(error)

    def failed_alike(self, error: BaseException) -> bool:
        """Say that this process failed, and whether all did, at the same place: then all may go on.

        Otherwise the others wait for what will never come: leave them, which ends their waiting.
        """
        if self.alone:
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
