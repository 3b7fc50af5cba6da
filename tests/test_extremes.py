"""The most extreme values that settings may have are taken, and those just beyond are refused by name."""

from pathlib import Path

import numpy as np
import pytest

import rankfold as rf
from rankfold.data.io import limits
from rankfold.data.spill.sorting import _options
from rankfold.estimators.clicks.objective import check_settings
from rankfold.estimators.completion.bayes.calibration import gaussian_ends
from rankfold.estimators.inputs import checked_rank, checked_regularization
from rankfold.estimators.pairs.paired_features import PairedFeatures
from rankfold.run import stopping
from rankfold.run.checkpoint import Checkpoint
from rankfold.selection.holding_out import hold_out

LITTLE = 1e-9
ROWS, COLS = np.divmod(np.arange(20), 4)
SMALL = rf.Completion(ROWS, COLS, 1.0 + ROWS + COLS, (5, 4))


def instance(**changes):
    return rf.data.random_completion(**{"shape": (6, 5), "rank": 2, "oversampling": 1.0, "seed": 0} | changes)


def ridges(**changes):
    return rf.WithOffsets(SMALL, **{"mean": None, "rows": 1.0, "cols": None} | changes)


def run(**changes):
    return rf.minimize(rf.Problem.of(SMALL, 1), **{"max_iterations": 1} | changes)


def keeping(**setting):
    return Checkpoint(Path(__file__), **setting)


def side(n):
    limits.check_side(n, "here", "row")


CASES = [
    (lambda n: rf.RankContinuation(start=n), "start", [1], [0]),
    (lambda n: rf.RankContinuation(grow=n), "grow", [1], [0]),
    (lambda n: rf.RankContinuation(last=n), "last", [1, None], [0]),
    (lambda x: rf.RankContinuation(slow=x), "slow", [0.0, 1 - LITTLE], [-LITTLE, 1.0]),
    (lambda x: rf.RankContinuation(settled=x), "settled", [0.0, 1 - LITTLE], [-LITTLE, 1.0]),
    (lambda x: rf.GaussNewton(damping=x), "damping", [LITTLE], [0.0]),
    (lambda x: rf.GaussNewton(inner_tolerance=x), "inner_tolerance", [LITTLE, 1 - LITTLE], [0.0, 1.0]),
    (lambda n: rf.GaussNewton(max_inner=n), "max_inner", [1], [0]),
    (lambda x: rf.GradientDescent(update=x), "update", [0.0, 1.0, None], [-LITTLE, 1 + LITTLE]),
    (lambda x: run(tolerance=x), "tolerance", [0.0, 1 - LITTLE], [-LITTLE, 1.0]),
    (lambda n: run(max_iterations=n), "max_iterations", [0], [-1]),
    (lambda n: keeping(every=n), "every", [1, None], [0]),
    (lambda x: keeping(seconds=x), "seconds", [0.0, None], [-LITTLE]),
    (stopping.StepBelow, "threshold", [0.0], [-LITTLE, np.inf]),
    (stopping.Iterations, "limit", [0], [-1]),
    (stopping.Seconds, "limit", [0.0], [-LITTLE, np.inf]),
    (lambda n: stopping.RelativeChange(0.1, n), "window", [1], [0]),
    (lambda n: run().trace[n], "row", [0, 1, -1, -2], [2, -3]),
    (rf.Frobenius, "weight", [0.0], [-LITTLE, np.inf]),
    (rf.Nuclear, "weight", [0.0], [-LITTLE, np.inf]),
    (rf.Loss.huber, "delta", [LITTLE], [0.0, np.inf]),
    (lambda x: ridges(rows=x), "ridges", [0.0, LITTLE], [-LITTLE, np.inf, None]),
    (lambda x: ridges(rows=0.0, cols=x), "ridges", [LITTLE, None], [0.0]),
    (lambda n: SMALL.start(n), "rank", [1, 4], [0, 5]),
    (lambda n: instance(shape=(n, 9), rank=1), "shape", [1], [0]),
    (lambda n: instance(rank=n), "rank", [1, 5], [0, 6]),
    (lambda x: instance(oversampling=x), "oversampling", [1 / 18, 30 / 18], [0.5 / 18 - LITTLE, 31 / 18]),
    (lambda x: instance(condition=x), "condition", [1.0, None], [1 - LITTLE]),
    (lambda x: instance(noise=x), "noise", [0.0], [-LITTLE]),
    (lambda x: instance(popularity=x), "popularity", [0.0, None], [-LITTLE]),
    (lambda n: instance(min_per_line=n, oversampling=30 / 18), "min_per_line", [0, 5], [-1, 6]),
    (lambda x: instance(min_per_line=3, oversampling=x), "min_per_line", [1.0], [17 / 18]),
    (lambda n: instance().held_out(n), "count", [0, 12], [-1, 13]),
    (lambda x: rf.data.held_out_mask(9, x), "held_out", [0.0, 1.0], [-LITTLE, 1 + LITTLE]),
    (lambda x: _options("float64", "keep", x, 0, 1), "held_out", [0.0, 1 - LITTLE], [-LITTLE, 1.0]),
    (lambda n: hold_out(SMALL, n / 20, 0), "held_out", [2, 19], [1, 20]),
    (lambda n: rf.choose_rank(SMALL, max_rank=n), "max_rank", [1, 4], [0, 5]),
    (side, "row", [0, 1 << 32], [-1, (1 << 32) + 1]),
    (lambda n: checked_rank(n, 5, "here"), "rank", [1, 5], [0, 6, True, 1.0]),
    (checked_regularization, "regularization", [0, LITTLE], [-LITTLE, np.inf, "1"]),
    (lambda x: check_settings(1, x, "auto", (5, 4)), "alpha", [LITTLE], [0.0, np.inf]),
    (lambda n: check_settings(n, 1.0, "auto", (5, 4)), "rank", [1, 4, 9], [0, 1.5]),
    (gaussian_ends, "coverage", [LITTLE, 1 - LITTLE], [0.0, 1.0]),
    (lambda n: PairedFeatures.of_columns(np.ones((3, 4)), n), "n_left", [1, 3], [0, 4]),
    (lambda n: PairedFeatures.of_columns(np.ones((3, n)), None), "n_features", [2], [1]),
    (lambda n: rf.PairRanker(max_comparisons=n)._check_limit(), "max_comparisons", [1], [0, True, 1.5]),
]  # fmt: skip


@pytest.mark.parametrize(("take", "name", "least_and_most", "beyond"), CASES)
def test_the_last_value_is_taken_and_the_next_one_refused(take, name, least_and_most, beyond):
    for value in least_and_most:
        take(value)
    for value in beyond:
        with pytest.raises((ValueError, IndexError), match=name):
            take(value)
