"""What a fit learns of features, and what becomes of new lines that have some, written out."""

from types import SimpleNamespace

import numpy as np
import pytest

from rankfold.costs.offsets import Offsets
from rankfold.data.labels import LabelIndex
from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.completion.bayes.beliefs import Prior, triangle
from rankfold.estimators.completion.bayes.posterior import Posterior
from rankfold.estimators.completion.folding import Lines
from rankfold.estimators.completion.penalised import Fitted
from rankfold.estimators.completion.side.expecting import Expecting, Ridges
from rankfold.estimators.completion.side.featured import Featured
from rankfold.estimators.completion.side.given import GivenSide
from rankfold.estimators.completion.side.learnt import (
    LearntFeatures,
    fitted_coefficients,
    learnt,
    lines_of,
)
from rankfold.estimators.completion.side.tables import Encoding
from rankfold.estimators.completion.side.traits import Traits

ROWS, COLS, RANK = 5, 4, 2
COUNTS = np.array([3.0, 1.0, 2.0, 0.0, 4.0]), np.array([2.0, 5.0, 0.0, 1.0])


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def side(width, lines, seed):
    """Features of lines, as they were given: their traits are they themselves."""
    traits = Traits(Encoding(None, None, width), np.zeros(width), np.eye(width))
    return GivenSide(traits, numbers(lines, width, seed=seed), None)


def a_fit(coefficients=(None, None)):
    factors = numbers(ROWS, RANK, seed=1), numbers(COLS, RANK, seed=2)
    offsets = Offsets(0.5, numbers(ROWS, seed=3), numbers(COLS, seed=4))
    return Fitted(factors, offsets, None, None, coefficients)


def lines(fit, k, bias):
    return np.column_stack([fit.factors[k], fit.offsets[1 + k]]) if bias else fit.factors[k]


@pytest.mark.parametrize("bias", [True, False])
def test_what_is_learnt_of_features_is_what_they_make_one_expect(bias):
    given, d = (side(3, ROWS, 5), side(1, COLS, 6)), RANK + bias
    A = numbers(4, d, seed=7), numbers(2, d, seed=8)
    fit = a_fit(A)
    found, offsets = learnt(given, tuple(each.Z for each in given), (None, None), fit, COUNTS, bias)
    for k in (0, 1):
        expected = A[k][0] + given[k].Z @ A[k][1:]
        np.testing.assert_allclose(found[k].expected, expected)
        assert found[k].coefficients is A[k]
        assert found[k].traits is given[k].traits
        off = COUNTS[k] @ (lines(fit, k, bias) - expected) / COUNTS[k].sum()
        np.testing.assert_allclose(found[k].unseen, off)
    assert offsets == Offsets(*fit.offsets)


@pytest.mark.parametrize("bias", [True, False])
def test_features_of_no_use_make_one_expect_nothing(bias):
    given, fit = (None, side(3, COLS, 6)), a_fit()
    found, offsets = learnt(given, (None, given[1].Z), (None, None), fit, COUNTS, bias)
    assert found[0] is None
    assert [part.shape for part in found[1][1:]] == [(4, RANK + bias), (COLS, RANK + bias), (RANK + bias,)]
    assert not any(part.any() for part in found[1][1:])
    assert offsets == Offsets(*fit.offsets)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("k", [0, 1])
def test_of_implicit_features_a_line_never_seen_is_as_on_an_average_over_entries(bias, k):
    size, d = (ROWS, COLS)[k], RANK + bias
    implicit, A = [None, None], [None, None]
    implicit[k], A[k] = side(2, size, 5), numbers(3, d, seed=7)
    fit = a_fit(tuple(A))
    found, offsets = learnt((None, None), (None, None), tuple(implicit), fit, COUNTS, bias)
    by = COUNTS[k] @ fit.offsets[1 + k] / COUNTS[k].sum() if bias else 0.0
    lower = np.append(np.zeros(RANK), by)[:d]
    assert found[1 - k] is None
    np.testing.assert_allclose(found[k].expected, A[k][0] + implicit[k].Z @ A[k][1:] - lower)
    np.testing.assert_allclose(found[k].coefficients, A[k] - np.vstack([lower, np.zeros((2, d))]))
    assert offsets.mean == pytest.approx(0.5 + by)
    np.testing.assert_allclose(offsets[1 + k], fit.offsets[1 + k] - by)
    np.testing.assert_array_equal(offsets[2 - k], fit.offsets[2 - k])
    own = side(4, size, 9)
    given = (own, None) if k == 0 else (None, own)
    named, _ = learnt(given, (None, None), tuple(implicit), fit, COUNTS, bias)
    assert named[k].traits is own.traits
    np.testing.assert_array_equal(named[k].expected, found[k].expected)
    np.testing.assert_array_equal(
        named[k].coefficients, np.vstack([found[k].coefficients[:1], np.zeros((4, d))])
    )


