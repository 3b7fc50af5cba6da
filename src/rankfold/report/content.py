"""What a report says, as plain numbers: whoever makes them, the page shows them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rankfold.linalg import core_of_product
from rankfold.run.trace import Trace

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]
SAMPLE = 200_000  # residuals looked at, at most: a histogram needs no more


@dataclass(frozen=True)
class DataSummary:
    """What the entries are: of which matrix, how many, how spread."""

    source: str
    shape: tuple[int, int]
    row_counts: Integers  # entries in each row
    col_counts: Integers
    mean: float
    deviation: float
    least: float
    largest: float

    @classmethod
    def of(
        cls, rows: Integers, cols: Integers, values: Floats, shape: tuple[int, int], source: str
    ) -> DataSummary:
        """Summarise entries.

        Examples
        --------
        >>> import numpy as np
        >>> data = DataSummary.of(np.array([0, 0]), np.array([1, 2]), np.array([3.0, 5.0]), (2, 3), "a.csv")
        >>> data.entries, data.row_counts.tolist(), data.mean
        (2, [2, 0], 4.0)
        """
        by_row, by_col = np.bincount(rows, minlength=shape[0]), np.bincount(cols, minlength=shape[1])
        mean, deviation = float(values.mean()), float(values.std())
        return cls(source, shape, by_row, by_col, mean, deviation, float(values.min()), float(values.max()))

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return int(self.row_counts.sum())

    @property
    def density(self) -> float:
        """The part of the matrix that is known."""
        return self.entries / (self.shape[0] * self.shape[1])


@dataclass(frozen=True)
class Report:
    """Everything a report shows; attributes that their names do not explain are below.

    Attributes
    ----------
    data
        The entries that were fitted.
    seconds
        How long it took, with all that was chosen before the first iteration of the trace.
    singular_values
        Those of the fitted matrix, without offsets.
    residuals
        Value minus prediction, of fitted entries, or of held-out ones where there are some; a sample.
    errors
        Root-mean-square error by method on the held-out entries, ours last; empty if none were held out.
    settings
        By name, as the page shows them.
    command
        What to type to get the same report.
    ranks
        (rank, held-out loss) of every rank tried, where the rank was chosen.
    coverage
        (promised, found): which part of the held-out entries intervals are to hold, and do hold; empty if
        none were held out, or the model does not know how sure it is.
    """

    data: DataSummary
    rank: int
    trace: Trace
    seconds: float
    singular_values: Floats
    residuals: Floats
    errors: dict[str, float]
    held_out: int
    settings: dict[str, str]
    command: str
    ranks: tuple[tuple[int, float], ...] = field(default=())
    coverage: tuple[tuple[float, float], ...] = field(default=())


def singular_values(L: Floats, R: Floats) -> Floats:
    """Return the singular values of L Rᵀ, from r×r matrices.

    Examples
    --------
    >>> import numpy as np
    >>> singular_values(np.diag([3.0, 1.0, 0.0])[:, :2], np.eye(4, 2))
    array([3., 1.])
    """
    return np.asarray(np.linalg.svd(core_of_product(L, R), compute_uv=False))
