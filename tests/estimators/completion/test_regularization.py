"""The choice of the regularisation: what it looks at, and what it keeps of the problem."""

import numpy as np
import pytest
from rating_data import everywhere, model, ratings, rmse

import rankfold as rf
from rankfold.estimators.completion.alternating import Alternating
from rankfold.selection.sampling import sample_lines


@pytest.mark.parametrize(("weighted", "turned"), [(False, False), (True, True)])
def test_a_large_problem_chooses_its_regularisation_from_a_sample(monkeypatch, turned, weighted):
    X, y, truth = ratings(entries=1600)
    X, truth = (X[:, ::-1], truth.T) if turned else (X, truth)
    weights = None
    if weighted:  # a third of the values is wrong, and counts next to nothing
        wrong = np.arange(len(y)) % 3 == 0
        y, weights = np.where(wrong, -20.0, y), np.where(wrong, 1e-6, 1.0)
    options = {"sample_weight": weights}
    whole = model().fit(X, y, **options)
    monkeypatch.setattr("rankfold.estimators.completion.fit_steps.MAX_ENTRIES", 1000)
    monkeypatch.setattr("rankfold.selection.sampling.MIN_LINES", 3)
    fitted = model().fit(X, y, **options)
    assert rmse(everywhere(fitted, truth.shape), truth) < 0.5
    assert fitted.regularization_ != whole.regularization_
    path = fitted.regularization_path_  # of noise so small beside the truth, the best are all near 0
    assert path.regularizations[0] == pytest.approx(whole.regularization_path_.regularizations[0], rel=0.7)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_a_sample_is_whole_lines_of_the_longer_side_with_weights_and_loss(monkeypatch, turned, weighted):
    X, y, _ = ratings()
    pairs = X[:, ::-1] if turned else X
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(y)) if weighted else None
    whole = rf.Completion(*pairs.T, y, pairs.max(axis=0) + 1, weights, rf.Loss.huber(0.7))
    assert sample_lines(whole, len(y), seed=0) is whole
    assert sample_lines(whole, 700, seed=0).shape == whole.shape  # few lines: all
    monkeypatch.setattr("rankfold.selection.sampling.MIN_LINES", 3)
    part = sample_lines(whole, 700, seed=0)
    longer = int(np.argmax(whole.shape))
    assert part.shape[1 - longer] == whole.shape[1 - longer]
    assert 600 < part.observed.size <= 700
    assert part.loss == whole.loss
    known = _lines(whole, longer)
    assert part.observed.weighted == weighted
    assert all(line in known for line in _lines(part, longer))
    others = sample_lines(whole, 700, seed=1)
    assert _lines(others, longer) != _lines(part, longer)


def _lines(cost, longer):
    """What each line holds: places on the other side, values and weights."""
    side = (cost.observed.by_row, cost.observed.by_column)[longer]
    content = np.column_stack([side.indices.astype(float), side.data])
    return [part.tolist() for part in np.split(content, side.indptr[1:-1].astype(int))]


def test_a_sample_of_a_square_matrix_is_of_rows(monkeypatch):
    monkeypatch.setattr("rankfold.selection.sampling.MIN_LINES", 3)
    X, y, _ = ratings((50, 50))
    whole = rf.Completion(*X.T, y, (50, 50))
    part = sample_lines(whole, 700, seed=0)
    assert part.shape[0] < 50 == part.shape[1]
    assert all(line in _lines(whole, 0) for line in _lines(part, 0))


def test_a_sample_keeps_repeated_entries():
    X, y, _ = ratings()
    twice = rf.Completion(*np.repeat(X, 2, axis=0).T, np.repeat(y, 2), (60, 40), duplicates="keep")
    assert sample_lines(twice, 2000, seed=0).observed.size == 2400  # of few lines: all


@pytest.mark.parametrize(
    ("solver", "weight", "used"),
    [
        ("auto", 1.0, Alternating),
        ("cg", 0.0, rf.ConjugateGradient),
        ("tr", 0.0, rf.TrustRegion),
        ("tr", 1.0, rf.TrustRegion),
        ("gd", 1.0, rf.GradientDescent),
        (rf.TrustRegion(), 1.0, rf.TrustRegion),
    ],
)
def test_the_solver_asked_for_is_the_one_that_works(solver, weight, used, monkeypatch):
    steps = []
    for kind in (Alternating, rf.ConjugateGradient, rf.TrustRegion, rf.GradientDescent):

        def step(self, problem, state, kind=kind, original=kind.step):
            steps.append(kind)
            return original(self, problem, state)

        monkeypatch.setattr(kind, "step", step)
    X, y, _ = ratings()
    model(solver=solver, bias=False, regularization=weight, tol=0.1).fit(X, y)
    assert set(steps) == {used}
