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
