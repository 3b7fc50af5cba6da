"""What a user may get wrong is said at once, with the argument's name and the remedy."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import rankfold as rf
from dense import DenseCost
from geometry.variants import VARIANTS, every
from rankfold.geometry.spaces import (
    EuclideanFullColumnRank,
    PositiveDefinite,
    PositiveDiagonal,
    PositiveVector,
    Stiefel,
)


@every
@pytest.mark.parametrize("rank", [0, -1, 6, 2.5])
def test_rank(name, rank):
    with pytest.raises(ValueError, match=r"rank must be an integer between 1 and min\(shape\) = 5"):
        VARIANTS[name]((5, 9), rank)


@every
@pytest.mark.parametrize("shape", [(5,), (0, 4), (3, -2), (2.5, 4)])
def test_shape(name, shape):
    with pytest.raises(ValueError, match="shape must be two positive integers"):
        VARIANTS[name].make(shape, 1)


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (1, 1), (4.0, 3.0)])
def test_lines_may_be_one_and_numbers_of_any_type_that_are_whole(shape):
    geometry = rf.FullRank(shape, 1.0)
    assert repr(geometry) == f"FullRank({tuple(map(int, shape))}, rank=1, metric='invariant')"
    assert geometry.with_rank(min(shape)).rank == min(shape)
    assert repr(rf.Embedded(shape, 1.0)) == f"Embedded({tuple(map(int, shape))}, rank=1)"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rf.FullRank((4, 4), 2, metric="flat"), "metric must be one of 'invariant'"),
        (lambda: rf.SubspaceProjection((4, 4), 2, metric="flat"), "metric must be one of 'invariant'"),
        (lambda: rf.Polar((4, 4), 2, middle="full"), "middle must be one of 'spd'"),
        (lambda: rf.PositiveSemidefinite((4, 4), 2, metric="flat"), "metric must be one of 'invariant'"),
        (lambda: rf.PositiveSemidefinite((4, 5), 2), r"shape must be square, .* got \(4, 5\)"),
    ],
)
def test_variant(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@every
def test_points_of_the_wrong_shape_or_length(name):
    geometry = VARIANTS[name]((6, 5), 2)
    x = geometry.random_point(0)
    with pytest.raises(ValueError, match="has the fields"):
        geometry.validate(x[:-1])
    field = x._fields[0]
    with pytest.raises(ValueError, match=rf"{field} must have shape \(6, 2\), not \(5, 2\)"):
        geometry.validate(x._replace(**{field: x[0][:-1]}))


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_entries_that_are_not_finite(name, bad):
    geometry = VARIANTS[name]((6, 5), 2)
    x = geometry.random_point(0)
    for field in x._fields:
        broken = np.array(getattr(x, field))
        broken.flat[0] = bad
        with pytest.raises(ValueError, match=f"{field} has entries that are NaN or infinite"):
            geometry.validate(x._replace(**{field: broken}))


BREAK = {
    Stiefel: (lambda U: 2 * U, "must have orthonormal columns .* take Q of its QR"),
    EuclideanFullColumnRank: (lambda Y: Y[:, [0, 0]], "must have linearly independent columns"),
    PositiveVector: (lambda s: s * [1.0, 0.0], r"must be positive .* lower `rank`"),
}


@pytest.mark.parametrize(
    "columns", [[[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]], [[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]]]
)
def test_columns_that_cancel_exactly_depend_on_each_other(columns):
    """There is no rounding to tell them by."""
    assert "independent" in EuclideanFullColumnRank().flaw(np.array(columns))


@every
def test_fields_that_are_not_in_their_space(name):
    geometry = VARIANTS[name]((6, 5), 2)
    x = geometry.random_point(0)
    for field, space in zip(x._fields, geometry.spaces(), strict=True):
        for broken, words in (breaking for kind, breaking in BREAK.items() if isinstance(space, kind)):
            with pytest.raises(ValueError, match=f"{field} {words}"):
                geometry.validate(x._replace(**{field: broken(getattr(x, field))}))


def test_columns_that_depend_on_others_are_told_on_any_machine():
    rng = np.random.default_rng(0)
    for rank in (3, 10, 30):
        for _ in range(20):
            Y = rng.standard_normal((50, rank)) * np.logspace(0, -rng.uniform(0, 6), rank)
            assert not EuclideanFullColumnRank().flaw(Y)
            Y[:, -1] = Y[:, :-1] @ rng.standard_normal(rank - 1)
            assert EuclideanFullColumnRank().flaw(Y)


@pytest.mark.parametrize(
    ("name", "B", "words"),
    [
        ("UBV-spd", [[1.0, 0.5], [0.0, 1.0]], "B must be symmetric"),
        ("UBV-spd", [[1.0, 2.0], [2.0, 1.0]], "B must be positive definite .* least eigenvalue is -1.0e"),
        ("UBV-spd", [[0.0, 0.0], [0.0, 0.0]], "B must be positive definite .* eigenvalue is 0.0e"),
        ("UBV-diagonal", [[1.0, 0.5], [0.5, 1.0]], "B must be diagonal"),
        ("UBV-diagonal", [[1.0, 0.0], [0.0, 0.0]], "B must have a positive diagonal"),
        ("UBV-diagonal", [[1.0, 0.0], [0.0, -1.0]], "B must have a positive diagonal"),
    ],
)
def test_b_that_is_not_in_its_space(name, B, words):
    geometry = VARIANTS[name]((6, 5), 2)
    with pytest.raises(ValueError, match=words):
        geometry.validate(geometry.random_point(0)._replace(B=np.array(B)))


@every
def test_from_svd_checks_what_it_is_given(name):
    geometry = VARIANTS[name]((6, 5), 2)
    U, V = (np.eye(d)[:, :2] for d in geometry.shape)
    with pytest.raises(ValueError, match="U must have orthonormal columns"):
        geometry.from_svd(U * 3, np.ones(2), V)
    with pytest.raises(ValueError, match=rf"V must have shape \({geometry.shape[1]}, 2\)"):
        geometry.from_svd(U, np.ones(2), np.eye(7)[:, :2])
    with pytest.raises(ValueError, match="s must be positive"):
        geometry.from_svd(U, np.array([1.0, -1.0]), V)


def test_problem_of_two_shapes():
    with pytest.raises(ValueError, match=r"cost.shape \(4, 5\) and geometry.shape \(5, 4\) differ"):
        rf.Problem(DenseCost((4, 5)), rf.Embedded((5, 4), 2))


@every
def test_geometries_can_be_pickled_and_shown(name):
    geometry = VARIANTS[name]((6, 5), 2)
    again = pickle.loads(pickle.dumps(geometry))
    assert repr(again) == repr(geometry)
    assert type(again) is type(geometry)
    x = geometry.random_point(0)
    assert again.norm(x, again.random_tangent(x, 0)) == pytest.approx(1)


def test_checks_find_a_wrong_hessian_and_a_wrong_projection(monkeypatch):
    """With the misprinted Skew of the paper, and without the A-term of the connection."""
    geometry = rf.Polar((6, 5), 3)
    monkeypatch.setattr("rankfold.geometry.polar.skew", lambda A: (A.T - A) / 2)
    assert not rf.check_geometry(geometry).ok
    monkeypatch.undo()
    problem = rf.Problem(DenseCost((6, 5)), rf.FullRank((6, 5), 2))
    assert rf.check_hessian(problem).ok
    monkeypatch.setattr("rankfold.geometry.spaces.FullColumnRank.connection", lambda *_: 0.0)
    check = rf.check_hessian(problem)
    assert not check.ok
    assert "WRONG" in str(check)


@pytest.mark.parametrize("kind", [rf.FullRank, rf.SubspaceProjection, rf.PositiveSemidefinite])
def test_a_geometry_knows_its_metric(kind):
    default, euclidean = kind((5, 5), 2), kind((5, 5), 2, metric="euclidean")
    assert (default.metric, euclidean.metric) == (default.option["metric"], "euclidean")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_spaces_end_where_their_flaws_begin(dtype):
    rounding = float(np.finfo(dtype).eps) ** 0.5
    space, skewed = PositiveDefinite(), np.array([[0.0, 1.0], [0.0, 0.0]], dtype)
    for scale in (1.0, 100.0):
        B = scale * np.eye(2, dtype=dtype)
        assert not space.flaw(B + dtype(0.9 * rounding * scale) * skewed)
        assert "must be symmetric" in space.flaw(B + dtype(1.1 * rounding * scale) * skewed)
    assert not space.flaw(np.diag([1.0, 1e-30]).astype(dtype))
    for least in (0.0, -1e-30):
        assert "must be positive definite" in space.flaw(np.diag([1.0, least]).astype(dtype))
        assert "must have a positive diagonal" in PositiveDiagonal().flaw(np.diag([1.0, least]).astype(dtype))
        assert "must be positive" in PositiveVector().flaw(np.array([1.0, least], dtype))
    tiny = np.array([1.0, 1e-30], dtype)
    assert PositiveDiagonal().flaw(np.diag(tiny)) == PositiveVector().flaw(tiny) == ""
    assert "must be diagonal" in PositiveDiagonal().flaw(np.eye(2, dtype=dtype) + dtype(1e-30) * skewed)
