"""At which rank a fit is finished: a higher one where entries held out say so, and for how many sweeps."""

import numpy as np
import pytest

from estimators.completion.small_fits import a_choice, entries
from rankfold.estimators.completion.bayes import finishing
from rankfold.estimators.completion.bayes.finishing import decided
from rankfold.estimators.completion.bayes.judging import Verdict
from rankfold.selection.rank import RankPath


@pytest.fixture
def judge(monkeypatch):
    """Let verdicts be given by rank; tell what was asked."""
    asked = []

    def given(verdicts):
        def judged(folds, least, tell, rival=None):
            asked.append((folds, least, rival))
            return verdicts[len(asked) - 1]

        asked.clear()
        monkeypatch.setattr(finishing, "judged", judged)
        return asked

    return given


def verdict(losses, sweeps=2):
    return Verdict(sweeps, np.asarray(losses, float), None)


ONES, LESS = verdict([1.0, 1.0, 1.0]), verdict([0.5, 0.4, 0.6])


def test_a_higher_rank_is_taken_where_it_is_better(judge):
    choice = a_choice(rank=2)
    asked = judge([ONES, LESS])
    best, found = decided(choice, 3, True, 0, 0)
    assert (best.rank, found) == (4, LESS)
    assert [each[1:] for each in asked] == [(3, None), (3, ONES)]
    assert asked[0][0] is choice.folds
    assert asked[1][0] is best.folds
    assert best.point is best.folds[0][1]
    assert best.rank_path is None
    for (fold, point), (before, start) in zip(best.folds, choice.folds, strict=True):
        assert fold is before
        assert [X.shape for X in point] == [(9, 5), (7, 5)]
        assert fold.joint.value(*point) < fold.joint.value(*start)
    judge([ONES])
    assert decided(choice, 3, False, 0, 0)[0] is choice


@pytest.mark.parametrize(
    ("second", "grown"),
    [
        (verdict([1.0, 1.0, 1.0]), False),
        (verdict([0.0, 1.5, 0.9]), False),  # by less than a standard error
        (verdict([0.3, 0.5, 1.2]), True),
        (verdict([0.5, 0.4]), False),  # of other entries
        (verdict([]), False),
    ],
)
def test_a_higher_rank_must_be_better_by_a_standard_error(judge, second, grown):
    judge([ONES, second])
    choice = a_choice()
    best, found = decided(choice, 0, True, 0, 0)
    assert (best.rank, found) == ((2, second) if grown else (1, ONES))


def test_the_mean_gain_is_compared_with_its_error():
    gains = np.array([0.0, 2.0, 4.0, 2.0])  # of mean 2, deviation √2
    for shift, due in ((-1.2, True), (-1.4, False)):
        new = verdict(5.0 - gains - shift)
        assert finishing._better(new, verdict(np.full(4, 5.0))) is due
    assert not finishing._better(verdict(np.ones(4)), verdict(np.ones(4)))
    assert not finishing._better(verdict([]), verdict([]))


@pytest.mark.parametrize(
    ("choice", "first"),
    [
        (a_choice, verdict([1.0], sweeps=0)),
        (lambda: a_choice(rank=7), ONES),  # no more than the lesser side
        (lambda: a_choice(factors=0), ONES),  # of W = 0
    ],
)
def test_no_higher_rank_is_tried_where_there_is_none_or_the_finish_of_no_use(judge, choice, first):
    asked, choice = judge([first]), choice()
    assert decided(choice, 0, True, 0, 0) == (choice, first)
    assert len(asked) == 1


def test_of_many_entries_the_rank_stays(judge, monkeypatch):
    size = entries().completion.observed.size
    for many, rank in ((size, 1), (size + 1, 2)):
        monkeypatch.setattr(finishing, "MANY", many)
        judge([ONES, LESS])
        assert decided(a_choice(), 0, True, 0, 0)[0].rank == rank


def test_the_rank_grows_to_the_lesser_side_at_most(judge):
    judge([ONES, LESS])
    assert decided(a_choice(rank=5), 0, True, 0, 0)[0].rank == 7


@pytest.mark.parametrize("changes", [{"folds": ()}, {"interrupted": True}, {"bias": False, "factors": 0}])
def test_nothing_is_judged_where_nothing_can_be(judge, changes):
    asked, choice = judge([]), a_choice(**changes)
    assert decided(choice, 0, True, 0, 0) == (choice, None)
    assert not asked


def test_ctrl_c_while_it_is_judged_ends_the_choice(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(finishing, "judged", interrupted)
    choice = a_choice()
    found, none = decided(choice, 0, True, 0, 0)
    assert found.interrupted
    assert found.folds is choice.folds
    assert none is None


def test_the_path_of_ranks_has_what_the_finish_makes_of_them(judge):
    path = RankPath((1, 3), (9.0, 8.0), (0.9, 0.8), (7.0, 6.0), 1)
    choice = a_choice(rank_path=path)
    first = verdict([1.0, 2.0, 4.0])
    judge([first, LESS])
    best, _ = decided(choice, 0, True, 0, 0)
    found = best.rank_path
    assert (found.ranks, found.chosen) == ((1, 2, 3), 2)
    np.testing.assert_allclose(found.errors, [7 / 3, 0.5, 8.0])
    errors = [np.std(each.losses, ddof=1) / np.sqrt(3) for each in (first, LESS)]
    np.testing.assert_allclose(found.standard_errors, [*errors, 0.8])
    for k, each in ((0, choice), (1, best)):
        fits = []
        for fold, point in each.folds:
            A, B = fold.joint.widened(*point)
            side = fold.joint.completion.observed.by_row
            fits.append(np.mean((np.sum(A[side.keys] * B[side.indices], axis=1) - side.data[:, 0]) ** 2))
        assert found.fits[k] == pytest.approx(np.mean(fits))
    assert found.fits[2] == 6.0
    judge([verdict([], sweeps=0)])
    best, _ = decided(choice, 0, False, 0, 0)
    assert best.rank_path == path  # which nothing was said of


def test_one_fold_is_enough(judge):
    judge([ONES, LESS])
    choice = a_choice()
    best, _ = decided(choice._replace(folds=choice.folds[:1]), 0, True, 0, 0)
    assert (best.rank, len(best.folds)) == (2, 1)
