"""What the entries of a matrix are, and what may be wrong with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]

CONSTANT = 5  # entries that a line has at least, for all of them to be alike by more than chance
FENCE = 3.0  # interquartile ranges beyond a quartile: Tukey's "far out"


@dataclass(frozen=True)
class Columns:
    """What rows, columns and values are called where they come from."""

    row: str = "row"
    col: str = "column"
    value: str = "value"


@dataclass(frozen=True)
class DataSummary:
    """What the entries are: of which matrix, how many, how spread, and what is odd about them.

    Attributes
    ----------
    row_counts, col_counts
        How many entries each row and each column has.
    columns
        The names in the file; None where there were none.
    repeated
        How many entries have the row and the column of another one.
    constant_rows, constant_cols
        How many rows and columns have at least five entries, all the same.
    outliers, fences
        How many values are far out, and the two values beyond which they are: three interquartile ranges
        below and above the quartiles.
    searched
        Whether constant rows and columns, and values far out, were looked for: not so where the values are
        on disk, or no longer known. Then `mean` and `deviation` may be NaN.
    """

    source: str
    shape: tuple[int, int]
    row_counts: Integers
    col_counts: Integers
    mean: float
    deviation: float
    least: float
    largest: float
    columns: Columns | None = None
    repeated: int = 0
    constant_rows: int = 0
    constant_cols: int = 0
    outliers: int = 0
    fences: tuple[float, float] = (-np.inf, np.inf)
    searched: bool = True

    @classmethod
    def of(
        cls,
        rows: Integers,
        cols: Integers,
        values: Floats,
        shape: tuple[int, int],
        source: str,
        columns: Columns | None = None,
        repeated: int | None = None,
    ) -> DataSummary:
        """Summarise entries; without `repeated`, those that repeat a pair are counted.

        Examples
        --------
        >>> import numpy as np
        >>> data = DataSummary.of(np.array([0, 0]), np.array([1, 2]), np.array([3.0, 5.0]), (2, 3), "a.csv")
        >>> data.entries, data.row_counts.tolist(), data.mean, data.repeated
        (2, [2, 0], 4.0, 0)
        """
        by_row, by_col = np.bincount(rows, minlength=shape[0]), np.bincount(cols, minlength=shape[1])
        fences = _fences(values)
        return cls(
            source, shape, by_row, by_col,
            float(values.mean()), float(values.std()), float(values.min()), float(values.max()), columns,
            _repeated(rows, cols, shape) if repeated is None else repeated,
            _constant(rows, values, by_row), _constant(cols, values, by_col),
            int(np.count_nonzero((values < fences[0]) | (values > fences[1]))), fences,
        )  # fmt: skip

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return int(self.row_counts.sum())

    @property
    def density(self) -> float:
        """The part of the matrix that is known."""
        return self.entries / (self.shape[0] * self.shape[1])

    @property
    def unit(self) -> str:
        """What the values are called."""
        return "value" if self.columns is None else self.columns.value

    def problems(self, rank: int) -> list[str]:
        """Say what may be wrong with the data, for a fit at this rank; nothing if nothing was found.

        Examples
        --------
        >>> import numpy as np
        >>> rows, cols = np.array([0, 0, 1, 2]), np.array([0, 0, 1, 0])
        >>> DataSummary.of(rows, cols, np.ones(4), (3, 2), "a.csv").problems(1)
        ['1 entry repeats the row and the column of another one: each counts as an observation.']
        """
        found = []
        if self.repeated:
            some = "1 entry repeats" if self.repeated == 1 else f"{self.repeated:,} entries repeat"
            found.append(f"{some} the row and the column of another one: each counts as an observation.")
        for name, constant in (("row", self.constant_rows), ("column", self.constant_cols)):
            if constant:
                have = f"1 {name} has" if constant == 1 else f"{constant:,} {name}s have"
                found.append(f"{have} one and the same value in all of {CONSTANT} or more entries.")
        if self.outliers:
            lie = "1 value lies" if self.outliers == 1 else f"{self.outliers:,} values lie"
            low, high = self.fences
            found.append(f"{lie} far out, below {low:.4g} or above {high:.4g}: are they mistakes?")
        for name, counts in (("row", self.row_counts), ("column", self.col_counts)):
            few = int(np.count_nonzero((counts > 0) & (counts < rank)))
            if few:
                have = f"1 {name} has" if few == 1 else f"{few:,} of {len(counts):,} {name}s have"
                found.append(f"{have} fewer entries than the rank, {rank}: little is known of them.")
        return found


def _repeated(rows: Integers, cols: Integers, shape: tuple[int, int]) -> int:
    pairs = np.sort(rows.astype(np.int64) * shape[1] + cols)
    return int(np.count_nonzero(pairs[1:] == pairs[:-1]))


def _constant(lines: Integers, values: Floats, counts: Integers) -> int:
    """Return how many lines with enough entries have the same value in all of them."""
    least, largest = np.full(len(counts), np.inf), np.full(len(counts), -np.inf)
    np.minimum.at(least, lines, values)
    np.maximum.at(largest, lines, values)
    return int(np.count_nonzero((counts >= CONSTANT) & (least == largest)))


def _fences(values: Floats) -> tuple[float, float]:
    """Return the values beyond which one is far out; infinite where half of them are alike."""
    low, high = (float(quartile) for quartile in np.quantile(values, (0.25, 0.75)))
    reach = FENCE * (high - low)
    return (low - reach, high + reach) if reach else (-np.inf, np.inf)
