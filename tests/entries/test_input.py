"""What Completion takes, and what it says to what it does not take."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from rankfold.costs import Completion, Loss

ROWS, COLS, VALUES = np.array([0, 1, 2, 2]), np.array([0, 1, 0, 1]), np.array([1.0, 2.0, 3.0, 4.0])


def put(array, at, value):
    return np.array([value if k == at else x for k, x in enumerate(array)])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"values": put(VALUES, 2, np.nan)}, ValueError, r"values\[2\] is nan.*finite"),
        ({"values": put(VALUES, 1, np.inf)}, ValueError, r"values\[1\] is inf.*finite"),
        ({"rows": put(ROWS, 3, 3)}, ValueError, r"rows\[3\] is 3, out of range: must be from 0 to 2"),
        ({"rows": put(ROWS, 1, -1)}, ValueError, r"rows\[1\] is -1, out of range"),
        ({"cols": put(COLS, 2, 2)}, ValueError, r"cols\[2\] is 2, out of range: must be from 0 to 1"),
        (
            {"cols": put(COLS, 2, 1)},
            ValueError,
            r"\(2, 1\) is given more than once, at positions 2 and 3.*keep",
        ),
        ({"rows": ROWS.astype(float)}, TypeError, "rows must be integers; got float64"),
        ({"rows": ROWS[:3]}, ValueError, "rows has 3, cols has 4, values has 4"),
        ({"rows": ROWS.reshape(2, 2)}, ValueError, r"rows must be one-dimensional; got shape \(2, 2\)"),
        ({"values": VALUES.reshape(2, 2)}, ValueError, "values must be one-dimensional"),
        ({"values": VALUES.astype(complex)}, TypeError, "values must be real numbers; got complex128"),
        ({"values": np.array(list("abcd"))}, TypeError, "values must be real numbers"),
        ({"rows": [], "cols": [], "values": []}, ValueError, "values is empty"),
        ({"shape": (3, 0)}, ValueError, r"shape must be two positive integers.*\(3, 0\)"),
        ({"shape": (3,)}, ValueError, "shape must be two positive integers"),
        ({"shape": (3.5, 2)}, ValueError, "shape must be two positive integers"),
        ({"weights": np.ones(3)}, ValueError, "weights has 3"),
        (
            {"weights": put(VALUES, 1, -2.0)},
            ValueError,
            r"weights\[1\] is -2.0; weights must be zero or more",
        ),
        ({"weights": put(VALUES, 3, np.nan)}, ValueError, r"weights\[3\] is nan"),
        ({"loss": "hinge"}, ValueError, "loss must be one of 'square', 'logistic', 'huber', 'poisson'"),
        ({"loss": "logistic"}, ValueError, r"values\[1\] is 2.0, but the logistic loss wants 0 or 1"),
        ({"loss": "poisson", "values": -VALUES}, ValueError, r"values\[0\] is -1.0.*counts"),
        ({"duplicates": "sum"}, ValueError, "duplicates must be 'error' or 'keep'"),
    ],
)
def test_bad_input_is_named(change, error, message):
    good = {"rows": ROWS, "cols": COLS, "values": VALUES, "shape": (3, 2)}
    with pytest.raises(error, match=message):
        Completion(**{**good, **change})


def test_rows_and_columns_without_entry_are_counted():
    with pytest.warns(UserWarning, match="2 of 4 rows have no observed entry"):
        Completion([0, 1], [0, 1], [1.0, 2.0], (4, 2))
    with pytest.warns(UserWarning, match="1 of 3 columns have no observed entry"):
        Completion([0, 1], [0, 1], [1.0, 2.0], (2, 3))


@pytest.mark.parametrize(
    ("shape1", "shape2"), [((3, 2), (3, 2)), ((3, 2), (2, 1)), ((3,), (2,)), ((3, 0), (2, 0))]
)
def test_factors_that_do_not_fit(shape1, shape2):
    cost = Completion(ROWS, COLS, VALUES, (3, 2))
    with pytest.raises(ValueError, match=r"must have shape .* of a 3x2 matrix; got"):
        cost.evaluate(np.ones(shape1), np.ones(shape2))


@pytest.mark.parametrize("rank", [0, 3, 1.0])
def test_bad_rank(rank):
    with pytest.raises(ValueError, match=r"rank must be an integer from 1 to min\(shape\) = 2"):
        Completion(ROWS, COLS, VALUES, (3, 2)).start(rank)


def test_bad_delta():
    with pytest.raises(ValueError, match="delta must be positive"):
        Loss.huber(0.0)


def test_too_many_terms():
    cost, L, R = Completion(ROWS, COLS, VALUES, (3, 2)), np.ones((3, 1)), np.ones((2, 1))
    with pytest.raises(ValueError, match="one to three terms"):
        cost.polynomial([L] * 4, [R])


def test_complex_factors():
    with pytest.raises(TypeError, match="must be real"):
        Completion(ROWS, COLS, VALUES, (3, 2)).evaluate(np.ones((3, 1), complex), np.ones((2, 1)))


def test_every_source_gives_the_same_cost():
    L, R = np.ones((3, 1)), np.arange(2.0)[:, None]
    dense = np.full((3, 2), np.nan)
    dense[ROWS, COLS] = VALUES
    frame = pd.DataFrame({"value": VALUES, "col": COLS, "row": ROWS})
    unnamed = pd.DataFrame({"user": ROWS, "item": COLS, "stars": VALUES})
    costs = [
        Completion(ROWS, COLS, VALUES, (3, 2)),
        Completion(ROWS.tolist(), COLS.astype(np.uint8), VALUES.astype(int), (3, 2)),
        Completion.from_dense(dense),
        Completion.from_frame(frame),
        Completion.from_frame(unnamed, shape=(3, 2)),
        *(
            Completion.from_sparse(sparse.coo_array((VALUES, (ROWS, COLS))).asformat(f))
            for f in ("coo", "csr", "csc")
        ),
    ]
    assert {cost.value(L, R) for cost in costs} == {costs[0].value(L, R)}
    assert {cost.shape for cost in costs} == {(3, 2)}


def test_stored_zeros_are_observations():
    cost = Completion.from_sparse(sparse.csr_array(([0.0, 2.0], ([0, 1], [0, 1])), shape=(2, 2)))
    assert cost.observed.size == 2


def test_other_sources_name_what_they_want():
    with pytest.raises(ValueError, match="array must be two-dimensional"):
        Completion.from_dense([1.0, 2.0])
    with pytest.raises(ValueError, match="frame must have columns row, col and value"):
        Completion.from_frame(pd.DataFrame({"row": [0], "col": [0]}))
    with pytest.raises(ValueError, match="empty"):
        Completion.from_frame(pd.DataFrame({"row": [], "col": [], "value": []}))
    with pytest.raises(ValueError, match="empty"):
        Completion.from_dense([[np.nan]])


@pytest.mark.parametrize("block", [1, 3, 4, 100])
@pytest.mark.parametrize("weights", [None, np.array([1.0, 0.5, 2.0, 3.0])])
def test_the_value_at_zero_is_a_mean_in_blocks_of_any_size(block, weights, monkeypatch):
    monkeypatch.setattr("rankfold.entries.values.BLOCK", block)
    cost = Completion(ROWS, COLS, VALUES, (3, 2), weights)
    assert cost.value_at_zero == pytest.approx(np.mean(VALUES**2 * (1 if weights is None else weights)))
    counts = Completion(ROWS, COLS, VALUES, (3, 2), weights, "poisson")
    assert counts.value_at_zero == pytest.approx(counts.value(np.zeros((3, 1)), np.zeros((2, 1))))


def test_scaling_weights_scales_the_cost():
    L, R = np.ones((3, 1)), np.ones((2, 1))
    plain = Completion(ROWS, COLS, VALUES, (3, 2))
    twice = Completion(ROWS, COLS, VALUES, (3, 2), weights=[2, 2, 2, 2])
    assert twice.value(L, R) == pytest.approx(2 * plain.value(L, R), rel=1e-15)
    assert twice.value_at_zero == pytest.approx(2 * plain.value_at_zero, rel=1e-15)
