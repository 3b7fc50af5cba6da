"""Steps of Newton's method for lines: what curvature is believed, and which lines are done."""

import numpy as np
import pytest

import rankfold as rf
from rankfold.entries.ordering import sorted_entries
from rankfold.estimators.completion.convex_lines import ConvexLines


def lines_of(line, values, count, loss="huber", ridge=0.5):
    side = sorted_entries(
        np.array(line), np.zeros(len(line), int), np.array(values), (count, 1), np.uint32, 1
    )
    return ConvexLines(side, rf.Loss.named(loss), np.ones((1, 1)), np.full((count, 1), ridge))


def test_the_least_curvature_is_a_part_of_the_mean_of_a_line_or_of_next_to_none_of_all():
    lines = lines_of([0, 1, 1, 3], [1.0, 2.0, 3.0, 4.0], 5)
    found = lines._least(np.array([4.0, -7.0, 2.0, 0.0]))  # means of 4, 1 and 0 each, of 1.5 in all
    np.testing.assert_allclose(found, [0.12, 0.03, 0.03, 0.03 * 1e-3 * 1.5], rtol=1e-12)
    np.testing.assert_array_equal(lines._least(np.array([0.0, -1.0, 0.0, 0.0])), 1.0)  # none is known


@pytest.mark.parametrize("loss", ["huber", "poisson"])
def test_lines_at_their_minimum_are_done_and_so_are_those_without_entries(loss):
    lines = lines_of([0, 0, 2], [1.0, 2.0, 4.0], 4, loss)
    x = lines.minimised()
    again, moved = lines._stepped(x)
    assert not moved.any()
    np.testing.assert_allclose(again, x, atol=1e-6)
    assert (x[[1, 3]] == 0).all()
    x[0] += 0.5
    _, moved = lines._stepped(x)
    assert moved.tolist() == [True, False, False, False]


def test_no_line_is_worse_after_a_step_that_is_halved():
    """exp(x) − 300 x + x²/2 from −2, beside a line without entries: Newton's step goes to 2200."""
    lines = lines_of([0], [300.0], 2, "poisson")
    x = np.array([[-2.0], [0.0]])

    def cost(x):
        return np.exp(x) - 300 * x + 0.5 * x**2

    for _ in range(30):
        new, moved = lines._stepped(x)
        assert cost(new[0, 0]) <= cost(x[0, 0]) + 1e-9
        assert not moved[1]
        x = new
    assert np.exp(x[0, 0]) - 300 + x[0, 0] == pytest.approx(0, abs=1e-6)
