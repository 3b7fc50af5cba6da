"""Every method of the library declares what its states are made of: its runs are saved and resumed."""

import numpy as np
import pytest

import rankfold as rf
from rankfold.baselines import RTRMC, SVP, LMaFit, OptSpace
from rankfold.run.checkpoint import Checkpoint

METHODS = {
    rf.FullRank: [rf.Auto(), rf.RankContinuation(rf.TrustRegion()), rf.ReweightedContinuation(), LMaFit()],
    rf.Polar: [rf.GradientDescent(), rf.ConjugateGradient(), rf.GaussNewton(), OptSpace()],
    rf.SubspaceProjection: [rf.TrustRegion(), RTRMC()],
    rf.Embedded: [rf.TrustRegion(), rf.RankContinuation(), rf.TrimmedContinuation(), SVP()],
    rf.PositiveSemidefinite: [rf.Auto(), rf.TrustRegion(), rf.RankContinuation()],
}


@pytest.mark.parametrize(
    ("geometry", "method"),
    [(geometry, method) for geometry, methods in METHODS.items() for method in methods],
    ids=lambda thing: getattr(thing, "__name__", type(thing).__name__),
)
def test_a_run_is_resumed_from_any_iteration_to_the_same_numbers(geometry, method, tmp_path):
    shape = (40, 40) if geometry is rf.PositiveSemidefinite else (40, 30)
    data = rf.data.random_completion(shape, rank=2, oversampling=4, seed=0, min_per_line=True)
    cost = rf.Completion(data.rows, data.cols, data.values, data.shape)
    problem = rf.Problem(cost, geometry(cost.shape, 2))
    whole = rf.minimize(problem, method, max_iterations=12, tolerance=0)
    path = tmp_path / "run"
    for k in range(whole.iterations + 1):  # an iteration at a time, each from the file of the one before
        limits = {"max_iterations": k, "tolerance": 0, "checkpoint": Checkpoint(path)}
        resumed = rf.minimize(problem, method, **limits, resume=path if k else None)
        assert resumed.iterations == k
    rows = [[repr(row._replace(seconds=0.0)) for row in result.trace] for result in (resumed, whole)]
    assert rows[0] == rows[1]
    for found, due in zip(resumed.x, whole.x, strict=True):
        np.testing.assert_array_equal(found, due)
