"""Every loss in every cost on every geometry: against autodiff of the dense function of W, and Taylor slopes.

Second derivatives of the Huber loss and the squared hinge jump, so the data are drawn for the predictions at
the one W that the slopes are measured at: on both sides of the jump, and none near it.
"""

from functools import cache

import numpy as np
import pytest
import torch

import rankfold as rf
from costs.losses import FORMULAS, named
from costs.suite import agrees_with_dense, derivatives_are_right_on, gradient_products_are_right
from geometry.variants import VARIANTS, dense, well_conditioned_point

KINDS = "completion", "pairs", "regression"
SHAPE, RANK = (6, 5), 2
SEED = 13  # one whose W has entries well beyond 1, where the squared hinge is met


def outcomes(loss, w, rng):
    """Data for the predictions w."""
    if loss == "huber":  # the jump is where |w - y| = 1
        return w + rng.choice([-3.0, -0.5, 0.5, 3.0], w.size)
    if loss == "poisson":
        return rng.poisson(2.0, w.size).astype(float)
    if loss == "squared_hinge":  # where w = 1 for y = 1, w = -1 for y = 0
        met = np.abs(w) > 1.2
        assert 0 < met.sum() < w.size
        return ((w > 0) == met).astype(float)
    return rng.integers(0, 2, w.size).astype(float)


def build(kind, X, Z, pairs, y, weights, loss):
    """Return the cost of the outcomes y of these pairs."""
    if kind == "completion":
        return rf.Completion(*pairs.T, y, SHAPE, weights, loss)
    if kind == "pairs":
        return rf.Pairs(X, Z, y, loss, pairs, weights)
    Y = np.full((len(X), len(Z)), np.nan)
    Y[pairs[:, 0], pairs[:, 1]] = y
    return rf.Regression(X, Y, loss)


@cache
def draw(kind, loss):
    """Return a cost and the same function written densely in W."""
    rng = np.random.default_rng(SEED)
    X = np.eye(SHAPE[0]) if kind == "completion" else rng.standard_normal((9, SHAPE[0]))
    Z = rng.standard_normal((8, SHAPE[1])) if kind == "pairs" else np.eye(SHAPE[1])
    pairs = np.argwhere(rng.uniform(size=(len(X), len(Z))) < 0.8)
    geometry = rf.FullRank(SHAPE, RANK)
    W = dense(geometry, well_conditioned_point(geometry, SEED))
    y = outcomes(loss, (X @ W @ Z.T)[tuple(pairs.T)], rng)
    weights = np.ones(y.size) if kind == "regression" else rng.uniform(0.5, 2, y.size)
    x, z, t, v = (torch.from_numpy(a) for a in (X[pairs[:, 0]], Z[pairs[:, 1]], y, weights))

    def function(W):
        return (v * FORMULAS[loss](torch.einsum("pi,ij,pj->p", x, W, z), t)).mean()

    return build(kind, X, Z, pairs, y, weights, named(loss)), function


@pytest.mark.parametrize("loss", FORMULAS)
@pytest.mark.parametrize("kind", KINDS)
def test_dense_reference_and_autodiff(kind, loss):
    for seed in range(3):
        agrees_with_dense(*draw(kind, loss), RANK, seed)
        gradient_products_are_right(*draw(kind, loss), RANK, seed)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("loss", FORMULAS)
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_and_hessian_on_every_geometry(kind, loss, variant):
    derivatives_are_right_on(variant, draw(kind, loss)[0], RANK, SEED)
