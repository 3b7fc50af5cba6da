"""What every cost must pass, against the same function written densely in W and differentiated by torch.

A cost gets all of it by joining `COSTS` in `costs.catalogue`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import rankfold as rf
from geometry.variants import VARIANTS, well_conditioned_point
from rankfold.costs.base import ANY_SHAPE, Cost


@dataclass(frozen=True)
class Case:
    """A cost and its truth."""

    cost: Cost
    #: W as a torch tensor ↦ the value, by formulas that share nothing with the cost's code
    dense: Callable[[Any], Any]
    #: that of the points at which it is tested
    rank: int = 2
    #: of the points that the slopes are measured at: losses with kinks are drawn for one W
    seed: int = 0
    #: whether it has a gradient at W = 0 and at factors with dependent columns, as a norm has not
    smooth: bool = True
    #: whether offsets that follow W make its second derivative smaller than its blocks
    eliminates: bool = False

    @property
    def shape(self):
        return (6, 5) if self.cost.shape == ANY_SHAPE else self.cost.shape

    def gradient(self, W):
        """Return S = ∇f(W)."""
        W = torch.from_numpy(W).requires_grad_()
        return torch.autograd.grad(self.dense(W), W)[0].numpy()


def factors(shape, rank, seed=0, count=2):
    """`count` random pairs (L, R), as one flat list."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((d, rank)) for _ in range(count) for d in shape]


def close(actual, desired, tolerance=1e-10):
    desired = np.asarray(desired)
    assert_allclose(actual, desired, rtol=tolerance, atol=tolerance * max(1e-3, np.abs(desired).max()))


def all_close(actual, desired, tolerance=1e-10):
    for one, two in zip(actual, desired, strict=True):
        close(one, two, tolerance)


def agrees_with_dense(cost, dense, rank, seed=0):
    """Value, partials and their derivatives against torch's, of `dense(W)` with W = L Rᵀ formed."""
    derivatives_agree(Case(cost, dense, rank), seed)


def derivatives_agree(case, seed=0):
    L, R, dL, dR = factors(case.shape, case.rank, seed)
    tensors = [torch.from_numpy(a).requires_grad_() for a in (L, R)]
    value = case.dense(tensors[0] @ tensors[1].T)
    partials = torch.autograd.grad(value, tensors, create_graph=True)
    along = sum((p * torch.from_numpy(d)).sum() for p, d in zip(partials, (dL, dR), strict=True))
    derivatives = torch.autograd.grad(along, tensors)
    found = case.cost.evaluate(L, R)
    assert type(found.value) is float
    close(found.value, value.item())
    close(case.cost.value(L, R), value.item())
    all_close(found[1:], [p.detach().numpy() for p in partials])
    all_close(case.cost.derivative(L, R, dL, dR), [d.numpy() for d in derivatives])


def gradient_products_are_right(cost, dense, rank, seed=0):
    """S X and SᵀY against torch's gradient S of `dense(W)`, for X and Y narrower than L and R."""
    (L, R), (Y, X) = factors(cost.shape, rank, seed, count=1), factors(cost.shape, 1, seed + 1, count=1)
    W = torch.from_numpy(L @ R.T).requires_grad_()
    S = torch.autograd.grad(dense(W), W)[0].numpy()
    for actual, desired in zip(cost.gradient_products(L, R)(X, Y), (S @ X, S.T @ Y), strict=True):
        close(actual, desired)


def polynomial_is_exact(cost, rank, seed=0):
    """The polynomial's values against the cost's, on the curves of GHᵀ and UBVᵀ and on a point."""
    polynomial_agrees(Case(cost, lambda W: cost.value(W.numpy(), np.eye(W.shape[1])), rank), seed)


def polynomial_agrees(case, seed=0):
    drawn = factors(case.shape, case.rank, seed, count=3)
    if not case.cost.quadratic:
        with pytest.raises(TypeError, match="not quadratic in W, so it has no line polynomial"):
            case.cost.polynomial(drawn[:1], drawn[1:2])
        return
    for terms1, terms2 in ((2, 2), (3, 2), (1, 1)):  # few: each is a kernel to compile
        Ls, Rs = drawn[::2][:terms1], drawn[1::2][:terms2]
        coefficients = case.cost.polynomial(Ls, Rs)
        assert coefficients.shape == (2 * (terms1 + terms2) - 3,)
        for t in (-0.7, 0.0, 0.3, 1.1):
            L = sum(A * t**i for i, A in enumerate(Ls))
            R = sum(A * t**i for i, A in enumerate(Rs))
            value = float(case.dense(torch.from_numpy(L @ R.T)))
            close(np.polynomial.polynomial.polyval(t, coefficients), value)


def products_agree(case):
    """(X, Y) ↦ (S X, SᵀY), at W and, by factors without columns, at 0."""
    if not case.smooth:
        return
    L, R, Y, X = factors(case.shape, case.rank)
    for A, B in ((L, R), (L[:, :0], R[:, :0])):
        S = case.gradient(A @ B.T)
        all_close(case.cost.gradient_products(A, B)(X, Y), [S @ X, S.T @ Y])


