"""Random points and tangents: whose numbers they are, and that no two of them share any."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from geometry.variants import VARIANTS, dense, every
from rankfold.geometry import base
from rankfold.geometry.base import lincomb, own_stream, scale
from rankfold.geometry.product import random_invertible, random_orthogonal, random_signed_permutation
from rankfold.geometry.spaces import Stiefel


@every
def test_a_random_point_is_a_product_of_normal_numbers_of_its_own_stream(name):
    geometry, rng = VARIANTS[name]((6, 5), 2), np.random.default_rng((7, 1))
    A = rng.standard_normal((6, 2))
    B = A if geometry.symmetric else rng.standard_normal((5, 2))
    assert_allclose(dense(geometry, geometry.random_point(7)), A @ B.T, atol=1e-13 * np.abs(A @ B.T).max())


@pytest.mark.parametrize("name", ["GH-preconditioned", "YY-euclidean", "embedded"])
def test_a_random_tangent_is_made_of_another_stream(name):
    geometry, rng = VARIANTS[name]((6, 5), 2), np.random.default_rng((7, 2))
    x = geometry.random_point(7)
    z = type(geometry.zero(x))(*(rng.standard_normal(part.shape) for part in geometry.zero(x)))
    xi = geometry.to_horizontal(x, geometry.to_tangent(x, z))
    due = scale(1 / geometry.norm(x, xi), xi)
    for found, part in zip(geometry.random_tangent(x, 7), due, strict=True):
        assert_allclose(found, part, atol=1e-14)


def test_streams_of_a_seed_have_their_own_numbers_and_without_one_nobody_knows_them():
    drawn = [own_stream(seed, stream).random() for seed, stream in ((0, 1), (0, 2), (1, 1), (1, 2))]
    assert drawn == [np.random.default_rng(key).random() for key in ((0, 1), (0, 2), (1, 1), (1, 2))]
    assert len(set(drawn)) == 4
    assert own_stream(None, 1).random() != own_stream(None, 1).random()


def test_without_a_seed_no_two_points_or_tangents_are_the_same():
    geometry = rf.FullRank((4, 3), 2)
    x, y = geometry.random_point(), geometry.random_point()
    assert not np.array_equal(x.G, y.G)
    assert not np.array_equal(geometry.random_tangent(x).G, geometry.random_tangent(x).G)


@pytest.mark.parametrize("a", [1.0, -1.0, 2.0, 0.0, -2.0])
@pytest.mark.parametrize("b", [1.0, -1.0, 2.0, 0.0, -2.0])
def test_combinations_are_those_of_each_field(a, b):
    xi = rf.SubspaceProjection((2, 2), 1).point_type(np.array([1.0, 4.0]), np.array([-3.0, 5.0]))
    eta = type(xi)(np.array([2.0, -7.0]), np.array([0.5, 11.0]))
    found = lincomb(a, xi, b, eta)
    assert type(found) is type(xi)
    assert_array_equal(found.U, a * xi.U + b * eta.U)
    assert_array_equal(found.Y, a * xi.Y + b * eta.Y)
    assert_array_equal(scale(a, xi).U, a * xi.U)
    assert_array_equal(scale(a, xi).Y, a * xi.Y)


def test_random_symmetries_are_those_of_their_groups_and_of_their_seeds():
    for make in (random_invertible, random_orthogonal, random_signed_permutation):
        assert_array_equal(make(4, 3), make(4, 3))
        assert not np.array_equal(make(4, 3), make(4, 4))
    assert_array_equal(random_invertible(4, 3), np.random.default_rng(3).standard_normal((4, 4)))
    # The Q of a QR decomposition whose R has a positive diagonal is uniform (Haar), and no other one is.
    O = random_orthogonal(4, 3)
    assert_allclose(O.T @ O, np.eye(4), atol=1e-14)
    R = O.T @ random_invertible(4, 3)
    assert_allclose(np.tril(R, -1), 0, atol=1e-14)
    assert np.all(np.diagonal(R) > 0)


class Plain(rf.Embedded):
    """Says nothing of itself."""


def test_what_a_geometry_is_unless_it_says_so():
    base = rf.geometry.Geometry
    assert (base.straight, base.second_order, base.symmetric, base.has_factors) == (False,) * 4
    assert base.has_lift
    assert base.small_fields is None
    assert rf.Embedded.small_fields == ("s", "M")
    assert Plain.small_fields is None  # its formulas may be of another kind


@pytest.mark.parametrize("name", [name for name in VARIANTS if VARIANTS[name].is_quotient])
def test_a_vector_is_horizontal_or_vertical_up_to_a_part_of_its_length(name):
    geometry = VARIANTS[name]((6, 5), 2)
    x = geometry.random_point(0)
    xi = geometry.random_tangent(x, 1)
    nu = geometry.vertical(x, np.array([[0.0, 1.0], [-1.0, 0.0]]))
    nu = scale(1 / geometry.norm(x, nu), nu)
    for length in (1e3, 1e-3):
        for part, negligible in ((3e-8, False), (3e-9, True)):
            assert geometry.is_horizontal(x, lincomb(length, xi, part * length, nu)) == negligible
            assert geometry.is_vertical(x, lincomb(length, nu, part * length, xi)) == negligible
        assert geometry.is_horizontal(x, lincomb(length, xi, 0.3 * length, nu), tolerance=0.5)
        assert geometry.is_vertical(x, lincomb(length, nu, 0.3 * length, xi), tolerance=0.5)
    nothing = geometry.zero(x)
    assert geometry.is_horizontal(x, nothing)
    assert geometry.is_vertical(x, nothing)


def test_orthonormal_columns_may_be_off_by_half_of_the_digits():
    for dtype in (np.float32, np.float64):
        off = float(np.finfo(dtype).eps) ** 0.5
        U = np.eye(3, 2, dtype=dtype)
        U[2, 1] = (0.9 * off) ** 0.5
        assert Stiefel().flaw(U) == ""
        U[2, 1] = (1.1 * off) ** 0.5
        assert "must have orthonormal columns (off by" in Stiefel().flaw(U)


def test_of_rows_that_processes_share_each_draws_its_own(monkeypatch):
    """By who knows which rows these are, told the shape of the whole."""
    told, like = [], object()
    monkeypatch.setattr(base, "is_spread", lambda array: array is like)
    monkeypatch.setattr(base, "normal_like", lambda *given: told.append(given) or "rows")
    rng = np.random.default_rng(0)
    assert base.normal(rng, (5, 2), like) == "rows"
    assert told == [(rng, (5, 2), like)]
    due = np.random.default_rng(0).standard_normal((5, 2))
    assert_array_equal(base.normal(rng, (5, 2), None), due)
    single = base.normal(np.random.default_rng(0), (5, 2), np.zeros(1, np.float32))
    assert_array_equal(single, due.astype(np.float32))


def test_which_geometries_keep_the_factors_and_which_can_be_lifted_to():
    found = {name: VARIANTS[name].example for name in VARIANTS}
    assert {name for name in found if found[name].has_factors} == {
        "GH-euclidean", "YY-invariant", "YY-preconditioned", "YY-euclidean",
    }  # fmt: skip
    assert {name for name in found if not found[name].has_lift} == {"UBV-diagonal"}
    assert {name for name in found if found[name].symmetric} == {name for name in found if name[:2] == "YY"}
    assert {name for name in found if found[name].straight} == {
        name for name in found if name[:2] in ("GH", "YY")
    }
