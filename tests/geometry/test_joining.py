"""Every geometry can be subclassed, and a new one gets its tests by joining `VARIANTS` alone."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import product
from typing import ClassVar

import numpy as np
import pytest

import rankfold as rf
from dense import DenseCost
from geometry import (
    test_backends,
    test_errors,
    test_hessians,
    test_ill_conditioned,
    test_properties,
    test_tables,
)
from geometry.variants import VARIANTS, Variant, option, straight, weighted_metric
from rankfold.geometry.product import Structure, random_orthogonal
from rankfold.geometry.spaces import EuclideanFullColumnRank


class Quadrupled(EuclideanFullColumnRank):
    """The metric 4 Tr(ξᵀη)."""

    def inner(self, Y, xi, eta):
        return 4 * super().inner(Y, xi, eta)

    def gradient(self, Y, phi):
        return phi / 4

    def lowered(self, Y, xi):
        return 4 * xi

    def hessian(self, Y, xi, phi, dphi):
        return dphi / 4


class WithOwnMetric(rf.FullRank):
    """A metric more among the options."""

    structures: ClassVar = {
        **rf.FullRank.structures,
        "quadrupled": Structure((Quadrupled(),) * 2, None, random_orthogonal, second_order=True),
    }


class Orthographic(rf.Embedded):
    """Another retraction, of Absil and Oseledets (2015)."""

    def retract(self, x, xi):
        S = x.s[:, None] * (x.s[:, None] == x.s) + xi.M
        return self.from_factors((x.U @ S + xi.Up) @ np.linalg.inv(S), x.V @ S.T + xi.Vp)


class OwnPolar(rf.Polar):
    """A subclass that changes nothing."""


class OwnSemidefinite(rf.PositiveSemidefinite):
    """A subclass that changes nothing."""


class OwnSubspace(rf.SubspaceProjection):
    """A subclass that changes nothing."""


NEW = {
    "own metric": Variant(
        option(WithOwnMetric, metric="quadrupled"),
        weighted_metric(lambda G, H: (4 * np.eye(G.shape[1]),) * 2),
        straight,
    ),
    **{
        f"subclass of {name}": replace(VARIANTS[name], make=option(own, **VARIANTS[name].example.option))
        for own, names in {
            WithOwnMetric: ("GH-invariant", "GH-preconditioned"),
            OwnPolar: ("UBV-spd", "UBV-diagonal"),
            OwnSubspace: ("UY-invariant", "UY-euclidean"),
            OwnSemidefinite: ("YY-invariant", "YY-preconditioned", "YY-euclidean"),
        }.items()
        for name in names
    },
}
SUITE = [
    test
    for module in (
        test_properties,
        test_hessians,
        test_tables,
        test_backends,
        test_errors,
        test_ill_conditioned,
    )
    for test in vars(module).values()
    if hasattr(test, "kind")
]


def test_the_suite_is_found():
    assert len(SUITE) > 30


@pytest.mark.parametrize("test", SUITE, ids=lambda test: test.__name__)
def test_a_geometry_gets_the_suite_by_joining(test, monkeypatch):
    monkeypatch.setitem(VARIANTS, "new", NEW["own metric"])
    if test.kind(VARIANTS["new"]):
        marks = {mark.args[0]: mark.args[1] for mark in test.pytestmark if mark.args[0] != "name"}
        for values in product(*marks.values()):
            test(name="new", **dict(zip(marks, values, strict=True)))


@pytest.mark.parametrize("name", NEW)
def test_subclasses_pass_the_checks(name):
    make = NEW[name]
    for shape, rank in [((8, 6), 3), ((3, 9), 3), ((5, 5), 1)]:
        geometry = make(shape, rank)
        assert rf.check_geometry(geometry, seed=1).ok
        problem = rf.Problem(DenseCost(geometry.shape), geometry)
        assert rf.check_gradient(problem, seed=1).ok
        assert rf.check_hessian(problem, seed=1).ok


@pytest.mark.parametrize("make", [*NEW.values(), Orthographic], ids=[*NEW, "orthographic"])
def test_subclasses_keep_their_name_and_options(make):
    geometry = make((6, 5), 2)
    for again in (geometry, pickle.loads(pickle.dumps(geometry)), geometry.with_rank(3)):
        assert type(again) is type(geometry)
        assert type(again).__name__ in repr(again)
        assert repr(again).replace("rank=3", "rank=2") == repr(geometry)


def test_another_retraction_is_checked_as_such():
    assert rf.check_geometry(Orthographic((8, 6), 3)).ok


def test_types_and_names_are_public():
    for variant in VARIANTS.values():
        geometry = variant.example
        assert type(geometry) is getattr(rf, type(geometry).__name__)
        assert repr(geometry).startswith(f"{type(geometry).__name__}({variant.shape((6, 5))}, rank=2")


def test_the_options_of_a_subclass_are_named_in_errors():
    with pytest.raises(ValueError, match=r"metric must be one of .*'quadrupled', not 'flat'"):
        WithOwnMetric((4, 4), 2, metric="flat")


def test_a_wrong_geometry_that_joins_fails(monkeypatch):
    """The suite can fail: with a retraction that is not the one declared."""
    monkeypatch.setitem(VARIANTS, "new", replace(VARIANTS["embedded"], make=Orthographic))
    with pytest.raises(AssertionError):
        test_ill_conditioned.test_retraction_is_finite_and_accurate(name="new", condition=1e6)
