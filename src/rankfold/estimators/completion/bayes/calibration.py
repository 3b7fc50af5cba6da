"""Intervals that hold what they promise: errors of entries held out say how wide they must be.

Quantiles of a few hundred errors are uncertain themselves: therefore small data are held out in turn, until
`ENOUGH` errors are known. The models that made them had a tenth less to go by; the posterior's own
deviations are about right where the data are as the model says. So few errors move these a little, and many
decide alone.
"""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Floats = NDArray[Any]
# Of 2000 errors the 90% quantile holds 90% ± 0.7% of new ones (Vovk 2012), of 300 ± 1.7%.
ENOUGH = 2000
_KEPT = 2001  # standardised errors, at most: their quantiles, evenly
_FAITH = 500  # in the model's own intervals: as if so many errors more had come out as it says


class Calibration(NamedTuple):
    """What the errors of entries held out were, in the deviations that the model had predicted for them.

    Attributes
    ----------
    scale
        By what the model's deviations are multiplied, so that errors have the size that they say.
    scores
        Errors divided by these deviations, in ascending order; quantiles of them if they are many.
    held_out
        How many errors there were.
    """

    scale: float
    scores: Floats
    held_out: int

    @classmethod
    def of(cls, errors: Floats, deviations: Floats) -> Calibration:
        """Compare errors with what was predicted."""
        scores = np.sort(errors / deviations)
        scale = float(np.sqrt((np.sum(scores**2) + _FAITH) / (scores.size + _FAITH)))
        count = scores.size
        if count > _KEPT:
            scores = np.quantile(scores, np.linspace(0.0, 1.0, _KEPT))
        return cls(scale, np.asarray(scores / scale), count)

    def joined(self, errors: Floats, deviations: Floats) -> Calibration:
        """Compare more errors with what was predicted; what was known so far are single errors yet."""
        scores = np.concatenate([self.scale * self.scores, errors / deviations])
        return Calibration.of(scores, np.ones(scores.size))

    def own(self, coverage: float) -> float:
        """Return the part of these errors in intervals that the model would have made without them."""
        low, high = gaussian_ends(coverage)
        errors = self.scale * self.scores
        return float(np.mean((low <= errors) & (errors <= high)))

    def ends(self, coverage: float) -> tuple[float, float]:
        """Return how many deviations below and above a prediction an interval ends.

        Of n + 1 errors of one kind, the next one is as likely at each place among them (Vovk et al. 2005).
        Where that place is beyond all n, and in part where n is small, an end is that of a Gaussian.
        """
        n, own = self.scores.size, gaussian_ends(coverage)
        place = ceil((n + 1) * (1 + coverage) / 2 - 1e-9)
        if place > n:
            return own
        part = self.held_out / (self.held_out + _FAITH)
        ends = self.scores[n - place], self.scores[place - 1]
        low, high = (part * float(end) + (1 - part) * mine for end, mine in zip(ends, own, strict=True))
        return low, high


def gaussian_ends(coverage: float) -> tuple[float, float]:
    """Return the ends of a Gaussian's interval, in deviations."""
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must lie between 0 and 1, as 0.9 does, not {coverage!r}")
    end = float(ndtri((1 + coverage) / 2))
    return -end, end
