"""Implicit features that nobody asked for: where entries are, as side information, where that helps."""

from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import rankfold as rf
from estimators.completion.rating_data import rmse
from rankfold.estimators.completion import fit_steps
from rankfold.estimators.completion.choosing import Choice
from rankfold.estimators.completion.entries import completion_of, training_triples
from rankfold.estimators.completion.side import implicit, unasked

SHAPE = (40, 600)


def _chosen(seed, choosy=True):
    """Good, fair and bad films, and three kinds of people, who see films of one kind, or all of them alike.

    Returns places and values, with noise, of what they said, and the truth.
    """
    rng = np.random.default_rng(seed)
    people, films = (np.arange(size) % 3 for size in SHAPE)
    W = np.array([2.0, 0.0, -2.0])[films] + np.outer(*(rng.standard_normal(size) for size in SHAPE))
    same = people[:, None] == films
    seen = rng.random(SHAPE) < (np.where(same, 0.2, 0.02) if choosy else 0.08)
    return np.argwhere(seen), W[seen] + rng.standard_normal(seen.sum()), W


def model(**options):
    return rf.MatrixCompletion(2, shape=SHAPE, random_state=0, **options)


@pytest.fixture(scope="module")
def liked():
    return _chosen(0)


@pytest.fixture(scope="module")
def fitted(liked):
    return model().fit(*liked[:2])


def test_who_rated_what_is_used_where_it_helps(liked, fitted, tmp_path):
    X, y, W = liked
    plain = model(row_features=False, col_features=False).fit(X, y)
    assert plain.features_ == (None, None)
    rf.save(plain, tmp_path / "plain")
    assert rf.load(tmp_path / "plain").col_features is False
    assert fitted.features_[0] is None
    assert fitted.features_[1].implicit
    assert fitted.features_[1].coefficients.any()
    places = np.argwhere(np.ones(SHAPE))
    assert rmse(fitted.predict(places), W.ravel()) < 0.8 * rmse(plain.predict(places), W.ravel())


def test_entries_at_random_places_leave_the_model_as_it_was():
    X, y, _ = _chosen(1, choosy=False)
    found, off = model().fit(X, y), model(row_features=False, col_features=False).fit(X, y)
    assert found.features_ == (None, None)
    np.testing.assert_array_equal(found.predict(X, return_std=True), off.predict(X, return_std=True))


def test_what_is_not_certain_is_left_out(liked, monkeypatch):
    monkeypatch.setattr(unasked, "_CERTAIN", np.inf)
    assert model().fit(*liked[:2]).features_ == (None, None)


