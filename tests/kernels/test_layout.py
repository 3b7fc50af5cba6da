"""How many columns kernels are given, and that columns of zeros come and go without a trace."""

import numpy as np
import pytest

from rankfold.kernels import layout


@pytest.mark.parametrize(
    ("rank", "width"), [(1, 8), (7, 8), (8, 8), (9, 16), (16, 16), (17, 24), (40, 40), (41, 48)]
)
def test_few_entries_share_kernels_of_a_few_widths(rank, width):
    assert layout.width_for(rank, 10) == layout.width_for(rank, layout.FEW) == width
    assert layout.width_for(rank, layout.FEW + 1) == rank


@pytest.mark.parametrize(
    ("length", "ahead"), [(1, 20), (51, 20), (52, 19), (100, 10), (340, 3), (512, 2), (5000, 2)]
)
def test_rows_are_asked_for_as_far_ahead_as_their_length_allows(length, ahead):
    assert layout.ahead_by(length) == ahead


@pytest.mark.parametrize(
    ("rank", "terms", "members", "found"),
    [(16, 3, 1, (3, 1, 48)), (5, 1, 1, (1, 1, 5)), (17, 3, 3, (1, 0, 17))],
)
def test_rows_of_low_rank_lie_side_by_side(rank, terms, members, found):
    arrays = np.random.default_rng(0).standard_normal((terms, 4, rank))
    step, shift, width = layout.places(rank, terms)
    assert (step, shift, width) == found
    made = layout.laid_out(*arrays)
    assert len({id(array) for array in made}) == members
    for k, i in np.ndindex(terms, 4):
        rows = made[min(k, members - 1)].reshape(-1, rank)
        np.testing.assert_array_equal(rows[int(step) * i + int(shift) * k], arrays[k, i])


def test_columns_of_zeros():
    A = np.arange(6, dtype=np.float32).reshape(3, 2)
    wide, again = layout.widened(5, A, A + 1)
    assert wide.dtype == np.float32
    np.testing.assert_array_equal(wide, np.column_stack([A, np.zeros((3, 3))]))
    np.testing.assert_array_equal(again[:, :2], A + 1)
    back = layout.narrowed(2, wide)
    np.testing.assert_array_equal(back, A)
    assert back.flags["C_CONTIGUOUS"]


def test_arrays_of_that_width_are_themselves():
    A = np.ones((3, 4))
    (same,) = layout.widened(4, A)
    assert same is A
    assert layout.narrowed(4, A) is A
