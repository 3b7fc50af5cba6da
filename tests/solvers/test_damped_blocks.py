"""What preconditions the damped model, when its iteration ends, and what it does without curvature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from dense import DenseCost
from rankfold.solvers.damped_model import DampedModel, _curvature_downhill


def here_of(cost, rank=2, seed=0):
    problem = rf.Problem(cost, rf.FullRank(cost.shape, rank, metric="preconditioned"))
    rng = np.random.default_rng(seed)
    return problem.at(problem.geometry.from_factors(*(rng.standard_normal((d, rank)) for d in cost.shape)))


def weighted():
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.uniform(size=(9, 7)) < 0.7)
    w = rng.uniform(0.5, 2, rows.size)
    return rf.Completion(rows, cols, rng.standard_normal(rows.size), (9, 7), weights=w)


@pytest.mark.parametrize("damping", [2.0, 0.01])
def test_each_line_is_preconditioned_by_its_own_block(damping):
    here = here_of(weighted())
    model = DampedModel.at(here)
    z = np.random.default_rng(1).standard_normal((16, 2))
    solved = model._preconditioner(damping)(z)
    (L, R), sides = here.factors, here.problem.cost.line_blocks(*here.factors)
    for first, blocks, Y in ((0, sides[0], R), (9, sides[1], L)):
        for i, block in enumerate(blocks):
            damped = block / model.scale + damping * Y.T @ Y
            assert_allclose(damped @ solved[first + i], z[first + i], atol=1e-5)


@pytest.mark.parametrize("damping", [2.0, 0.01])
def test_without_blocks_the_metric_is_the_preconditioner(damping):
    here = here_of(DenseCost((9, 7)))
    z = np.random.default_rng(1).standard_normal((16, 2))
    solved = DampedModel.at(here)._preconditioner(damping)(z)
    L, R = here.factors
    due = np.vstack([z[:9] @ np.linalg.inv(R.T @ R), z[9:] @ np.linalg.inv(L.T @ L)]) / (1 + damping)
    assert_allclose(solved, due, rtol=1e-9)


@pytest.mark.parametrize("cost", [weighted(), DenseCost((9, 7))], ids=["blocks", "none"])
@pytest.mark.parametrize("tolerance", [0.3, 0.03, 1e-4])
def test_it_ends_as_soon_as_the_model_s_gradient_has_fallen_so_far(cost, tolerance):
    """In the norm of the preconditioner."""
    here, damping = here_of(cost), 0.1
    model = DampedModel.at(here)
    inverse = model._preconditioner(damping)
    start = np.vstack(here.partials) / model.scale

    def left(found):
        r = start + model._product(np.vstack([found.dL, found.dR]), damping)
        return np.sqrt(np.sum(r * inverse(r)) / np.sum(start * inverse(start)))

    found = model.minimised(damping, tolerance, 500)
    assert found.products > 1 or tolerance == 0.3
    assert left(found) <= 1.001 * tolerance
    before = model.minimised(damping, tolerance, found.products - 1)
    assert before.products == found.products - 1
    assert left(before) > 0.999 * tolerance


def test_a_change_has_the_length_of_its_metric():
    here = here_of(weighted())
    model, (L, R) = DampedModel.at(here), here.factors
    rng = np.random.default_rng(2)
    dL, dR = rng.standard_normal(L.shape), rng.standard_normal(R.shape)
    due = np.linalg.norm(dL @ np.linalg.cholesky(R.T @ R)) ** 2
    due += np.linalg.norm(dR @ np.linalg.cholesky(L.T @ L)) ** 2
    assert model.length(dL, dR) == pytest.approx(due**0.5)
    assert model.length(0 * dL, 0 * dR) == 0.0


class Bent(DenseCost):
    """Its Gauss–Newton form is so many times what it is."""

    by = 1.0

    def gauss_newton(self, L, R, dL, dR):
        return tuple(self.by * part for part in super().gauss_newton(L, R, dL, dR))


@pytest.mark.parametrize(("by", "due"), [(3.0, 3.0), (-1.0, None), (0.0, None), (float("nan"), None)])
def test_where_the_model_does_not_bend_up_its_scale_is_one(by, due):
    cost = Bent((9, 7))
    here = here_of(cost)
    plain = _curvature_downhill(here)
    assert plain != pytest.approx(1.0)
    cost.by = by
    before = here.problem.counts.hessians
    assert DampedModel.at(here).scale == pytest.approx(1.0 if due is None else due * plain)
    assert here.problem.counts.hessians == before + 1