def test_ctrl_c_while_they_are_tried_ends_the_choice(liked, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(unasked, "tried_out", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted while rank and regularization were chosen"):
        found = model().fit(*liked[:2])
    assert found.features_ == (None, None)
    assert found.stop_kind_ == "interrupted"


@pytest.mark.parametrize(
    ("options", "loss", "many", "due"),
    [
        ({}, "square", 10**6, True),
        ({"regularization": 1.0}, "square", 10**6, False),
        ({"solver": "cg"}, "square", 10**6, False),
        ({"geometry": "polar"}, "square", 10**6, False),
        ({}, "huber", 10**6, False),
        ({}, "square", 1923, False),
    ],
)
def test_they_are_tried_on_few_entries_with_a_penalty_that_is_chosen(
    liked, options, loss, many, due, monkeypatch
):
    monkeypatch.setattr(unasked, "MANY", many)
    X, y, _ = liked
    assert len(y) == 1923
    cost = completion_of(training_triples(X, y, SHAPE), None, loss, "float64")
    assert unasked.may_have(model(**options), cost) is due


def test_a_side_with_features_keeps_those(liked):
    X, y, W = liked
    genres = W.mean(axis=0)[:, None]
    found = model(col_features=genres, bayesian=False).fit(X, y)
    assert not found.features_[1].implicit
    assert found.features_[1].coefficients.shape[0] == 2


def test_features_that_say_nothing_do_not_stand_in_the_way(fitted, liked):
    X, y, _ = liked
    noise = np.random.default_rng(4).standard_normal((SHAPE[1], 3))
    found = model().fit(X, y, col_features=noise)
    mine = found.features_[1]
    assert not mine.implicit
    assert (mine.coefficients.shape, mine.coefficients[1:].any()) == ((4, 3), False)
    np.testing.assert_array_equal(mine.unknown, found.counts_[1] == 0)
    np.testing.assert_array_equal(found.predict(X, return_std=True), fitted.predict(X, return_std=True))
    more = [each.partial_fit(X[:5], y[:5]).predict(X[:5]) for each in (found, deepcopy(fitted))]
    np.testing.assert_allclose(*more, rtol=1e-12)


def test_a_fold_does_not_know_where_its_entries_are(liked, monkeypatch):
    X, y, _ = liked
    sizes = []

    def spied(seen, **options):
        sizes.append(int(seen.nnz))
        return implicit.where_entries_are(seen, **options)

    monkeypatch.setattr(unasked, "where_entries_are", spied)
    model(bayesian=False).fit(X, y)
    assert sizes[-1] == len(y)
    assert set(sizes[:-1]) == {len(y) - round(0.1 * len(y))}


def test_traits_are_standardised_over_lines_with_entries():
    X = np.array([[3.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    side = unasked._standardised(X)
    np.testing.assert_allclose(side.Z, [[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]])
    np.testing.assert_allclose((X[[0, 2]] - side.traits.centre) @ side.traits.basis, side.Z[[0, 2]])
    assert side.traits.encoding.names == ("implicit 0", "implicit 1")


def test_they_are_saved_and_go_on_with_a_stream(fitted, liked, tmp_path):
    X, y, _ = liked
    rf.save(fitted, tmp_path / "model")
    again = rf.load(tmp_path / "model")
    np.testing.assert_array_equal(fitted.predict(X), again.predict(X))
    assert [side is None or side.implicit for side in again.features_] == [True, True]
    for each in (fitted, again):  # the same entries say the same of the same expectations
        np.testing.assert_array_equal(
            each.fold_in(X[:9], y[:9]).predict(X[:9]), fitted.fold_in(X[:9], y[:9]).predict(X[:9])
        )
    before = again.predict([(0, 0)])
    assert again.partial_fit([(0, 0)], [float(before[0]) + 3.0]).predict([(0, 0)]) > before
    with pytest.raises(ValueError, match="fitted without col_features"):
        fitted.fold_in(X[:9], y[:9], side="column", features=np.ones((9, 20)))


def test_a_warm_start_uses_them_again(fitted, liked):
    X, y, _ = liked
    warm = model(warm_start=True).fit(X, y)
    used = [side is not None for side in warm.features_]
    warm.fit(X, y + 0.01)
    assert [side is not None for side in warm.features_] == used
    assert rmse(warm.predict(X), fitted.predict(X)) < 0.3


def test_a_line_without_entries_is_none_that_features_say_something_of(fitted):
    mine, seen = fitted.features_[1], fitted.counts_[1] > 0
    assert not seen.all()
    np.testing.assert_array_equal(mine.unknown, ~seen)


def test_a_line_never_seen_is_as_lines_are_on_an_average_over_entries(fitted, liked):
    X, y, _ = liked
    assert np.average(fitted.biases_.cols, weights=fitted.counts_[1]) == pytest.approx(0.0, abs=1e-9)
    labelled = rf.MatrixCompletion(2, random_state=0).fit(X, y)
    assert labelled.features_[1].implicit
    mean, b, _ = labelled.biases_
    assert labelled.predict([(3, 10**6)]) == pytest.approx(mean + b[3])
    new = labelled.fold_in([(int(i), 10**6) for i in range(30)], np.full(30, 4.0), side="column")
    assert new.predict([(3, 10**6)]) > mean + b[3] + 1.0


@pytest.mark.parametrize(
    ("change", "free", "expecting", "due"),
    [
        ({}, (True, True), (None, None), (True, True)),
        ({}, (True, False), (None, None), (True, False)),
        ({}, (True, True), ("something", None), (False, True)),
        ({}, (False, True), (None, "something"), None),
        ({}, (False, False), (None, None), None),
        ({"interrupted": True}, (True, True), (None, None), None),
        ({"weight": 0.0}, (True, True), (None, None), None),
        ({"may": False}, (True, True), (None, None), None),
    ],
)
def test_they_are_tried_for_sides_of_which_nothing_is_expected(monkeypatch, change, free, expecting, due):
    asked, told = [], {"may": True} | change
    may = told.pop("may")
    monkeypatch.setattr(fit_steps, "may_have", lambda model, cost: may)
    monkeypatch.setattr(
        fit_steps,
        "implicit_where_they_help",
        lambda choice, cost, free, expecting: asked.append(free) or "found",
    )
    choice = Choice(2, 1.0, None, folds=("a fold",))._replace(**told)
    found = fit_steps.unasked(None, None, choice, free, expecting, 0)
    assert asked == ([] if due is None else [due])
    assert found == ((choice, expecting, (None, None)) if due is None else "found")


@pytest.mark.parametrize("warm", [True, False])
def test_where_nothing_is_held_out_the_sides_of_the_last_fit_are_used(monkeypatch, warm):
    monkeypatch.setattr(fit_steps, "may_have", lambda model, cost: True)
    asked = []

    def again(choice, cost, used, expecting, seed):
        asked.append((used, seed))
        return "expected", "given"

    monkeypatch.setattr(fit_steps, "implicit_again", again)
    last = SimpleNamespace(features_=(SimpleNamespace(implicit=True), SimpleNamespace(implicit=False)))
    choice = Choice(2, 1.0, None, point="a point" if warm else None)
    assert fit_steps.unasked(last, None, choice, (True, True), (None, None), 7) == (
        choice,
        "expected",
        "given",
    )
    assert asked == [((warm, False), 7)]
    fit_steps.unasked(SimpleNamespace(), None, choice, (True, True), (None, None), 7)
    fit_steps.unasked(last, None, choice, (False, True), (None, None), 7)
    assert [used for used, _ in asked[1:]] == [(False, False)] * 2
