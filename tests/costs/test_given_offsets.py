import numpy as np
import pytest

import rankfold as rf
from rankfold.costs.offsets import GivenOffsets

DATA = rf.data.random_completion((12, 9), rank=2, oversampling=2, seed=0)
ROWS, COLS = np.linspace(-1, 1, 12), np.linspace(2, -1, 9)


@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_it_is_the_completion_of_w_plus_offsets(loss):
    y = DATA.values if loss == "square" else (DATA.values > 0).astype(float)
    plain = rf.Completion(DATA.rows, DATA.cols, y, DATA.shape, loss=loss)
    cost = GivenOffsets(plain, ROWS, COLS)
    W = DATA.L @ DATA.R.T + ROWS[:, None] + COLS
    losses, _, _ = rf.Loss.named(loss)(W[DATA.rows, DATA.cols], y)
    assert cost.value(DATA.L, DATA.R) == pytest.approx(losses.mean())
    problem = rf.Problem(cost, rf.FullRank(cost.shape, 2))
    assert rf.check_gradient(problem).ok
    assert rf.check_hessian(problem).ok


def test_offsets_must_fit():
    plain = rf.Completion.from_triples(DATA)
    with pytest.raises(ValueError, match="one offset for each of 12 rows and 9 columns"):
        GivenOffsets(plain, COLS, ROWS)
