"""Intervals that hold what they promise: errors of entries held out say how wide they must be."""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Floats = NDArray[Any]
_KEPT = 2001  # standardised errors, at most: their quantiles, evenly
_FAITH = 10  # in the model's own deviations: as if so many errors more had come out as it says


class Calibration(NamedTuple):
    """What the errors of entries held out were, in the deviations that the model had predicted for them.

    Attributes
    ----------
    scale
        By what the model's deviations are multiplied, so that errors have the size that they say.
    scores
        Errors divided by these deviations, in ascending order; quantiles of them if they are many.
    """

    scale: float
    scores: Floats

    @classmethod
    def of(cls, errors: Floats, deviations: Floats) -> Calibration:
        """Compare errors with what was predicted."""
        scores = np.sort(errors / deviations)
        scale = float(np.sqrt((np.sum(scores**2) + _FAITH) / (scores.size + _FAITH)))
        if scores.size > _KEPT:
            scores = np.quantile(scores, np.linspace(0.0, 1.0, _KEPT))
        return cls(scale, np.asarray(scores / scale))

    def ends(self, coverage: float) -> tuple[float, float]:
        """Return how many deviations below and above a prediction an interval ends (Vovk et al. 2005).

        Of n + 1 errors of one kind, the next one is as likely at each place among them. Where the last place
        is beyond all n, an end is that of a Gaussian, if this is farther.
        """
        n, own = self.scores.size, gaussian_ends(coverage)
        place = ceil((n + 1) * (1 + coverage) / 2 - 1e-9)
        if place <= n:
            return float(self.scores[n - place]), float(self.scores[place - 1])
        low, high = self.scores.min(initial=np.inf), self.scores.max(initial=-np.inf)
        return min(float(low), own[0]), max(float(high), own[1])


def gaussian_ends(coverage: float) -> tuple[float, float]:
    """Return the ends of a Gaussian's interval, in deviations."""
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must lie between 0 and 1, as 0.9 does, not {coverage!r}")
    end = float(ndtri((1 + coverage) / 2))
    return -end, end
