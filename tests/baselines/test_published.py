"""Iteration counts on P1 (4000², rank 5, oversampling 8, f ≤ 1e-20) next to those of the authors' codes."""

from unittest import mock

import pytest
from baseline_instances import completion, instance, solve

import rankfold as rf
from rankfold.baselines import RTRMC, SVP, LMaFit, OptSpace, lrgeom, mmmf
from rankfold.kernels import layout

SHAPE = (4000, 4000)
# The authors' codes' counts on this very instance, from the same start (`benchmarks.originals`).
CASES = {
    "LMaFit": (rf.FullRank(SHAPE, 5), LMaFit(), 106),
    "RTRMC-1": (rf.SubspaceProjection(SHAPE, 5), RTRMC(1), 94),
    "RTRMC-2": (rf.SubspaceProjection(SHAPE, 5), RTRMC(2), 6),
    "LRGeomCG": (*lrgeom(SHAPE, 5, "cg"), 36),
    "LRGeom trust region": (*lrgeom(SHAPE, 5, "tr"), 8),
}


@pytest.fixture(scope="module")
def problem_1():
    """Its kernels are those that other tests compile."""
    with mock.patch.object(layout, "FEW", 10**7):
        yield made()


def made():
    data = instance(SHAPE, 5, 8, seed=0)
    cost = completion(data)
    U, s, V = cost.start(5)
    return cost, (U, s * cost.observed.size / (SHAPE[0] * SHAPE[1]), V)  # the SVD of P_Ω(W*), unscaled


@pytest.mark.parametrize("name", CASES)
def test_counts_are_those_of_the_authors_codes(problem_1, name):
    cost, start = problem_1
    geometry, method, published = CASES[name]
    result = solve(rf.Problem(cost, geometry), method, x0=geometry.from_svd(*start), iterations=200)
    assert result.converged
    assert abs(result.iterations - published) <= max(0.05 * published, 1)


@pytest.mark.parametrize(
    ("geometry", "method"),
    [
        (rf.Embedded(SHAPE, 5), SVP()),
        (rf.Polar(SHAPE, 5), OptSpace()),
        mmmf(SHAPE, 5),
    ],
    ids=["SVP", "OptSpace", "MMMF"],
)
def test_the_others_reach_the_same_accuracy(problem_1, geometry, method):
    cost, start = problem_1
    result = solve(rf.Problem(cost, geometry), method, x0=geometry.from_svd(*start), iterations=200)
    assert result.converged


def test_a_name_that_lrgeom_does_not_know():
    with pytest.raises(ValueError, match="solver must be one of 'gd', 'cg', 'tr'"):
        lrgeom(SHAPE, 5, "newton")
