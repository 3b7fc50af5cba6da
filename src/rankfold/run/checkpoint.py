"""Runs in files: written whole or not at all, and read back to step on to the same numbers.

A file has the form that `rankfold.run.container` describes, and need not be trusted. It holds no data, but
what tells its data from others (`Cost.fingerprint`), and the value where the run stands, which is computed
once more when it is read. Format 1, an archive of NumPy's without these two, is refused: a run on other data
would give a false result.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from math import isclose, isfinite, isnan
from pathlib import Path
from typing import Any, cast

import numpy as np

from rankfold._version import __version__
from rankfold.atomic import replacing
from rankfold.entries.arrays import check_factors
from rankfold.linalg import eps
from rankfold.problem import Here, Problem
from rankfold.remembered import remembered
from rankfold.run.container import Arrays, Container
from rankfold.run.parts import PartFiles, write_parts
from rankfold.run.records import UNFIT, Packer, Unpacker, declared_classes, describe
from rankfold.run.result import Best, Progress
from rankfold.run.trace import Trace

_REMEDY = "resume it with the version that wrote it, or start the run again"
# Numbers of a fingerprint differ by rounding: in the sums over all data, and in what offsets leave over.
_ROUNDING = 1e-5


class CheckpointError(ValueError):
    """A file that is no checkpoint, is damaged, is of another format, or belongs to another run.

    Whatever is in a file, a run resumes from it or raises this; the message names the file.
    """


CHECKPOINTS = Container("checkpoint", 3, CheckpointError, _REMEDY)


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often to save a run: every so many iterations or seconds, whichever comes first.

    The start and the end of a run, also an interrupted one, are saved in any case.

    Examples
    --------
    >>> from rankfold.run.checkpoint import Checkpoint
    >>> Checkpoint("run.ckpt", every=10)
    Checkpoint(path='run.ckpt', every=10, seconds=60.0)
    """

    path: str | os.PathLike[str]
    every: int | None = None
    seconds: float | None = 60.0

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 1:
            raise ValueError(f"every must be at least 1 iteration, not {self.every!r}")
        if self.seconds is not None and not self.seconds >= 0:
            raise ValueError(f"seconds must be at least 0, not {self.seconds!r}")
        if not Path(self.path).absolute().parent.is_dir():
            raise ValueError(f"path is {os.fspath(self.path)!r}, whose folder does not exist: make it first")


class Writer:
    """Saves one run as its `Checkpoint` asks."""

    def __init__(self, checkpoint: Checkpoint, method: Any, problem: Problem) -> None:
        self._checkpoint, self._method, self._problem = checkpoint, method, problem
        self._saved: Progress | None = None

    def offer(self, progress: Progress) -> None:
        """Save `progress` if it is time to."""
        every, seconds = self._checkpoint.every, self._checkpoint.seconds
        if self._saved is None:
            # The first time everything may fail: a wrong path is noticed before there is work to lose.
            self._save(progress)
            self._saved = progress
        elif (every is not None and progress.iteration - self._saved.iteration >= every) or (
            seconds is not None and progress.seconds - self._saved.seconds >= seconds
        ):
            self._try_to_save(progress)

    def finish(self, progress: Progress) -> None:
        """Save the end of a run."""
        if self._saved is None or progress.iteration != self._saved.iteration:
            self._try_to_save(progress)

    @remembered
    def _data(self) -> dict[str, str | float]:
        return self._problem.cost.fingerprint()

    def _save(self, progress: Progress) -> None:
        save(self._checkpoint.path, progress, self._method, self._problem, self._data)

    def _try_to_save(self, progress: Progress) -> None:
        try:
            self._save(progress)
        except OSError as error:
            # A full disk is no reason to lose the run; the previous file is still whole.
            path = os.fspath(self._checkpoint.path)
            message = f"iteration {progress.iteration} was not saved to {path!r}: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        self._saved = progress  # also if it failed: not to try again at every iteration


def _identity(method: Any, problem: Problem) -> dict[str, str]:
    """Return what must agree for a run to be continued, by the name that an error gives it."""
    geometry = problem.geometry
    return {
        "shape": f"{tuple(map(int, geometry.shape))}",
        "rank": f"{int(geometry.rank)}",
        "geometry": describe(geometry),
        "solver": describe(method),
        "cost": type(problem.cost).__qualname__,
    }


def save(
    path: str | os.PathLike[str],
    progress: Progress,
    method: Any,
    problem: Problem,
    data: dict[str, str | float],
) -> None:
    """Write a run to the file `path`, which holds the old content until all of the new is on disk.

    `data` is the fingerprint of the problem's cost.
    """
    packer = Packer(declared_classes(method, problem.geometry), problem.cost)
    run = (progress.state, tuple(progress.best), np.asarray(progress.trace))
    meta = {
        "rankfold": __version__,
        "iteration": progress.iteration,
        "seconds": progress.seconds,
        "identity": _identity(method, problem),
        "value_at_zero": float(problem.cost.value_at_zero),
        "data": data,
        "value": _value(progress.state, problem),
        "run": [packer.pack(part) for part in run],
    }
    places = problem.cost.places
    if places is None:
        with replacing(path) as file:
            CHECKPOINTS.write(file, meta, packer.arrays)
        return
    meta["cuts"] = [list(each.cuts) for each in places]
    write_parts(
        Path(path),
        progress.iteration,
        places[0].group,
        lambda file: CHECKPOINTS.write(file, meta, packer.arrays),
    )