@pytest.mark.parametrize("bias", [True, False])
def test_coefficients_of_a_fit_by_sweeps_are_the_best_for_its_lines(bias):
    fit = a_fit()
    both = (
        Expecting(numbers(ROWS, 2, seed=5), COUNTS[0], Ridges(0.5, 0.2)),
        Expecting(numbers(COLS, 1, seed=6), COUNTS[1], Ridges(0.3, 0.1)),
    )
    for rows, cols in ((both[0], None), (None, both[1]), both):
        joint = SimpleNamespace(expecting=(rows, cols), bias=bias)
        found = fitted_coefficients(joint, fit.factors, fit.offsets)
        for k, each in enumerate((rows, cols)):
            if each is None:
                assert found[k] is None
            else:
                np.testing.assert_array_equal(found[k], each.coefficients(lines(fit, k, bias), bias))


def a_posterior():
    priors = [Prior(np.zeros(3), np.zeros(3), scale * (np.eye(3) + 0.1)) for scale in (1.0, 2.0)]
    return Posterior(np.zeros((ROWS, 6)), np.zeros((COLS, 6)), tuple(priors), 0.3, 2, None)


@pytest.mark.parametrize("axis", list(Axis))
def test_lines_without_entries_are_as_sure_as_the_prior(axis):
    expected, sure = numbers(4, 3), a_posterior()
    found = lines_of(expected, 2, sure, axis)
    np.testing.assert_array_equal(found.factors, expected[:, :2])
    np.testing.assert_array_equal(found.offsets, expected[:, 2])
    np.testing.assert_array_equal(
        found.covariances, np.tile(triangle(axis.of(sure.priors).covariance), (4, 1))
    )
    plain = lines_of(expected, 3, None, axis)
    np.testing.assert_array_equal(plain.offsets, np.zeros(4))
    np.testing.assert_array_equal(plain.factors, expected)
    assert plain.covariances is None


def mine(size, width=2, d=3):
    """Features of lines with labels 10, 20, ... of which one thing is expected, or none."""
    traits = Traits(Encoding(None, None, width), np.zeros(width), np.eye(width))
    A = numbers(1 + width, d, seed=11)
    return LearntFeatures(traits, A, numbers(size, d, seed=12), numbers(d, seed=13))


class Model(SimpleNamespace):
    """What the methods of `Featured` look at."""

    _add, _take_new, _new_lines_with = Featured._add, Featured._take_new, Featured._new_lines_with

    def _index(self, axis):
        labels = axis.of((self.row_labels_, self.col_labels_))
        return LabelIndex(len(labels), labels, axis.value)

    def _append(self, *given):
        self.appended.append(given)

    def _replace(self, *given):
        self.replaced.append(given)

    def _lines(self, axis):
        n = (ROWS, COLS)[axis is Axis.COLUMN]
        return Lines(np.zeros(n), np.zeros((n, RANK)), None)

    def _solved(self, *given, **options):
        return given, options


def a_model(**changes):
    return Model(
        **{
            "row_labels_": 10 * np.arange(ROWS), "col_labels_": 10 * np.arange(COLS), "rank_": RANK,
            "features_": (mine(ROWS), mine(COLS)), "posterior_": None, "counts_": COUNTS,
            "appended": [], "replaced": [],
        } | changes
    )  # fmt: skip


