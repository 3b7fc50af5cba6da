"""Known entries of tables of categories, and the probabilities of their cells, entry by entry."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from rankfold.estimators.categories.table import Cells, KnownEntries, probabilities

COLS, CODES = np.array([0, 2, 0, 2, 1, 2]), np.array([4, 1, 2, 0, 3, 1])


def test_cells_are_the_classes_of_each_column_in_order():
    cells = Cells.of(COLS, CODES, 4, 5, shared=False)
    assert cells.starts.tolist() == [0, 2, 3, 5, 5]  # nothing is known of the last one
    assert cells.classes.tolist() == [2, 4, 3, 0, 1]
    assert cells.counts.tolist() == [2, 1, 2, 0]
    assert cells.places(COLS, CODES, 5).tolist() == [1, 1, 0, 0, 0, 1]
    shared = Cells.of(COLS, CODES, 4, 5, shared=True)
    assert shared.starts.tolist() == [0, 5, 10, 15, 20]
    assert shared.classes.tolist() == [*range(5)] * 4
    assert shared.places(COLS, CODES, 5).tolist() == CODES.tolist()


def entries(count=7, seed=0):
    rng = np.random.default_rng(seed)
    cells = Cells.of(COLS, CODES, 3, 5, shared=False)
    rows, weights = rng.integers(0, 4, 6), rng.uniform(0.5, 2, 6)
    known = KnownEntries(rows, COLS, cells.places(COLS, CODES, 5), weights, (4, 3), cells)
    return known, rng.standard_normal((5, 2)), rng.standard_normal((5, 2))


def plain(row, col, cells, L, R):
    of_row = (L[row] if row >= 0 else 0) + L[-1]
    logits = np.exp([of_row @ R[k] for k in range(cells.starts[col], cells.starts[col + 1])])
    return logits / logits.sum()


@pytest.mark.parametrize("block", [1, 4, 6, 1 << 14])
def test_chances_are_the_softmax_of_the_cells_of_a_column(monkeypatch, block):
    monkeypatch.setattr("rankfold.estimators.categories.table._BLOCK", block)
    known, L, R = entries()
    rows = np.where(np.arange(6) == 2, -1, known.rows)
    found = probabilities(rows, COLS, known.cells, L, R)
    assert found.shape == (6, 2)
    for row, col, chances in zip(rows, COLS, found, strict=True):
        due = plain(row, col, known.cells, L, R)
        assert_allclose(chances[: due.size], due)
        assert not chances[due.size :].any()


def test_losses_are_by_weight_and_infinite_where_a_chance_is_0():
    known, L, R = entries()
    due = [
        -w * np.log(plain(i, j, known.cells, L, R)[p])
        for w, i, j, p in zip(known.weights, known.rows, known.cols, known.places, strict=True)
    ]
    assert_allclose(known.losses(L, R), due)
    assert_allclose(known.cost().value(L, R), np.mean(due))
    some = np.array([3, 1])
    assert_allclose(known.take(some).losses(L, R), np.array(due)[some])
    with np.errstate(divide="raise"):
        sure = known.losses(1e3 * np.abs(L), np.sign(R) * 1e3 * np.arange(5)[:, None])
    assert np.isinf(sure).any()
    assert (sure >= 0).all()


@pytest.mark.parametrize("weight", [0.3, 3.0])
def test_the_penalty_is_the_sum_of_all_squares_beside_the_losses(weight):
    known, _, _ = entries()
    model = rf.CategoricalCompletion(2, regularization=weight)
    cost = known.cost()
    problem = model._problem(cost, known.size, 2)
    x = problem.geometry.random_point(0)
    L, R = problem.geometry.factors(x)
    due = cost.value(L, R) * 6 + weight * (np.sum(L**2) + np.sum(R**2))
    assert_allclose(problem.at(x).value * 6, due)


def test_entries_without_weight_are_as_if_they_were_not_there_but_for_their_classes():
    X, y = [("a", "x"), ("b", "x"), ("b", "y"), ("c", "z")], ["p", "q", "p", "r"]
    model = rf.CategoricalCompletion(1, tol=1e-3).fit(X, y, sample_weight=[1.0, 2.0, 1.0, 0.0])
    assert model.row_labels_.tolist() == ["a", "b"]
    assert model.col_labels_.tolist() == ["x", "y"]
    assert model.classes_.tolist() == ["p", "q", "r"]
    assert_array_equal(model.class_prior_, [0.5, 0.5, 0.0])
    assert_array_equal(model.predict_proba([("a", "z"), ("c", "y")]), [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])


def test_digests_know_labels_names_and_weights():
    X, y = [("a", "x"), ("b", "x"), ("b", "y")], ["p", "q", "p"]

    def digest(X=X, y=y, weights=None):
        return rf.CategoricalCompletion(1, tol=1.0).fit(X, y, weights).data_fingerprint_

    others = [
        digest(y=["q", "p", "p"]),
        digest([("a", "x"), ("b", "x"), ("a", "y")]),
        digest(weights=[1, 2, 1]),
    ]
    assert len({digest(), *others}) == 4
    assert digest() == digest(weights=[1, 1, 1])


def test_without_a_warm_start_a_second_fit_is_the_first():
    rng = np.random.default_rng(0)
    pairs = np.argwhere(np.ones((6, 4)))
    y = rng.integers(0, 3, 24)
    model = rf.CategoricalCompletion(1).fit(pairs, y)
    values = model.trace_["value"]
    assert_array_equal(model.fit(pairs, y).trace_["value"], values)
