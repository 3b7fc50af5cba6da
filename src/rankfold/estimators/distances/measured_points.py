"""Pairs or triplets of points, with features or without, and what is known of their distances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.distances import Distances, Triplets, checked_tuples
from rankfold.costs.losses import Loss
from rankfold.costs.mapped import Features
from rankfold.entries.given_arrays import unmasked
from rankfold.estimators.inputs import is_auto

Floats = NDArray[Any]
_SPARE = 10  # of points without a pair to every one that has some, the most: beyond, numbers are no positions


@dataclass(frozen=True, eq=False)
class MeasuredPoints:
    """Pairs with their squared distances, or triplets, of `count` points."""

    where: NDArray[np.int64]
    values: Floats | None
    points: Features | None
    count: int

    @staticmethod
    def of(X: Any, y: Floats | None, points: Any, count: int | None = None) -> MeasuredPoints:
        """Return the pairs or triplets X, checked; `count` is that of the points of an earlier fit."""
        width = X.shape[1]
        if width not in (2, 3):
            raise ValueError(f"X must have 2 columns (pairs) or 3 (triplets); got n_features = {width}")
        where = checked_tuples("X", X, width)
        if count is None and (y is None) != (width == 3):
            raise ValueError(
                "pairs take y, their squared distances, and triplets take none; "
                f"got {'no y' if y is None else 'y'} and {width} columns"
            )
        features = None if points is None else Features.checked("points", points)
        largest, used = int(where.max()) + 1, np.unique(where).size
        if features is not None:
            count = features.matrix.shape[0]
        elif count is None:
            count = largest
            if count > _SPARE * used:
                raise ValueError(f"X names {used} points by numbers up to {count - 1}: number them from 0")
        if largest > count:
            raise ValueError(f"X has the point {largest - 1}, and there are {count} points, numbered from 0")
        return MeasuredPoints(where, y, features, count)

    @property
    def size(self) -> int:
        """Rows and columns of W."""
        return self.count if self.points is None else self.points.size

    @property
    def targets(self) -> Floats:
        """What the loss compares with: squared distances, or 1 for each triplet that is to hold."""
        return np.ones(len(self.where)) if self.values is None else self.values

    def take(self, rows: NDArray[Any]) -> MeasuredPoints:
        """Return some of the pairs or triplets, of the same points."""
        values = None if self.values is None else self.values[rows]
        return replace(self, where=self.where[rows], values=values)

    def cost(self, loss: str | Loss, weights: Floats) -> Distances | Triplets:
        """Return the cost of W."""
        loss, table = as_loss(loss, self.values is None), None if self.points is None else self.points.matrix
        size = self.count if table is None else None
        if self.values is None:
            return Triplets(self.where, size, table, weights, loss)
        return Distances(self.where, self.values, size, table, weights, loss)

    def measures(self, Y: Floats) -> Floats:
        """Return the squared distance of each pair, or D_ik − D_ij of each triplet."""
        Z = Y if self.points is None else self.points.times(Y)
        first, *others = (Z[column] for column in self.where.T)
        squares = [np.sum((first - other) ** 2, axis=1) for other in others]
        return np.asarray(squares[0] if len(squares) == 1 else squares[1] - squares[0])

    def centred(self, Y: Floats) -> Floats:
        """Return coordinates of points with their mean at 0; coefficients of features as they are."""
        return Y - Y.mean(axis=0) if self.points is None else Y

    @staticmethod
    def coordinates(X: Any, Y: Floats) -> Floats:
        """Return X Y, for rows of features."""
        features: Features = Features.checked("X", X)
        if features.size != len(Y):
            raise ValueError(f"X has {features.size} features, but points had {len(Y)} of them")
        return features.times(Y)

    @staticmethod
    def numbers(X: Any, count: int) -> NDArray[np.int64]:
        """Return numbers of points, checked."""
        numbers = np.asarray(unmasked("X", X))
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise ValueError(
                f"without features, X must be a vector of numbers of points; got shape {numbers.shape} of "
                f"{numbers.dtype}"
            )
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < count):
            raise ValueError(f"X has numbers beyond those of the {count} points, numbered from 0")
        return numbers.astype(np.int64)


def as_loss(loss: str | Loss, triplets: bool) -> Loss:
    """Return the loss of that name; "auto" is the square of distances, and the logistic loss of triplets."""
    if is_auto(loss):
        loss = "logistic" if triplets else "square"
    return Loss.named(loss) if isinstance(loss, str) else loss