def load(path: str | os.PathLike[str], method: Any, problem: Problem) -> Progress:
    """Read a run back from `path`, to go on with the same method on the same problem.

    Raises CheckpointError if the file is damaged, is of another format, holds what no checkpoint may, or
    belongs to another run: one with another method or geometry, or on other data.
    """
    name, places = os.fspath(path), problem.cost.places
    os.stat(path)
    if Path(path).is_dir() != (places is not None):
        raise CheckpointError(_wrong_kind(name, places is None))
    if places is None:
        _refuse_old(path)
    try:
        meta, arrays = _read(path, places)
        identity, zero, data, value, run = _checked_meta(meta)
        _check_identity(name, identity, _identity(method, problem))
        _check_data(
            name, {"value at W = 0": zero}, {"value at W = 0": float(problem.cost.value_at_zero)}, 0.0
        )
        _check_data(name, data, problem.cost.fingerprint(), _ROUNDING)
        unpacker = Unpacker(declared_classes(method, problem.geometry), arrays, problem, places)
        state, best, rows = (unpacker.unpack(tree) for tree in run)
        progress = Progress(state, _checked_best(best, problem), Trace.from_array(rows))
        _check_value(name, value, _value(state, problem), zero, state.x)
        _check_state(progress)
    except CheckpointError:
        raise
    except UNFIT as error:
        CHECKPOINTS.refuse(name, error)
    return progress


def _read(path: str | os.PathLike[str], places: Any) -> tuple[dict[str, Any], Arrays]:
    """Return text and arrays of a file, or of this process's part."""
    if places is None:
        return CHECKPOINTS.read(path)
    group, parts = places[0].group, PartFiles.of(Path(path), CHECKPOINTS)
    found: tuple[dict[str, Any], Arrays] = group.together(lambda: parts.read(places), f"reading {path}")
    return found


def _wrong_kind(name: str, alone: bool) -> str:
    if alone:
        return (
            f"{name!r} is a folder, as runs with entries spread over processes write: resume it with entries "
            "that are spread (rankfold.distributed), over any number of processes"
        )
    return (
        f"{name!r} is no folder, and a run with entries spread over processes writes one: resume it with the "
        "entries in one process, or start the run again"
    )


def _refuse_old(path: str | os.PathLike[str]) -> None:
    with Path(path).open("rb") as file:
        if file.read(2) == b"PK":
            raise CheckpointError(
                f"{os.fspath(path)!r} has the old format 1, which this version no longer reads: {_REMEDY}"
            )


def _checked_meta(meta: dict[str, Any]) -> tuple[dict[str, str], float, dict[str, Any], float, list[Any]]:
    """Return what identifies the run, the value at zero, the data, the value, and the run."""
    match meta:
        case {
            "identity": dict() as identity,
            "value_at_zero": int() | float() as zero,
            "data": dict() as data,
            "value": int() | float() as value,
            "run": [_, _, _] as run,
        } if all(isinstance(part, str) for part in identity.values()):
            return identity, float(zero), data, float(value), run
    raise ValueError("it lacks what every checkpoint has")


def _checked_best(best: Any, problem: Problem) -> Best:
    """The best point so far, with the shape that points of this problem have, and its value."""
    x, value, norm = best
    _factors(x, problem)
    return Best(x, float(value), float(norm))


def _factors(x: Any, problem: Problem) -> tuple[Any, Any]:
    """L and R of a point that a file holds."""
    L, R = problem.with_rank_of(x).geometry.factors(x)
    check_factors(problem.geometry.shape, (L,), (R,))
    return L, R


def _value(state: Any, problem: Problem) -> float:
    """The value of the problem's cost where the state stands: not counted, nor computed again if known."""
    here = getattr(state, "here", None)
    known = isinstance(here, Here) and here.problem.cost is problem.cost and "_evaluation" in vars(here)
    return float(cast(Here, here).value if known else problem.cost.value(*_factors(state.x, problem)))


def _check_state(progress: Progress) -> None:
    """Ask for what the driver will ask for: a file may have put anything into the fields of a state."""
    state, row = progress.state, progress.trace[-1]
    if not (isinstance(state.stalled, str) and isfinite(float(state.value)) and isfinite(row.value)):
        raise ValueError("its state has no value, or does not say whether it has stalled")
    if row.iteration != len(progress.trace) - 1 or not isfinite(row.seconds):
        raise ValueError("its trace does not count the iterations, or the seconds")
    float(state.gradient_norm)


def _check_identity(name: str, saved: dict[str, str], ours: dict[str, str]) -> None:
    for part, here in ours.items():
        if saved.get(part) != here:
            raise CheckpointError(
                f"{name!r} is from another run: its {part} is {saved.get(part)}, here it is {here}"
            )


def _check_data(name: str, saved: dict[str, Any], ours: dict[str, Any], smallest: float) -> None:
    """Compare what identifies data: strings to the last bit, numbers within rounding."""
    for part, here in ours.items():
        there = saved.get(part)
        if isinstance(here, str) or not isinstance(there, (int, float)):
            same = there == here
        else:
            both = isnan(here) and isnan(there)
            same = both or isclose(here, there, rel_tol=_ROUNDING, abs_tol=smallest)
        if not same:
            raise CheckpointError(
                f"{name!r} is from other data: its {part} is {there!r}, here it is {here!r}"
            )


def _check_value(name: str, saved: float, ours: float, zero: float, x: Any) -> None:
    """Compare the value that the run had with that of its point now: other processors round otherwise."""
    precision = max(eps(part) for part in x)
    if not isclose(ours, saved, rel_tol=100 * precision**0.5, abs_tol=precision * abs(zero)):
        raise CheckpointError(
            f"{name!r} is from another cost: its point has the value {saved!r} there, and {ours!r} here"
        )
