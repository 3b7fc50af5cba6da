"""Fits of `ImplicitFeedback`: precision, ends of the penalty and of the matrix, checkpoints, warm starts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from estimators.clicks.click_data import clicks
from rankfold.estimators.clicks.objective import Clicks, click_completion
from rankfold.estimators.inputs import seed_of


def model(**settings):
    return rf.ImplicitFeedback(**{"rank": 4, "regularization": 0.5, "random_state": 0} | settings)


@pytest.fixture(scope="module")
def pairs():
    return clicks()[0]


def test_predictions_are_in_double_precision_from_the_first_to_the_last(pairs):
    fitted = model(tol=0.1).fit(pairs)
    fitted.factors_ = tuple(factor.astype(np.float32) for factor in fitted.factors_)
    L, R = (factor.astype(np.float64) for factor in fitted.factors_)
    where = np.array([[0, 0], [59, 44], [0, 44], [59, 0]])
    found = fitted.predict(where)
    assert found.dtype == np.float64
    assert_allclose(found, (L @ R.T)[tuple(where.T)], rtol=1e-12)
    best = fitted.recommend(3, 2)
    assert best.scores.dtype == np.float64
    assert_allclose(fitted.predict_at(np.array([0, -1, 0]), np.array([0, 0, -1])), [found[0], 0, 0])


def test_a_penalty_as_high_as_the_largest_leaves_nothing(pairs):
    data = rf.data.Triples(pairs[:, 0], pairs[:, 1], np.ones(len(pairs)), (60, 45))
    largest, _ = Clicks.of(click_completion(data, None, 4.0, "float64")).started(2, seed_of(0))
    none = model(rank=2, regularization=largest).fit(pairs)
    assert none.stop_reason_ == "with this regularization, W = 0 is best"
    assert none.n_iter_ == 1
    assert none.trace_["value"] == [Clicks.of(click_completion(data, None, 4.0, "float64")).value_at_zero]
    assert not np.any(none.predict(pairs))
    some = model(rank=2, regularization=0.9 * largest).fit(pairs)
    assert some.predict(pairs).max() > 0


def test_a_fit_goes_on_from_a_checkpoint(pairs, tmp_path):
    def stop(progress):
        if progress.trace[-1].iteration == 2:
            raise KeyboardInterrupt

    path = tmp_path / "checkpoint"
    with pytest.warns(match="interrupted"):
        model(tol=1e-8).fit(pairs, callback=stop, checkpoint=path)
    resumed, whole = model(tol=1e-8).fit(pairs, resume=path), model(tol=1e-8).fit(pairs)
    assert resumed.n_iter_ == whole.n_iter_ > 2
    assert_array_equal(resumed.factors_[0], whole.factors_[0])


def test_factors_that_are_0_in_places_are_gone_on_from(pairs):
    warm = model(warm_start=True).fit(pairs)
    same = rf.data.Triples(*pairs.T, np.ones(len(pairs)), warm.shape_, warm.row_labels_, warm.col_labels_)
    warm.factors_[0][3] = 0.0
    assert warm._last_point(same) is warm.factors_
    assert warm.set_params(warm_start=False)._last_point(same) is None
    assert model(warm_start=True)._last_point(same) is None
    other = rf.data.Triples(*pairs.T, np.ones(len(pairs)), (61, 45))
    assert warm.set_params(warm_start=True)._last_point(other) is None


def test_positions_of_large_matrices_do_not_overflow():
    rows, cols = np.array([69_999, 5, 69_999], np.int32), np.array([3, 69_998, 3], np.int32)
    data = rf.data.Triples(rows, cols, np.ones(3), (70_000, 70_000))
    side = click_completion(data, None, 1.0, "float64").observed.by_row
    assert side.indices.tolist() == [69_998, 3]
    assert side.data[:, 1].tolist() == [1.0, 2.0]


def test_the_digest_knows_counts_and_labels_whatever_their_order(pairs):
    def digest(X, y=None, **settings):
        return model(tol=1.0, **settings).fit(X, y).data_fingerprint_

    counts = np.arange(len(pairs)) % 3 + 1.0
    found = [digest(pairs), digest(pairs, counts), digest(pairs + 1), digest(pairs[:-1])]
    assert len(set(found)) == 4
    assert digest(pairs[::-1], counts[::-1]) == found[1]
    assert digest(pairs, counts, alpha=5.0) != found[1]
