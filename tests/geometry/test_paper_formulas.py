"""The cells of Tables gradient_Hessian and matrix_completion, written out densely, misprints corrected."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf

SHAPE, RANK = (7, 6), 2
RNG = np.random.default_rng(0)
TRUTH, KNOWN = RNG.standard_normal(SHAPE), RNG.random(SHAPE) < 0.7
COST = rf.Completion.from_dense(np.where(KNOWN, TRUTH, np.nan))


def sym(A):
    return (A + A.T) / 2


def slopes(W, dW):
    """S and S_* of Table matrix_completion."""
    return 2 / KNOWN.sum() * KNOWN * (W - TRUTH), 2 / KNOWN.sum() * KNOWN * dW


def full_column_rank(Y, xi, eta):
    """A_Y of Table gradient_Hessian, and in its place A_G and A_H."""
    Q = np.linalg.inv(Y.T @ Y)
    return -eta @ Q @ sym(Y.T @ xi) - xi @ Q @ sym(Y.T @ eta) + Y @ Q @ sym(eta.T @ xi)


def full_rank(x, z):
    (G, H), (a, b) = x, z
    S, T = slopes(G @ H.T, G @ b.T + a @ H.T)
    g = S @ H @ G.T @ G, S.T @ G @ H.T @ H
    along = (
        T @ H @ G.T @ G + S @ b @ G.T @ G + 2 * S @ H @ sym(G.T @ a),
        T.T @ G @ H.T @ H + S.T @ a @ H.T @ H + 2 * S.T @ G @ sym(H.T @ b),
    )
    return g, along, (full_column_rank(G, a, g[0]), full_column_rank(H, b, g[1]))


def polar(x, z):
    (U, B, V), (u, c, v) = x, z
    S, T = slopes(U @ B @ V.T, U @ B @ v.T + U @ c @ V.T + u @ B @ V.T)
    M = U.T @ S @ V
    g = (
        S @ V @ B - U @ sym(U.T @ S @ V @ B),
        B @ sym(M) @ B,
        S.T @ U @ B - V @ sym(V.T @ S.T @ U @ B),
    )
    along = (
        T @ V @ B + S @ v @ B + S @ V @ c - u @ sym(U.T @ S @ V @ B),
        2 * sym(B @ sym(M) @ c) + B @ sym(u.T @ S @ V + U.T @ T @ V + U.T @ S @ v) @ B,
        T.T @ U @ B + S.T @ u @ B + S.T @ U @ c - v @ sym(V.T @ S.T @ U @ B),
    )
    return g, along, (0 * U, -sym(c @ np.linalg.inv(B) @ g[1]), 0 * V)


def subspace(x, z):
    (U, Y), (u, y) = x, z
    S, T = slopes(U @ Y.T, U @ y.T + u @ Y.T)
    g = S @ Y - U @ sym(U.T @ S @ Y), S.T @ U @ Y.T @ Y
    along = (
        T @ Y + S @ y - u @ sym(U.T @ S @ Y),
        T.T @ U @ Y.T @ Y + S.T @ u @ Y.T @ Y + 2 * S.T @ U @ sym(Y.T @ y),
    )
    return g, along, (0 * U, full_column_rank(Y, y, g[1]))


CELLS = {
    "GH": (rf.FullRank(SHAPE, RANK, metric="invariant"), full_rank),
    "UBV": (rf.Polar(SHAPE, RANK), polar),
    "UY": (rf.SubspaceProjection(SHAPE, RANK), subspace),
}


@pytest.fixture(params=CELLS)
def cell(request):
    geometry, formula = CELLS[request.param]
    here = rf.Problem(COST, geometry).at(geometry.random_point(seed=1))
    xi = geometry.random_tangent(here.x, 2)
    return geometry, here, xi, formula(here.x, xi)


def test_gradient_is_the_table_s(cell):
    _, here, _, (gradient, _, _) = cell
    for part, formula in zip(here.gradient, gradient, strict=True):
        assert_allclose(part, formula, rtol=0, atol=1e-12)


def test_the_table_s_directional_derivative_is_that_of_the_gradient_field(cell):
    """By central differences of the formula itself: Ψ(D grad[ξ]), with no word from the library but Ψ."""
    geometry, here, xi, (_, along, _) = cell
    formula = next(formula for known, formula in CELLS.values() if known is geometry)

    def field(t):
        moved = type(here.x)(*(y + t * z for y, z in zip(here.x, xi, strict=True)))
        return formula(moved, xi)[0]

    step = 1e-5
    slopes = [(a - b) / (2 * step) for a, b in zip(field(step), field(-step), strict=True)]
    found = geometry.to_tangent(here.x, type(xi)(*slopes))
    for part, cell_s in zip(found, geometry.to_tangent(here.x, type(xi)(*along)), strict=True):
        assert_allclose(part, cell_s, rtol=0, atol=1e-7)


def test_hessian_is_the_tables_put_together(cell):
    """Hess = Π(Ψ(D grad[ξ] + A(ξ, grad))): equations Riemannian_connection and Riemannian_hessian."""
    geometry, here, xi, (_, along, added) = cell
    sums = type(xi)(*(a + b for a, b in zip(along, added, strict=True)))
    hessian = geometry.to_horizontal(here.x, geometry.to_tangent(here.x, sums))
    for part, formula in zip(here.hessian(xi), hessian, strict=True):
        assert_allclose(part, formula, rtol=0, atol=1e-12)


def test_a_full_column_rank_s_connection_is_the_table_s():
    Y, xi, eta = (RNG.standard_normal((5, 2)) for _ in range(3))
    from rankfold.geometry.spaces import FullColumnRank

    assert_allclose(FullColumnRank().connection(Y, xi, eta), full_column_rank(Y, xi, eta), rtol=0, atol=1e-12)


def test_a_gradient_on_diagonal_b_keeps_the_diagonal_only():
    """Section 6.3: B diag(UᵀSV) B."""
    geometry = rf.Polar(SHAPE, RANK, middle="diagonal")
    here = rf.Problem(COST, geometry).at(geometry.random_point(seed=1))
    U, B, V = here.x
    S, _ = slopes(U @ B @ V.T, 0)
    expected = B @ np.diag(np.diagonal(U.T @ S @ V)) @ B
    assert_allclose(here.gradient.B, expected, rtol=0, atol=1e-12)
