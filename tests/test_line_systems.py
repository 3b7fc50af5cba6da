"""Blocks of lines, inverted and applied: next to the inverses that NumPy makes of each."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rankfold.kernels.lanes import LANES
from rankfold.linalg.lines import Applied, applied, inverted
from rankfold.linalg.primitives import on_host


def drawn(lines, rank):
    rng = np.random.default_rng(rank)
    Q = rng.standard_normal((lines, rank, 2 * rank)) / (2 * rank) ** 0.5
    return Q @ Q.transpose(0, 2, 1), rng.standard_normal((rank, rank)), rng.standard_normal((lines, rank))


# Written out, with more rows than registers hold, and in a loop; each compiles two kernels.
@pytest.mark.parametrize(
    "rank", [1, 9, 22, *(pytest.param(r, marks=pytest.mark.soak) for r in (3, 4, 6, 15))]
)
def test_lines_of_a_group_have_nothing_to_do_with_each_other(rank):
    """Nor with places in a group where there are none."""
    lines = 2 * LANES + 3
    blocks, N, x = drawn(lines, rank)
    blocks[5] = 0  # a line without entries has its ridge alone
    ridge, given = 0.1 * np.arange(1, rank + 1), blocks.copy()
    inverse = inverted(blocks, 2.0, ridge, 1e-15)
    assert inverse.nbytes == 3 * LANES * 2 * rank * (rank + 1)
    assert not inverse[2, :, 3:].any()
    assert_array_equal(blocks, given)
    (found,) = applied(Applied(inverse, N, x))
    exact = np.linalg.inv(2 * blocks + np.diag(ridge))
    assert_allclose(found, np.einsum("mn,ink,jk,ij->im", N, exact, N, x), rtol=2e-5, atol=2e-5)
    alone = inverted(blocks[LANES : LANES + 1], 2.0, ridge, 1e-15)
    assert_array_equal(applied(Applied(alone, N, x[LANES : LANES + 1]))[0][0], found[LANES])


def test_a_pivot_that_is_rounding_is_left_out():
    inverse = inverted(np.array([[[4.0, 2.0], [2.0, 1.0]]]), 1.0, np.zeros(2), 1e-12)
    (found,) = applied(Applied(inverse, np.eye(2), np.array([[1.0, 1.0]])))
    assert_allclose(found, [[0.25, 0.0]])


# What is lost, in parts, and the unknowns that are left.
PIVOTS = [(0.9e-3, [0, 1, 2]), (1.1e-3, [0, 2]), (0.5, [0, 2]), (0.9, [0])]


def leaves_out_what_is_lost(lost, kept, brought):
    """Beside the first unknown the second has 10⁻³ of its diagonal entry left, the third most, or a half."""
    A = np.array([[4.0, 2.0, 1.0], [2.0, 1.0 + 1e-3, 0.5], [1.0, 0.5, 3.0 if 2 in kept else 0.5]])
    scale, ridge, N = 2.0, np.array([0.5, 0.1, 0.25]), np.eye(3) + 0.1
    block, x = (A - np.diag(ridge)) / scale, np.array([[1.0, -2.0, 3.0]])
    exact = np.zeros((3, 3))
    exact[np.ix_(kept, kept)] = np.linalg.inv(A[np.ix_(kept, kept)])
    (found,) = applied(Applied(inverted(brought(block[None]), scale, ridge, lost), N, brought(x)))
    assert_allclose(on_host(found), x @ N @ exact @ N.T, rtol=1e-3)


@pytest.mark.parametrize(("lost", "kept"), PIVOTS)
def test_what_is_lost_of_a_pivot_is_a_part_of_its_diagonal_entry(lost, kept):
    leaves_out_what_is_lost(lost, kept, np.asarray)
