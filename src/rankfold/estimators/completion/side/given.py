"""Features given to a fit: their traits, and which lines of the data they belong to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.data.labels import LabelIndex
from rankfold.data.spill.folder import SortedFolder
from rankfold.data.triples import Triples
from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.completion.side.tables import given_table
from rankfold.estimators.completion.side.traits import Traits
from rankfold.estimators.inputs import is_auto

Floats = NDArray[Any]


class GivenSide(NamedTuple):
    """The features of an axis: how traits are made of them, those of all lines given, and their labels."""

    traits: Traits
    Z: Floats
    labels: NDArray[Any] | None

    @classmethod
    def of(cls, features: Any, axis: Axis, X: Any, data: Triples | SortedFolder) -> GivenSide:
        """Look at what a user gave for an axis of the data, made of X."""
        labels, size = axis.of((data.row_labels, data.col_labels)), axis.of(data.shape)
        table, what = given_table(features, axis, X, labels), named(axis)
        if table.labels is None and table.length != size:
            raise ValueError(f"{what} has {table.length} lines, and the matrix has {size} {axis.value}s")
        traits, Z = Traits.of(table, what)
        return cls(traits, Z, table.labels)

    def of_lines(self, axis: Axis, data: Triples | SortedFolder) -> Floats:
        """Return the traits of the lines of the data; 0, as on average, for one without features."""
        if self.labels is None:
            return self.Z
        labels, size = axis.of((data.row_labels, data.col_labels)), axis.of(data.shape)
        places = LabelIndex(size, labels, axis.value).find(self.labels, f"the labels of {named(axis)}[{{}}]")
        found = np.zeros((size, self.Z.shape[1]))
        found[places[places >= 0]] = self.Z[places >= 0]
        return found


Given = tuple[GivenSide | None, GivenSide | None]


def wished(model: Any, features: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the features of both axes, given to `fit` or as settings: None for no wish, False for none."""
    settings = model.row_features, model.col_features
    rows, cols = (setting if mine is None else mine for mine, setting in zip(features, settings, strict=True))
    return rows, cols


def given_sides(model: Any, wishes: tuple[Any, Any], X: Any, data: Triples | SortedFolder) -> Given:
    """Look at the features of both axes, as `wished`."""
    rows, cols = (
        None if each is None or each is False else GivenSide.of(each, axis, X, data)
        for axis, each in zip(Axis, wishes, strict=True)
    )
    if (rows or cols) and not (is_auto(model.geometry) and is_auto(model.solver)):
        raise ValueError(
            "features are for geometry='auto' and solver='auto', where rows and columns are solved for in "
            "turn: leave geometry and solver out"
        )
    return rows, cols


def traits_of(given: Given, data: Triples | SortedFolder) -> tuple[Floats | None, Floats | None]:
    """Return the traits of the lines of the data, None where no features are given."""
    rows, cols = (
        None if side is None else side.of_lines(axis, data) for axis, side in zip(Axis, given, strict=True)
    )
    return rows, cols


def named(axis: Axis) -> str:
    """Return what the features of an axis are called where they are given."""
    return "row_features" if axis is Axis.ROW else "col_features"
