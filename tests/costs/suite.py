"""What every cost must pass: its derivatives against autodiff of the same function written densely in W, its
Riemannian gradient and Hessian on every geometry, and its line polynomial."""

from __future__ import annotations

import numpy as np
import torch
from numpy.testing import assert_allclose

import rankfold as rf
from geometry.variants import VARIANTS, well_conditioned_point


def factors(shape, rank, seed=0, count=2):
    """`count` random pairs (L, R), as one flat list."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((d, rank)) for _ in range(count) for d in shape]


def close(actual, desired, tolerance=1e-10):
    desired = np.asarray(desired)
    assert_allclose(actual, desired, rtol=tolerance, atol=tolerance * max(1e-3, np.abs(desired).max()))


def agrees_with_dense(cost, dense, rank, seed=0):
    """Value, partials and their derivatives against torch's, of `dense(W)` with W = L Rᵀ formed."""
    L, R, dL, dR = factors(cost.shape, rank, seed)
    tensors = [torch.from_numpy(a).requires_grad_() for a in (L, R)]
    value = dense(tensors[0] @ tensors[1].T)
    partials = torch.autograd.grad(value, tensors, create_graph=True)
    along = sum((p * torch.from_numpy(d)).sum() for p, d in zip(partials, (dL, dR), strict=True))
    derivatives = torch.autograd.grad(along, tensors)
    found = cost.evaluate(L, R)
    close(found.value, value.item())
    close(cost.value(L, R), value.item())
    for actual, desired in zip(found[1:], partials, strict=True):
        close(actual, desired.detach().numpy())
    for actual, desired in zip(cost.derivative(L, R, dL, dR), derivatives, strict=True):
        close(actual, desired.numpy())


def gradient_products_are_right(cost, dense, rank, seed=0):
    """S X and SᵀY against torch's gradient S of `dense(W)`, for X and Y narrower than L and R."""
    (L, R), (Y, X) = factors(cost.shape, rank, seed, count=1), factors(cost.shape, 1, seed + 1, count=1)
    W = torch.from_numpy(L @ R.T).requires_grad_()
    S = torch.autograd.grad(dense(W), W)[0].numpy()
    for actual, desired in zip(cost.gradient_products(L, R)(X, Y), (S @ X, S.T @ Y), strict=True):
        close(actual, desired)


def polynomial_is_exact(cost, rank, seed=0):
    """The polynomial's values against the cost's, on the curves of GHᵀ and UBVᵀ and on a point."""
    drawn = factors(cost.shape, rank, seed, count=3)
    for terms1, terms2 in ((2, 2), (3, 2), (1, 1)):  # few: each is a kernel to compile
        Ls, Rs = drawn[::2][:terms1], drawn[1::2][:terms2]
        coefficients = cost.polynomial(Ls, Rs)
        assert coefficients.shape == (2 * (terms1 + terms2) - 3,)
        for t in (-0.7, 0.0, 0.3, 1.1):
            L = sum(A * t**i for i, A in enumerate(Ls))
            R = sum(A * t**i for i, A in enumerate(Rs))
            close(np.polynomial.polynomial.polyval(t, coefficients), cost.value(L, R))


def derivatives_are_right_on(variant, cost, rank, seed=0):
    """Taylor slopes and symmetry on one geometry."""
    problem = rf.Problem(cost, VARIANTS[variant](cost.shape, rank))
    x = well_conditioned_point(problem.geometry, seed)
    gradient, hessian = rf.check_gradient(problem, x, seed), rf.check_hessian(problem, x, seed)
    assert gradient.ok, str(gradient)
    assert hessian.ok, str(hessian)
