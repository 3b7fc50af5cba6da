"""The choice of the regularisation: what it looks at, and what it keeps of the problem."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from rating_data import everywhere, model, ratings, rmse

import rankfold as rf
from rankfold.estimators.completion.alternating import Alternating
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.estimators.completion.penalised import _of_W
from rankfold.estimators.completion.spread import check
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


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf"), "often", None])
def test_a_wrong_regularization_is_refused_over_several_processes_before_any_work(wrong):
    asked = model(regularization=wrong)
    data = SimpleNamespace(shape=(9, 6), store=SimpleNamespace(place=None))  # which nobody looks into
    with pytest.raises((TypeError, ValueError), match="regularization must be 'auto' or "):
        check(asked, rf.Loss.named("square"), data)


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


@pytest.mark.parametrize(
    ("loss", "cancelled", "kinds"),
    [("square", 0.0, {"swept", "polynomial"}), ("square", 1.0, {"swept", "polynomial", "value"}),
     ("logistic", 0.0, {"swept", "value"})],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:stopped after 12 iterations")
def test_what_sweeps_ask_of_their_cost_is_counted(loss, cancelled, kinds, monkeypatch):
    asked = []

    def noting(name, original):
        def call(self, *arguments):
            asked[-1:] = [each + Counter([name]) for each in asked[-1:]]
            return original(self, *arguments)

        return call

    def step(self, problem, state, original=Alternating.step):
        asked.append(Counter())
        return original(self, problem, state)

    monkeypatch.setattr(Alternating, "step", step)
    for name in ("swept", "polynomial", "value"):
        monkeypatch.setattr(Joint, name, noting(name, getattr(Joint, name)))
    monkeypatch.setattr("rankfold.estimators.completion.alternating._CANCELLED", cancelled)
    X, y, _ = ratings()
    y = y if loss == "square" else (y > 0).astype(float)
    fitted = model(loss=loss, bias=False, regularization=1.0, max_iter=12).fit(X, y)
    assert {kind for each in asked for kind in each} == kinds
    for row, due in zip(list(fitted.trace_)[1:], asked, strict=True):
        assert (row.gradients, row.polynomials, row.values) == (due["swept"], due["polynomial"], due["value"])


@pytest.mark.parametrize(
    ("loss", "bias", "started", "weight"),
    [
        ("square", True, True, 1.3),
        ("huber", True, True, 1.3),
        ("huber", True, True, 0.0),
        ("huber", True, False, 1.3),
        ("huber", False, True, 1.3),
        ("square", False, True, 1.3),
    ],
)
def test_the_cost_of_a_matrix_is_that_of_its_factors_with_offsets_that_go_with_it(
    loss, bias, started, weight
):
    X, y, _ = ratings(entries=300)
    completion = rf.Completion(*X.T, y, (60, 40), loss=rf.Loss.huber(0.7) if loss == "huber" else loss)
    joint = Joint.of(completion, weight, Shrinkage(2.0, 0.7) if bias else None)
    rng = np.random.default_rng(0)
    L, R = (rng.standard_normal((d, 2)) for d in (60, 40))
    start = tuple(rng.standard_normal((d, 2 + bias)) for d in (60, 40)) if started else None
    cost, offsets_at = _of_W(joint, completion, start)
    mean, b, c = offsets_at(L, R)
    W = L @ R.T
    charged = 0.0
    if bias and loss == "square":  # the best ones
        errors = np.zeros((60, 40))
        errors[tuple(X.T)] = (W + mean + b[:, None] + c)[tuple(X.T)] - y
        gradient = [errors.sum(), *(errors.sum(axis=1) + 2.0 * b), *(errors.sum(axis=0) + 0.7 * c)]
        np.testing.assert_allclose(gradient, 0, atol=1e-9)
        charged = 2.0 * b @ b + 0.7 * c @ c
    elif bias and started:  # those of the start
        np.testing.assert_allclose(mean + b, start[0][:, -1], atol=1e-12)
        np.testing.assert_array_equal(c, start[1][:, -1])
    else:
        assert not np.any([mean, *b, *c])
    e = (W + mean + b[:, None] + c)[tuple(X.T)] - y
    near = np.clip(e, -0.7, 0.7) if loss == "huber" else e
    roots = [
        np.maximum(np.bincount(side, minlength=d), 1) ** 0.25 for side, d in zip(X.T, W.shape, strict=True)
    ]
    nuclear = np.linalg.norm(roots[0][:, None] * W * roots[1], "nuc")
    expected = np.sum(near * (2 * e - near)) + charged + 2 * weight * nuclear
    assert cost.value(L, R) == pytest.approx(expected / 300, rel=1e-9)
