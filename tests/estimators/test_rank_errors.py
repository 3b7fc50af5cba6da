"""The rank by held-out losses: which ranks are tried, and which of them is taken."""

import numpy as np
import pytest

from rankfold.estimators.rank_errors import choose_rank

NOISE = np.random.default_rng(0).standard_normal(100)


def chosen(errors, largest=12, spread=0.0):
    """Choose by losses of these means; those of ranks above the first differ from it by `spread`, in part."""
    other = np.random.default_rng(1).standard_normal(100)
    other -= other.mean()

    def losses(rank):
        return errors[rank] + NOISE - NOISE.mean() + spread * other * (rank > 1)

    return choose_rank(largest, losses, verbose=0)


def test_ranks_grow_by_half_or_a_third_up_to_the_largest():
    assert chosen(1 / np.arange(1, 60), largest=50).ranks == (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 50)
    assert chosen(np.ones(9), largest=1).ranks == (1,)


def test_the_path_ends_after_two_ranks_that_are_no_better():
    path = chosen([9.0, 5.0, 4.0, 4.5, 4.4, 4.3, 1.0, 1.0])
    assert path.ranks == (1, 2, 3, 4)
    assert path.errors == pytest.approx((5.0, 4.0, 4.5, 4.4))
    assert path.chosen == 2


@pytest.mark.parametrize(("gain", "rank"), [(0.05, 1), (0.2, 2)])
def test_a_larger_rank_has_to_gain_more_than_the_standard_error_of_its_gain(gain, rank):
    path = chosen([9.0, 5.0, 5.0 - gain, 5.1, 5.2], spread=1.0)  # the gain's standard error is about 0.1
    assert path.chosen == rank
    np.testing.assert_allclose(path.standard_errors[0], NOISE.std() / 10)
    assert [line.endswith("<- chosen") for line in str(path).splitlines()[1:]].index(True) == rank - 1


def test_the_path_is_drawn():
    axes = chosen([9.0, 5.0, 4.0, 4.5, 4.4]).plot()
    assert axes.get_legend_handles_labels()[1] == ["chosen: 2"]
