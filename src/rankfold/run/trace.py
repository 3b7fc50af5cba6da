"""What a run did: one row per iteration, the start and the final point included."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from math import isfinite, nan
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, get_type_hints, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankfold.atomic import replace_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


class TraceRow(NamedTuple):
    """One iteration: where it ended, how it went, and what was evaluated during it."""

    iteration: int
    value: float
    gradient_norm: float
    seconds: float
    step: float = nan
    backtracks: int = 0
    inner_iterations: int = 0
    radius: float = nan
    rho: float = nan
    values: int = 0
    gradients: int = 0
    hessians: int = 0
    polynomials: int = 0
    blocks: int = 0
    note: str = ""

    @classmethod
    def of(cls, *cells: Any, **named: Any) -> Self:
        """Return a row of plain Python numbers: methods may have NumPy's."""
        row = cls(*cells, **named)
        return cls(*(kind(cell) for kind, cell in zip(_KINDS.values(), row, strict=True)))


_KINDS: dict[str, type] = get_type_hints(TraceRow)
_SHOWN = ("iteration", "value", "gradient_norm", "seconds", "step", "backtracks", "inner_iterations", "note")


class Trace:
    """The rows of a run, oldest first. A trace never changes: `extended` gives the next one.

    `trace["value"]` is a column as a NumPy array, `trace[-1]` a row; `np.asarray(trace)` and
    `trace.array` hold everything.

    Examples
    --------
    >>> from rankfold.run.trace import TraceRow, Trace
    >>> trace = Trace([TraceRow(0, 4.0, 2.0, 0.0), TraceRow(1, 1.0, 0.5, 0.1, step=0.25)])
    >>> trace["value"]
    array([4., 1.])
    >>> len(trace), trace[-1].gradient_norm, trace.array.step[1]
    (2, 0.5, np.float64(0.25))
    """

    def __init__(self, rows: list[TraceRow]) -> None:
        self._rows = rows
        self._length = len(rows)

    @classmethod
    def from_array(cls, array: NDArray[np.void]) -> Trace:
        """Return the trace that `np.asarray` turned into `array`; ValueError for any other array.

        One that was saved before blocks were counted has no such column.
        """
        letters = {int: "i", float: "f", str: "U"}
        names = array.dtype.names or ()
        due = [(n, letters[kind]) for n, kind in _KINDS.items() if n in names or n != "blocks"]
        if array.ndim != 1 or [(n, array.dtype[n].kind) for n in names] != due:
            raise ValueError(f"no trace has the shape {array.shape} and the type {array.dtype}")
        return cls([TraceRow(**dict(zip(names, row, strict=True))) for row in array.tolist()])

    def extended(self, row: TraceRow) -> Trace:
        """Return this trace with one more row."""
        # The list is shared with the longer trace, which makes this O(1); only if another trace has already
        # grown from this one is there something to copy.
        rows = self._rows if len(self._rows) == self._length else self._rows[: self._length]
        rows.append(row)
        return Trace(rows)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[TraceRow]:
        return iter(self._rows[: self._length])

    @overload
    def __getitem__(self, key: int) -> TraceRow: ...
    @overload
    def __getitem__(self, key: str) -> NDArray[Any]: ...
    def __getitem__(self, key: int | str) -> TraceRow | NDArray[Any]:
        if isinstance(key, str):
            if key not in _KINDS:
                raise KeyError(f"no column {key!r} in a trace: it has {', '.join(_KINDS)}")
            return np.array([getattr(row, key) for row in self], dtype=_KINDS[key])
        if not -self._length <= key < self._length:
            raise IndexError(f"row {key} of a trace of {self._length} rows")
        return self._rows[key % self._length]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        # A fixed-width string column wants its width beforehand.
        width = max([len(row.note) for row in self], default=0)
        kinds = [(name, f"U{max(width, 1)}" if kind is str else kind) for name, kind in _KINDS.items()]
        array = np.array(list(self), dtype=kinds)
        return array if dtype is None else array.astype(dtype)

    @property
    def array(self) -> np.recarray[Any, Any]:
        """Everything, as a NumPy record array."""
        return np.asarray(self).view(np.recarray)

    def to_pandas(self) -> pd.DataFrame:
        """Return the trace as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame({name: self[name] for name in TraceRow._fields})

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write the trace to `path` as comma-separated values; every float reads back exactly."""
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(TraceRow._fields)
        writer.writerows(self)
        replace_text(path, text.getvalue())

    def to_json(self, path: str | PathLike[str]) -> None:
        """Write the trace to `path` as a JSON list of objects.

        JSON has no NaN and no infinity: both become null. Every other float reads back exactly.
        """
        rows = [{name: _json(cell) for name, cell in row._asdict().items()} for row in self]
        replace_text(path, json.dumps(rows, indent=1, allow_nan=False) + "\n")

    def plot(
        self, axes: Sequence[Axes] | None = None, against: Literal["iteration", "seconds"] = "iteration"
    ) -> tuple[Axes, Axes]:
        """Draw the value above and the gradient norm below (needs matplotlib), on logarithmic axes.

        `axes` are two of your own to draw on; those that were drawn on are returned.
        """
        plt = pyplot()
        if against not in ("iteration", "seconds"):
            raise ValueError(f"against must be 'iteration' or 'seconds', not {against!r}")
        if axes is None:
            axes = plt.figure(figsize=(6.4, 5.6), layout="constrained").subplots(2, 1, sharex=True)
        upper, lower = axes
        for ax, name in ((upper, "value"), (lower, "gradient_norm")):
            column = self[name]
            # A logarithmic axis has no place for zero, where a run may well end, nor for a negative cost.
            log = bool((column > 0).any())
            ax.plot(self[against], np.where(column > 0, column, nan) if log else column, "o-", markersize=3)
            ax.set(yscale="log" if log else "linear", ylabel=name.replace("_", " "))
            ax.grid(visible=True, alpha=0.3)
        lower.set_xlabel(against)
        return upper, lower

    def __repr__(self) -> str:
        rows = [_cells(row) for row in self]
        if len(rows) > 8:
            rows = [*rows[:3], ["..."], *rows[-4:]]
        table = [[name.replace("_", " ") for name in _SHOWN], *rows]
        widths = [max(map(len, column)) for column in zip_longest(*table, fillvalue="")]
        lines = ["  ".join(map(str.rjust, line, widths)).rstrip() for line in table]
        return "\n".join([f"Trace of {len(self)} rows", *lines])


def pyplot() -> Any:
    """Return `matplotlib.pyplot`, or say how to install it: plots are an extra."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        words = "plots need matplotlib: pip install 'rankfold[plot]'"
        raise ModuleNotFoundError(words, name="matplotlib") from None
    return plt


def _json(cell: float | str) -> float | str | None:
    return None if isinstance(cell, float) and not isfinite(cell) else cell


def _cells(row: TraceRow) -> list[str]:
    cells = [getattr(row, name) for name in _SHOWN]
    return [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells]
