"""Points and tangents as sums yet to be made: which fields are, and what is learnt at once."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

import rankfold as rf
from rankfold.geometry import base
from rankfold.geometry import lazily as module
from rankfold.geometry.lazily import introduce, lazily, made, takes_sums
from rankfold.linalg.tall import Tall


@pytest.mark.parametrize(
    ("geometry", "tall"),
    [(rf.FullRank, "GH"), (rf.Embedded, "UV"), (rf.Polar, "UV"), (rf.SubspaceProjection, "UY")],
)
def test_tall_fields_are_lazy_and_small_ones_are_not(geometry, tall):
    geometry = geometry((9, 7), 2)
    x = geometry.random_point(0)
    z = lazily(geometry, x)
    assert type(z) is type(x)
    assert "".join(name for name in z._fields if isinstance(getattr(z, name), Tall)) == tall
    assert lazily(geometry, z) is z
    back = made(z, x[0])
    for found, due in zip(back, x, strict=True):
        assert type(found) is np.ndarray
        assert_array_equal(found, due)
    assert made(x, x[0]) is x


def test_formulas_that_want_arrays_get_them():
    geometry = rf.PositiveSemidefinite((5, 5), 2)
    x = geometry.random_point(0)
    assert not takes_sums(geometry)
    assert not takes_sums(SimpleNamespace())
    assert takes_sums(rf.FullRank((5, 5), 2))
    assert lazily(geometry, x) is x


def test_small_fields_come_back_in_the_library_of_the_others():
    geometry = rf.Embedded((9, 7), 2)
    x = geometry.random_point(0)
    U, V = (torch.asarray(part, dtype=torch.float32) for part in (x.U, x.V))
    back = made(type(x)(Tall.of(U), x.s, Tall.of(V)), U)
    assert all(isinstance(part, torch.Tensor) and part.dtype == torch.float32 for part in back)
    np.testing.assert_allclose(back.s, x.s, rtol=1e-6)


def test_all_that_will_be_multiplied_is_learnt_in_one_pass_over_each_side(monkeypatch):
    """Of each pair, the first fields with each other and the second; arrays know their products anyway."""
    told = []
    monkeypatch.setattr(module, "learn", lambda *sides: told.append(sides))
    A, B, C, D = (Tall.of(np.full((5, 2), float(k))) for k in range(4))
    E, F = A + B, C - D
    introduce(((A, "small", B), (C, D)), ((E, C), (F, np.zeros((5, 2)), A)))
    ((left, right),) = told
    assert len(left) == 1 + 2 * 2
    assert len(right) == 1 + 1
    assert left[0] == (next(iter(A.terms)), next(iter(C.terms)))
    assert right[0] == (next(iter(B.terms)), next(iter(D.terms)))
    assert right[1] == (next(iter(C.terms)), next(iter(A.terms)))
    assert set(left[1:]) == {(one, other) for one in E.terms for other in F.terms}


def test_of_a_tall_field_on_a_gpu_only_its_gram_is_fetched(monkeypatch):
    """Small ones, square ones and vectors are looked at whole."""
    embedded, fetched = rf.Embedded((9, 3), 3), []
    x = embedded.random_point(0)
    monkeypatch.setattr(base.on_gpu, "holds", lambda y: True)
    monkeypatch.setattr(base, "on_host", lambda y: fetched.append(y.shape) or y)
    embedded.validate(x)
    assert fetched == [(3,), (3, 3)]
    with pytest.raises(ValueError, match="U has entries that are NaN or infinite"):
        embedded.validate(x._replace(U=np.where(np.eye(9, 3) == 1, np.nan, x.U)))
    with pytest.raises(ValueError, match="U must have orthonormal columns"):
        embedded.validate(x._replace(U=2 * x.U))