@pytest.mark.parametrize("axis", list(Axis))
def test_new_lines_are_what_is_expected_of_them(axis):
    model, expected = a_model(), numbers(4, 3, seed=14)
    before = axis.of(model.features_)
    model._add(axis, np.array([70, 0, 60, 10]), expected)  # of which two are known
    ((to, labels, size, rows),) = model.appended
    assert (to, size) == (axis, len(before.expected) + 2)
    np.testing.assert_array_equal(labels[-2:], [60, 70])
    np.testing.assert_allclose(rows, expected[[2, 0]] + before.unseen)
    found = axis.of(model.features_)
    np.testing.assert_array_equal(found.expected, np.vstack([before.expected, expected[[2, 0]]]))
    assert axis.other.of(model.features_).expected.shape == (COLS if axis is Axis.ROW else ROWS, 3)


def test_nothing_is_added_where_all_is_known_or_nothing_is():
    model = a_model()
    model._add(Axis.ROW, np.array([0, 20]), numbers(2, 3))
    model.features_ = None, model.features_[1]
    model._add(Axis.ROW, np.array([90]), numbers(1, 3))
    assert not model.appended


@pytest.mark.parametrize("k", [0, 1])
def test_features_given_to_a_model_add_the_lines_that_they_are_of(k):
    model, Z = a_model(), numbers(2, 2, seed=15)
    given = [None, None]
    given[k] = np.array([90, 80]), Z
    expected = model.features_[k].of(Z)
    model._take_new(*given)
    ((axis, labels, _, rows),) = model.appended
    assert axis is list(Axis)[k]
    np.testing.assert_array_equal(labels[-2:], [80, 90])
    np.testing.assert_allclose(rows, expected[::-1] + model.features_[k].unseen)


def test_lines_without_entries_become_what_their_features_say():
    model = a_model()
    before = model.features_
    rows, cols = (each._replace(labels=None) for each in (side(2, ROWS, 5), side(2, COLS, 6)))
    Featured._take_in(model, (rows, cols))
    for k, (axis, blank) in enumerate(zip(Axis, (3, 2), strict=True)):
        to, labels, found = model.replaced[k]
        due = before[k].expected[blank] + before[k].unseen
        assert to is axis
        assert labels is axis.of((model.row_labels_, model.col_labels_))
        np.testing.assert_allclose(found.factors[blank], due[:RANK])
        assert found.offsets[blank] == pytest.approx(due[RANK])
        assert np.count_nonzero(found.offsets) == 1
    assert not model.appended


@pytest.mark.parametrize(
    "changes",
    [
        {"features_": (None, None)},
        {"counts_": (COUNTS[0] + 1, COUNTS[1])},
        {"features_": (mine(ROWS)._replace(coefficients=np.zeros((3, 3))), None)},
    ],
)
def test_lines_stay_where_features_say_nothing_of_them(changes):
    model = a_model(**changes)
    Featured._take_in(model, (side(2, ROWS, 5), None))
    assert not model.replaced
    some = a_model(features_=(mine(ROWS)._replace(coefficients=np.eye(3)), None))
    Featured._take_in(some, (side(2, ROWS, 5), None))
    assert len(some.replaced) == 1


def test_features_with_labels_bring_lines_that_have_no_entries():
    model, own = a_model(), side(2, 3, 5)._replace(labels=np.array([10, 99, 20]))
    Featured._take_in(model, (None, own))
    ((axis, _, size, rows),) = model.appended
    assert (axis, size) == (Axis.COLUMN, COLS + 1)
    np.testing.assert_allclose(rows[0], model.features_[1].of(own.Z)[1] + model.features_[1].unseen)


@pytest.mark.parametrize("axis", list(Axis))
def test_folded_lines_are_solved_beside_what_their_features_say(axis):
    model, learnt = a_model(), []
    labels, own = np.array([5, 3, 9]), axis.of(model.features_)
    features = np.array([9, 4, 3, 11]), numbers(4, 2, seed=16)
    given, options = model._new_lines_with(axis, "w", features, learnt, labels, "n", "p", "v")
    assert given == (axis, "n", "p", "v", "w")
    due = np.vstack([own.coefficients[0], own.of(features[1])[2], own.of(features[1])[0]])
    np.testing.assert_allclose(options["expected"], due)
    assert learnt[0].expected is options["expected"]
    _, options = model._new_lines_with(axis, None, None, learnt, labels, "n", "p", "v")
    np.testing.assert_array_equal(options["expected"], np.tile(own.coefficients[:1], (3, 1)))
    model.features_ = None, None
    _, options = model._new_lines_with(axis, None, None, learnt, labels, "n", "p", "v")
    assert options == {"expected": None}
    assert learnt[2] is None
