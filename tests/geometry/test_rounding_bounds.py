"""What counts as rounding where the rank could be lost: in retractions, and in the nearest matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from rankfold.geometry.embedded import SVDTangent, _thin_factors
from rankfold.geometry.spaces import EuclideanFullColumnRank

EPS = float(np.finfo(np.float64).eps)


def test_a_retraction_that_loses_a_singular_value_keeps_the_rank():
    """W + ξ has the singular values 3, 1 and 0: the last becomes rounding of the first."""
    geometry = rf.Embedded((7, 6), 3)
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((d, 3)))[0] for d in (7, 6))
    x = geometry.from_svd(U, np.array([3.0, 1.0, 0.5]), V)
    y = geometry.retract(x, SVDTangent(np.diag([0.0, 0.0, -0.5]), 0 * U, 0 * V))
    assert_allclose(y.s[:2], [3.0, 1.0])
    assert y.s[2] == y.s[0] * EPS
    geometry.validate(y)


@pytest.mark.parametrize("side", [0, 1])
def test_directions_that_are_rounding_beside_the_largest_are_left_out(side):
    """Of 1, 300 and 30 roundings on one side, and of 1/2, 1/4 and 1/8 on the other."""
    rng = np.random.default_rng(0)
    Q, P = (np.linalg.qr(rng.standard_normal((d, 3)))[0] for d in (9, 8))
    lengths = [[1.0, 300 * EPS, 30 * EPS], [0.5, 0.25, 0.125]]
    few, all_of_it = (Z * length for Z, length in zip((Q, P), lengths, strict=True))
    parts = (few, all_of_it) if side == 0 else (all_of_it, few)
    thin = _thin_factors(SVDTangent(np.diag([1e-3, 0.0, 0.0]), *parts))
    ranks = [R.shape[0] for R, _ in thin]
    assert ranks == ([2, 3] if side == 0 else [3, 2])
    for (R, N), Z in zip(thin, parts, strict=True):
        B = Z @ N
        assert_allclose(B.T @ B, np.eye(len(R)), atol=1e-6)
        assert_allclose(B @ R, Z, atol=1e-12)


@pytest.mark.parametrize(("size", "ranks"), [(1e6, [1, 3]), (1.0, [2, 3])])
def test_what_is_rounding_beside_the_middle_is_left_out(size, ranks):
    rng = np.random.default_rng(0)
    Q, P = (np.linalg.qr(rng.standard_normal((d, 3)))[0] for d in (9, 8))
    xi = SVDTangent(np.diag([size, 0.0, 0.0]), Q * [1.0, 1e-9, 1e-17], P * [0.5, 0.25, 0.125])
    assert [len(R) for R, _ in _thin_factors(xi)] == ranks


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize(
    ("least", "kept"), [(300 * EPS, True), (30 * EPS, False), (-0.25, False), (-1e-3, False)]
)
def test_eigenvalues_that_are_not_positive_become_tiny_ones(unit, least, kept):
    """The nearest positive semidefinite matrix of diag(4, 2, 4 · least), in any unit."""
    geometry = rf.PositiveSemidefinite((5, 5), 3)
    values = unit * np.array([4.0, 2.0, 4 * least])
    U = np.eye(5)[:, :3]
    x = geometry.nearest(U, abs(values), U * np.where(values < 0, -1.0, 1.0))
    found = np.linalg.svd(x.Y, compute_uv=False) ** 2
    due = values[2] if kept else 4e-8 * unit
    assert_allclose(found, [values[0], values[1], due], rtol=1e-2)


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_may_lack_symmetry_by_half_of_its_digits(unit, dtype):
    """diag(a, b) times a rotation by θ: the skew part has the norm (a + b) sin θ / √2, which a divides."""
    geometry, (a, b) = rf.PositiveSemidefinite((3, 3), 2), (8.0, 0.5)
    for part, refused in ((0.8, False), (1.25, True)):
        θ = part * float(np.finfo(dtype).eps) ** 0.5 * 2**0.5 * a / (a + b)
        U, V = np.eye(3, 2), np.zeros((3, 2))
        V[:2] = [[np.cos(θ), -np.sin(θ)], [np.sin(θ), np.cos(θ)]]
        given = [Z.astype(dtype) for Z in (U, unit * np.array([a, b]), V)]
        if refused:
            with pytest.raises(ValueError, match=r"must be symmetric and positive semidefinite \(it is"):
                geometry.from_svd(*given)
        else:
            x = geometry.from_svd(*given)
            assert_allclose(x.Y @ x.Y.T, unit * np.diag([a, b, 0.0]), atol=1e-2 * unit)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_of_any_length_are_independent_above_eight_roundings_of_the_longest(dtype):
    eps = float(np.finfo(dtype).eps)
    for least, dependent in ((30 * eps, False), (3 * eps, True)):
        Y = (np.eye(4, 2) * [1.0, least]).astype(dtype)
        assert bool(EuclideanFullColumnRank().flaw(Y)) == dependent


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("geometry", [rf.Embedded, rf.Polar, rf.FullRank, rf.SubspaceProjection])
def test_factors_may_have_zeros(geometry):
    geometry = geometry((5, 4), 2)
    x = geometry.from_svd(np.eye(5, 2), np.array([3.0, 2.0]), np.eye(4, 2))
    xi = geometry.random_tangent(x, 0)
    zero = geometry.zero(x)
    assert all(np.all(part == 0) for part in zero)
    Ls, Rs = geometry.line(x, xi)
    W = np.diag([3.0, 2.0, 0, 0, 0])[:, :4]
    assert_allclose(Ls[0] @ Rs[0].T, W, atol=1e-14)
    dL, dR = geometry.tangent_factors(x, xi)
    L, R = geometry.factors(x)
    assert_allclose(Ls[1] @ Rs[0].T + Ls[0] @ Rs[1].T, dL @ R.T + L @ dR.T, atol=1e-14)
    y = geometry.retract(x, zero)
    A, B = geometry.factors(y)
    assert_allclose(A @ B.T, W, atol=1e-14)
    if geometry.has_lift:
        lifted = geometry.lift(x, dL, dR)
        assert all(np.all(np.isfinite(part)) for part in lifted)
