"""Where the last fit of a completion model starts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.data.triples import Triples
from rankfold.geometry import Geometry

FactorPair = tuple[NDArray[Any], NDArray[Any]]


class StartKind(Enum):
    """Where a fit starts."""

    FACTORS = "at given factors"
    COST = "where the cost itself would start"
    CHECKPOINT = "where a saved run has come to"
    ZERO = "at W = 0, which is best: nothing is left to do"


@dataclass(frozen=True, eq=False)
class Start:
    """Where a fit starts, and the factors if they are given."""

    kind: StartKind
    factors: FactorPair | None = None

    @classmethod
    def at(cls, factors: FactorPair) -> Start:
        """Return a start at W = L Rᵀ."""
        return cls(StartKind.FACTORS, factors)

    def point(self, geometry: Geometry) -> Any:
        """Return the x0 of `minimize`; None where the cost or the checkpoint has one."""
        return None if self.factors is None else geometry.from_factors(*self.factors)


class LastFit(NamedTuple):
    """What the last fit found, for the next one to start from."""

    labels: tuple[Any, Any]
    factors: FactorPair
    regularization: float

    def serves(self, data: Triples, rank: int) -> bool:
        """Whether rows, columns and rank are those of the next fit."""
        L, R = self.factors
        labels: tuple[Any, Any] = data.row_labels, data.col_labels
        same_labels = all(np.array_equal(*both) for both in zip(self.labels, labels, strict=True))
        return same_labels and (len(L), len(R), L.shape[1]) == (*data.shape, rank)
