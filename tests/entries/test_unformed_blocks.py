"""Blocks that are inverted as they are formed: next to those that are all there."""

from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from entries.stores import draw, factors, in_memory, in_stripes
from rankfold.costs.factor_ridge import FactorRidge
from rankfold.entries.block_groups import UnformedBlocks
from rankfold.kernels import layout
from rankfold.kernels.line_blocks import LANES
from rankfold.linalg.lines import diagonal_sums, inverted

SHAPE = 21, 70  # no multiples of the lines of a group
SQUARE = rf.Loss.named("square")


@pytest.fixture(autouse=True)
def many_entries():
    with mock.patch.object(layout, "FEW", 0):
        yield


def store(build=in_memory, **options):
    return build(draw(0, *SHAPE, **options))


def same(blocks, others, tolerance=1e-6):
    ridge = np.linspace(0.1, 0.2, blocks.shape[1])
    assert blocks.shape == others.shape
    assert_allclose(diagonal_sums(blocks), diagonal_sums(others), rtol=tolerance)
    inverse = inverted(blocks, 3.0, ridge, 1e-13)
    assert_allclose(inverse, inverted(others, 3.0, ridge, 1e-13), rtol=1e-4, atol=tolerance)
    assert not inverse[-1, :, blocks.shape[0] % LANES :].any()  # of no lines


@pytest.mark.parametrize(("build", "rank"), [(in_memory, 3), (in_memory, 9), (in_stripes, 9)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_they_are_those_that_are_formed_first(build, rank, dtype):
    entries = store(build).astype(dtype)
    L, R = (Z.astype(dtype) for Z in factors(SHAPE, rank, count=1))
    unformed = entries.unformed_blocks(L, R, SQUARE)
    assert all(type(side) is UnformedBlocks for side in unformed)
    for side, formed in zip(unformed, entries.blocks(L, R, SQUARE), strict=True):
        same(side, formed, 1e-6 if dtype == np.float64 else 1e-5)


def test_a_ridge_is_added_when_they_are_inverted():
    cost = FactorRidge(rf.Completion.from_observed(store()), np.linspace(0.5, 1.0, 9))
    L, R = factors(SHAPE, 9, count=1)
    for side, formed in zip(cost.blocks_to_invert(L, R), cost.line_blocks(L, R), strict=True):
        same(side, formed)


@pytest.mark.parametrize(
    ("entries", "loss", "rank"),
    [
        (store(weighted=True), "square", 9),
        (store(), "huber", 9),
        (store(in_stripes), "square", 3),  # gathered from near, stripe by stripe
    ],
)
def test_others_are_formed_first(entries, loss, rank):
    cost = rf.Completion.from_observed(entries, rf.Loss.named(loss))
    L, R = factors(SHAPE, rank, count=1)
    assert all(type(side) is np.ndarray for side in cost.blocks_to_invert(L, R))


def test_few_share_their_kernels():
    L, R = factors(SHAPE, 9, count=1)
    with mock.patch.object(layout, "FEW", 100_000):
        assert store().unformed_blocks(L, R, SQUARE) is None


def test_bits_do_not_depend_on_the_threads(monkeypatch):
    L, R = factors(SHAPE, 9, count=1)
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("RANKFOLD_NUM_THREADS", threads)
        monkeypatch.setattr("rankfold.kernels.pool.WORTH_A_HELPER", 1)
        sides = store().unformed_blocks(L, R, SQUARE)
        found.append([side.inverted(3.0, np.ones(9), 1e-13) for side in sides])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