def model_agrees(case):
    """Ṡ R and ṠᵀL of the Gauss–Newton model against torch's second derivative Ṡ of f in W."""
    if not case.smooth:
        return
    L, R, dL, dR = factors(case.shape, case.rank)
    W = torch.from_numpy(L @ R.T).requires_grad_()
    S = torch.autograd.grad(case.dense(W), W, create_graph=True)[0]
    change = torch.from_numpy(dL @ R.T + L @ dR.T)
    along = (S * change).sum()
    moved = torch.autograd.grad(along, W)[0].numpy() if along.requires_grad else np.zeros(case.shape)
    for given in ((L, R, dL, dR), [torch.from_numpy(a) for a in (L, R, dL, dR)]):
        found = case.cost.gauss_newton(*given)
        assert all(type(part) is type(given[0]) for part in found)
        all_close([np.asarray(part) for part in found], [moved @ R, moved.T @ L])


def zero_agrees(case):
    """The value at W = 0, whatever was evaluated before, and in which precision."""
    expected = float(case.dense(torch.zeros(case.shape, dtype=torch.float64)))
    close(case.cost.value_at_zero, expected, 1e-12)
    case.cost.evaluate(*(torch.from_numpy(a).float() for a in factors(case.shape, case.rank, count=1)))
    close(case.cost.value_at_zero, expected, 1e-12)


def start_goes_downhill(case):
    if not case.cost.has_start:
        with pytest.raises(TypeError, match="has no start point"):
            case.cost.start(case.rank)
        return
    U, s, V = case.cost.start(case.rank, seed=1)
    for Q, d in zip((U, V), case.shape, strict=True):
        assert Q.shape == (d, case.rank)
        assert_allclose(Q.T @ Q, np.eye(case.rank), atol=1e-10)
    assert np.all(s > 0)
    assert np.all(np.diff(s) <= 0)
    zero = torch.zeros(case.shape, dtype=torch.float64)
    short = torch.from_numpy(1e-4 * (U * s) @ V.T)
    assert case.dense(short) < case.dense(zero)


def factorisation_does_not_matter(case):
    """(LA, RA⁻ᵀ) stands for the same W; and Lᵀf_L = f_RᵀR, both being LᵀSR."""
    arrays = factors(case.shape, case.rank)
    A = np.random.default_rng(5).standard_normal((case.rank, case.rank)) + 2 * np.eye(case.rank)
    back = np.linalg.inv(A).T
    moved = [array @ (back if k % 2 else A) for k, array in enumerate(arrays)]
    here, there = case.cost.evaluate(*arrays[:2]), case.cost.evaluate(*moved[:2])
    close(there.value, here.value)
    all_close(there[1:], [here.f_L @ back, here.f_R @ A])
    df_L, df_R = case.cost.derivative(*arrays)
    all_close(case.cost.derivative(*moved), [df_L @ back, df_R @ A])
    close(arrays[0].T @ here.f_L, here.f_R.T @ arrays[1])


def results_come_back_in_kind(case):
    """The library and the dtype of the factors, NumPy's and torch's, float64 and float32."""
    plain = factors(case.shape, case.rank)
    truth = [*case.cost.evaluate(*plain[:2])[1:], *case.cost.derivative(*plain)]
    for dtype, tolerance in (("float64", 1e-10), ("float32", 1e-4)):
        arrays = [a.astype(dtype) for a in plain]
        for given in (arrays, [torch.from_numpy(a) for a in arrays]):
            found = case.cost.evaluate(*given[:2])
            assert type(found.value) is float
            for one, two in zip([*found[1:], *case.cost.derivative(*given)], truth, strict=True):
                assert type(one) is type(given[0])
                assert one.dtype == given[0].dtype
                assert_allclose(np.asarray(one), two, atol=tolerance * (1 + np.abs(two).max()))


def derivatives_are_right_on(variant, cost, rank, seed=0):
    """Taylor slopes and symmetry on one geometry."""
    problem = VARIANTS[variant].problem(cost, rank)
    x = well_conditioned_point(problem.geometry, seed)
    gradient = rf.check_gradient(problem, x, seed)
    assert gradient.ok, str(gradient)
    hessian = rf.check_hessian(problem, x, seed)
    assert hessian.ok, str(hessian)


def line_blocks_are_no_smaller(case):
    """Symmetric, semidefinite, and the second derivative in a row of L or R, or more."""
    L, R, *_ = factors(case.shape, case.rank)
    if not case.cost.has_line_blocks:
        with pytest.raises(TypeError, match="knows no blocks of its second derivative"):
            case.cost.line_blocks(L, R)
        return
    blocks = case.cost.line_blocks(L, R)
    for side, (Z, Y) in enumerate(((L, R), (R, L))):
        assert blocks[side].shape == (*Z.shape, Z.shape[1])
        for i in range(len(Z)):
            block = np.asarray(blocks[side][i])
            close(block, block.T)
            assert np.linalg.eigvalsh(block)[0] >= -1e-12
            if case.smooth:
                exact = _second_derivative(case, Z, Y, side, i)
                assert np.linalg.eigvalsh(block - exact)[0] >= -1e-10 * max(1.0, np.abs(exact).max())
                if not case.eliminates:
                    close(block, exact)


def _second_derivative(case, Z, Y, side, i):
    """Differentiate the value twice in row i of L, or of R."""

    def value(z):
        moved = torch.from_numpy(Z).clone()
        moved[i] = z
        other = torch.from_numpy(Y)
        return case.dense(other @ moved.T if side else moved @ other.T)

    return torch.autograd.functional.hessian(value, torch.from_numpy(Z[i])).numpy()


CHECKS = [
    line_blocks_are_no_smaller,
    derivatives_agree,
    polynomial_agrees,
    products_agree,
    model_agrees,
    zero_agrees,
    start_goes_downhill,
    factorisation_does_not_matter,
    results_come_back_in_kind,
]
