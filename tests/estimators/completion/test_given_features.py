"""Features given to a fit: of which lines they are, and for whom."""

from types import SimpleNamespace

import numpy as np
import pytest

from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.completion.side.given import GivenSide, given_sides, traits_of, wished
from rankfold.estimators.completion.side.tables import Encoding
from rankfold.estimators.completion.side.traits import Traits

ROWS, COLS = 5, 4


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def side(width, lines, seed):
    """Features of lines, as they were given: their traits are they themselves."""
    traits = Traits(Encoding(None, None, width), np.zeros(width), np.eye(width))
    return GivenSide(traits, numbers(lines, width, seed=seed), None)


def data(labels=None):
    return SimpleNamespace(row_labels=labels, col_labels=labels, shape=(ROWS, COLS))


@pytest.mark.parametrize("axis", list(Axis))
def test_features_are_put_where_their_lines_are(axis):
    size, Z = axis.of((ROWS, COLS)), numbers(4, 2, seed=5)
    names = np.array(["a", "b", "c", "d", "e"])[:size]
    traits = side(2, 1, 0).traits
    found = GivenSide(traits, Z, np.array(["c", "zoe", "a", "b"])).of_lines(axis, data(names))
    due = np.zeros((size, 2))
    due[[2, 0, 1]] = Z[[0, 2, 3]]
    np.testing.assert_array_equal(found, due)
    found = GivenSide(traits, Z, np.array([3, 1, 2, 0])).of_lines(axis, data())
    np.testing.assert_array_equal(found[[3, 1, 2, 0]], Z)
    assert GivenSide(traits, Z, None).of_lines(axis, data()) is Z
    own = side(3, size, 7)
    rows, cols = traits_of(axis.pair(own, None), data())
    assert axis.of((rows, cols)) is own.Z
    assert axis.other.of((rows, cols)) is None


@pytest.mark.parametrize("axis", list(Axis))
def test_features_without_labels_are_of_all_lines(axis):
    size = axis.of((ROWS, COLS))
    found = GivenSide.of(np.arange(2.0 * size).reshape(size, 2), axis, None, data())
    assert (found.Z.shape, found.labels) == ((size, 2), None)
    for wrong in (size - 1, size + 1):
        with pytest.raises(ValueError, match=f"{wrong} lines, and the matrix has {size} {axis.value}s"):
            GivenSide.of(np.ones((wrong, 2)), axis, None, data())
        some = GivenSide.of((np.arange(wrong), np.ones((wrong, 2))), axis, None, data())
        assert some.labels.tolist() == list(range(wrong))


def test_wishes_of_a_fit_come_before_those_of_the_settings():
    model = SimpleNamespace(row_features="r", col_features="c")
    assert wished(model, (None, None)) == ("r", "c")
    assert wished(model, ("R", False)) == ("R", False)


@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize(
    ("geometry", "solver", "due"),
    [("auto", "auto", True), ("polar", "auto", False), ("auto", "cg", False), ("polar", "cg", False)],
)
def test_features_of_either_side_are_for_what_is_solved_in_turn(k, geometry, solver, due):
    model = SimpleNamespace(geometry=geometry, solver=solver)
    for none in (None, False):
        wishes, sizes = [none, none], (ROWS, COLS)
        assert given_sides(model, tuple(wishes), None, data()) == (None, None)
        wishes[k] = np.arange(float(sizes[k]))
        if due:
            found = given_sides(model, tuple(wishes), None, data())
            assert found[k].Z.shape == (sizes[k], 1)
            assert found[1 - k] is None
        else:
            with pytest.raises(ValueError, match="features are for geometry='auto' and solver='auto'"):
                given_sides(model, tuple(wishes), None, data())
