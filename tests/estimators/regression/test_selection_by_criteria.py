"""Ranks and penalties of a regression: how they are scored, which are tried; with fits that are made up."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankfold.estimators.regression.criteria import (
    Candidates,
    SelectionPath,
    degrees_of_freedom,
    information,
)
from rankfold.estimators.regression.observations import Fit, Observations

FOLDS = [(np.array([0, 2, 4, 5]), np.array([1, 3])), (np.array([0, 1, 3]), np.array([2, 4, 5]))]


def observations(holes=True, **options):
    """Six samples of unequal weights, one of them 0, with two responses; some of these are missing."""
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((6, 2))
    if holes:
        Y[1, 0] = Y[4, 1] = np.nan
    weights = np.array([0.2, 0.7, 1.5, 0.1, 0.0, 2.0])
    return Observations(rng.standard_normal((6, 3)), Y, weights, **{"fit_intercept": True} | options)


def candidates(constants):
    """Ranks and penalties whose fit predicts a constant, one of a table."""
    ranks, weights = np.arange(1, len(constants) + 1), np.arange(constants.shape[1]) + 0.5

    def fits(data, ranks, regularization):
        for rank in ranks:
            constant = constants[int(rank) - 1, int(regularization)]
            yield Fit(np.zeros((3, 1)), np.zeros((2, 1)), np.full(2, constant), None)

    return Candidates(ranks, weights, fits)


def mean_square(data, constant):
    squares = data.weights[:, None] * (constant - data.Y) ** 2
    tested = np.concatenate([test for _, test in FOLDS])
    known = data.weights[:, None] * ~np.isnan(data.Y)
    return np.nansum(squares[tested]) / known[tested].sum()


def test_held_out_losses_are_means_by_weight_over_all_folds():
    data, constants = observations(), np.arange(6.0).reshape(2, 3)
    scores = candidates(constants)._held_out(data, FOLDS, print, np.array([1, 2]), np.arange(3) + 0.5)
    assert_allclose(scores, [[mean_square(data, c) for c in row] for row in constants])


def test_with_a_closed_form_everything_is_tried_and_told_of(capsys):
    data, constants = observations(holes=False), 9.0 - np.arange(10.0).reshape(2, 5)
    path = candidates(constants).cross_validated(data, FOLDS, None, 2)
    assert path.criterion == "cv"
    told = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[0] for line in told] == ["cross-validation: fold 1", "cross-validation: fold 2"]
    assert float(told[1].split()[-1]) == pytest.approx(path.scores.min(), rel=1e-5)
    assert_allclose(path.scores, [[mean_square(data, c) for c in row] for row in constants])


# The prediction by penalty, the least at the largest rank; by rank, of the best penalty. All responses are 0.
@pytest.mark.parametrize(
    ("by_weight", "tried"),
    [
        ([1, 9, 5, 6, 7, 3, 8, 9], [2, 3, 4, 5, 6, 7]),  # three in vain after the best, at 5
        ([1, 9, 2, 6, 7, 3, 8, 9], [0, 1, 2, 3, 4, 5, 6, 7]),  # the third one after it is better
        ([3, 3, 3, 3, 3, 3, 3, 3], [0, 1, 2, 3, 4, 5, 6, 7]),  # of equal ones the smallest penalty counts
        ([9, 8, 7, 6], [0, 1, 2, 3]),
    ],
)
def test_penalties_are_tried_from_the_largest_until_three_are_no_better(by_weight, tried):
    data = observations()
    data = Observations(data.X, 0.0 * data.Y, data.weights, fit_intercept=True)
    constants = np.full((1, len(by_weight)), 0.1) * np.array(by_weight)
    path = candidates(np.vstack([constants + 1, constants])).cross_validated(data, FOLDS, None, 0)
    assert np.flatnonzero(np.isfinite(path.scores[-1])).tolist() == tried
    best = int(np.argmin(path.scores[-1]))
    assert_allclose(path.scores[-1][tried], constants[0, tried] ** 2)
    assert np.isfinite(path.scores[0]).tolist() == [j == best for j in range(len(by_weight))]
    assert_allclose(path.scores[0, best], (constants[0, best] + 1) ** 2)


@pytest.mark.parametrize(
    ("by_rank", "tried"),
    [
        ([9, 4, 6, 7, 8, 1, 1, 5], [0, 1, 2, 3, 4, 7]),
        ([9, 4, 6, 7, 3, 8, 8, 8], [0, 1, 2, 3, 4, 5, 6, 7]),
        ([4, 6, 7, 8, 1, 1, 5], [0, 1, 2, 3, 6]),
        ([5, 4, 3, 2], [0, 1, 2, 3]),
        ([5], [0]),
    ],
)
def test_ranks_are_tried_from_one_until_three_are_no_better(by_rank, tried):
    data = observations()
    data = Observations(data.X, 0.0 * data.Y, data.weights, fit_intercept=True)
    constants = np.array(by_rank)[:, None] * [0.4, 0.1, 0.2]
    path = candidates(constants).cross_validated(data, FOLDS, None, 0)
    assert np.flatnonzero(np.isfinite(path.scores[:, 1])).tolist() == tried
    assert_allclose(path.scores[tried, 1], constants[tried, 1] ** 2)
    assert np.isinf(path.scores[:-1, [0, 2]]).all()


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_criteria_count_the_responses_that_weigh_anything(fit_intercept):
    data, constants = observations(fit_intercept=fit_intercept), np.arange(6.0).reshape(3, 2)
    # Nine responses are known beside those of weight 0, and offsets take two degrees of freedom of them.
    path = candidates(constants).by_criterion(data, "bic")
    middle = np.average(data.X, axis=0, weights=data.weights) * fit_intercept
    d = np.linalg.svd(np.sqrt(data.weights)[:, None] * (data.X - middle), compute_uv=False)
    for (i, j), constant in np.ndenumerate(constants):
        squares = np.nansum(data.weights[:, None] * (constant - data.Y) ** 2)
        p = np.sum(d**2 / (d**2 + j + 0.5))
        r = min(i + 1, p)
        freedom = r * (p + 2 - r) + 2 * fit_intercept
        assert freedom < 9
        assert_allclose(path.scores[i, j], 9 * np.log(squares / 9) + np.log(9) * freedom)


def test_criteria_of_what_is_left_over():
    assert information("aic", 0.5, 10, 3.0) == pytest.approx(10 * np.log(0.05) + 6)
    assert information("bic", 0.5, 20, 3.0) == pytest.approx(20 * np.log(0.025) + 3 * np.log(20))
    assert information("gcv", 0.5, 10, 9.5) == pytest.approx(5 / 0.25)
    for criterion in ("aic", "bic", "gcv"):
        assert information(criterion, 0.0, 10, 3.0) == information(criterion, 1.0, 10, 10.0) == np.inf


def test_directions_without_predictors_take_no_degrees_of_freedom():
    assert degrees_of_freedom([0.5, 0.2, 0.0], 0.0, targets=4, rank=3) == pytest.approx(2 * 4)
    assert degrees_of_freedom([3.0, 1.0], 1.0, targets=4, rank=1) == pytest.approx(1.4 + 4 - 1)
    assert degrees_of_freedom([3.0, 1.0], 1.0, targets=4, rank=2) == pytest.approx(1.4 * 4)


def test_a_path_tells_the_best_penalty_of_each_rank():
    scores = np.array([[9.0, 5.0, 7.0, 6.0], [4.0, 8.0, 3.0, 7.0], [6.0, 3.0, 9.0, 8.0]])
    path = SelectionPath("bic", np.array([2, 5, 7]), np.array([0.25, 0.5, 4.0, 8.0]), scores)
    assert path.best == (5, 4.0)  # of equal ones the least rank
    lines = [line.split() for line in str(path).splitlines()]
    assert lines[0] == ["rank", "bic", "regularization"]
    assert [line[:3] for line in lines[1:]] == [["2", "5", "0.5"], ["5", "3", "4"], ["7", "3", "0.5"]]
    assert [len(line) > 3 for line in lines[1:]] == [False, True, False]
    axes = path.plot()
    assert axes.lines[0].get_xdata().tolist() == [2, 5, 7]
    assert axes.lines[0].get_ydata().tolist() == [5.0, 3.0, 3.0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("rank", "bic")
    assert "rank 5, regularization 4" in axes.get_legend_handles_labels()[1][0]
    assert path.plot(axes) is axes


def test_a_number_of_folds_shuffles_the_samples():
    seen = []

    class Watched(Candidates):
        def _held_out(self, data, folds, tell, ranks, weights):
            seen.append([test.tolist() for _, test in folds])
            return np.zeros((len(ranks), len(weights)))

    given = candidates(np.ones((1, 1)))
    for state in (0, 0, 1):
        Watched(given.ranks, given.regularizations, given.fits).cross_validated(
            observations(holes=False), 3, state, 0
        )
    assert seen[0] == seen[1] != seen[2]
    assert sorted(np.concatenate(seen[0])) == list(range(6))
    pair = observations(holes=False).take(np.array([0, 1]))
    Watched(given.ranks, given.regularizations, given.fits).cross_validated(pair, 5, 0, 0)
    assert sorted(seen[3]) == [[0], [1]]
    assert any(later != earlier + 1 for fold in seen[0] for earlier, later in pairwise(fold))
