"""What a report says, as plain numbers: whoever makes them, the page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.linalg import core_of_product
from rankfold.report.data import DataSummary
from rankfold.run.trace import Trace

Floats = NDArray[np.float64]
SAMPLE = 200_000  # residuals looked at, at most: a histogram needs no more


class Picture(NamedTuple):
    """A PNG file, and what it shows."""

    caption: str
    content: bytes


@dataclass(frozen=True)
class Tried:
    """What a choice was made from: each candidate, its error on entries held out, and how sure that is.

    Examples
    --------
    >>> Tried.of_losses((1, 2), (0.25, 0.0625), (0.5, 0.25), 2, square=True)
    Tried(candidates=(1, 2), errors=(0.5, 0.25), bars=(0.5, 0.5), chosen=2, square=True, finished=False)
    """

    candidates: tuple[float, ...]
    errors: tuple[float, ...]
    bars: tuple[float, ...]  # a standard error each, or none at all
    chosen: float
    square: bool = True  # errors are root mean squares, otherwise mean losses
    finished: bool = False  # the best candidates are shown with the Bayesian finish, others without

    @classmethod
    def of_losses(
        cls,
        candidates: Sequence[float],
        losses: Sequence[float],
        standard_errors: Sequence[float],
        chosen: float,
        square: bool,
    ) -> Tried:
        """Take mean losses with their standard errors; mean squares become roots, as errors are elsewhere."""
        if not square:
            return cls(tuple(candidates), tuple(losses), tuple(standard_errors), chosen, square)
        roots = tuple(sqrt(loss) for loss in losses)
        # the root of m ± s is √m ± s/(2√m), to first order
        bars = tuple(s / (2 * root) if root else 0.0 for s, root in zip(standard_errors, roots, strict=False))
        return cls(tuple(candidates), roots, bars, chosen, square)

    @classmethod
    def of_path(cls, path: Any, square: bool, finished: bool = False) -> Tried | None:
        """Take a model's `rank_path_` or `regularization_path_`, which may be None."""
        if path is None:
            return None
        tried = getattr(path, "ranks", None) or path.regularizations
        made = cls.of_losses(tried, path.errors, path.standard_errors, path.chosen, square)
        return replace(made, finished=finished)

    @property
    def unit(self) -> str:
        """What the errors are."""
        return "root-mean-square error" if self.square else "mean loss"


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
        Value minus prediction, of fitted entries, or of held-out ones where there are some; a sample. Empty
        where no values are known.
    errors
        Root-mean-square error by method on the held-out entries, ours last; empty if none were held out.
    settings
        By name, as the page shows them.
    command
        What to type to get the same report.
    ranks, weights
        The ranks and the weights λ of the penalty that were tried, where they were chosen.
    coverage
        (promised, found): which part of the held-out entries intervals are to hold, and do hold; where none
        were, of those that the fit held out itself. Empty if the model does not know how sure it is.
    calibrated
        How many entries the fit held out to say how wide intervals must be.
    values
        The entries that residuals are of: predictions are drawn against them. Empty if they are not known.
    pictures
        What to show above all else.
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
    ranks: Tried | None = None
    weights: Tried | None = None
    coverage: tuple[tuple[float, float], ...] = ()
    calibrated: int = 0
    values: Floats = field(default_factory=lambda: np.empty(0))
    pictures: tuple[Picture, ...] = ()


def singular_values(L: Floats, R: Floats) -> Floats:
    """Return the singular values of L Rᵀ, from r×r matrices.

    Examples
    --------
    >>> import numpy as np
    >>> singular_values(np.diag([3.0, 1.0, 0.0])[:, :2], np.eye(4, 2))
    array([3., 1.])
    """
    return np.asarray(np.linalg.svd(core_of_product(L, R), compute_uv=False))
