"""What a seed draws stays what it was: figures of papers and of our pages are made by instances named so."""

import numpy as np
import pytest

from rankfold.data import random_completion
from rankfold.data.sampling import NONE, distinct, popular, repair, uniform


def seeded():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("count", "taken", "drawn"),
    [
        (9, [], [0, 1, 3, 5, 6, 10, 12, 16, 17]),  # with rejection, below a half of all
        (10, [], [0, 1, 3, 4, 6, 7, 9, 16, 17, 18]),  # from a list
        (6, [0, 1, 19], [3, 5, 6, 10, 12, 17]),
        (7, [0, 1, 19], [2, 3, 5, 6, 8, 9, 11]),
        (17, [0, 1, 19], list(range(2, 19))),
        (0, [0, 1, 19], []),
    ],
)
def test_positions_drawn_uniformly(count, taken, drawn):
    assert uniform((4, 5), count, seeded(), np.array(taken, dtype=np.int64)).tolist() == drawn


def test_positions_drawn_by_popularity():
    assert popular((5, 7), 6, seeded(), 1.5).tolist() == [4, 15, 20, 23, 25, 32]
    assert popular((5, 7), 6, seeded(), 0.0).tolist() == [4, 8, 12, 13, 16, 24]


def test_positions_exchanged_for_lines_that_lack_some():
    assert repair(np.arange(8), (6, 4), 1, seeded()).tolist() == [0, 1, 3, 5, 11, 14, 18, 21]
    half = repair(np.arange(0, 24, 2), (6, 4), 2, seeded())
    assert half.tolist() == [0, 2, 4, 7, 8, 10, 13, 15, 16, 18, 20, 21]


SEEN = [0, 1, 4, 5, 8, 9, 11, 12, 13, 15, 16, 20, 23]


@pytest.mark.parametrize(
    ("options", "drawn", "values"),
    [
        ({}, SEEN, [-0.263423, -0.059913, -1.511954]),
        ({"noise": 0.5}, SEEN, [-0.947455, -0.399601, -1.348542]),
        (
            {"popularity": 1.0},
            [0, 2, 4, 5, 6, 8, 9, 11, 12, 13, 16, 17, 21],
            [-0.263423, -0.026645, -1.511954],
        ),
        (
            {"min_per_line": 1},
            [0, 1, 4, 5, 8, 11, 12, 13, 15, 16, 20, 22, 23],
            [-0.263423, -0.059913, -1.511954],
        ),
    ],
    ids=str,
)
def test_instances(options, drawn, values):
    instance = random_completion((6, 4), 2, 0.8, 0, **options)
    assert (4 * instance.rows + instance.cols).tolist() == drawn
    np.testing.assert_allclose(instance.values[:3], values, atol=1e-6)


@pytest.mark.parametrize(
    ("seed", "drawn"), [((), [6, 14, 17, 21]), ((0,), [6, 14, 17, 21]), ((1,), [7, 10, 18, 22])]
)
def test_entries_held_out(seed, drawn):
    rest = random_completion((6, 4), 2, 0.8, 0).held_out(4, *seed)
    assert (4 * rest.rows + rest.cols).tolist() == drawn
    assert rest.rows.dtype == rest.cols.dtype == np.int32


def test_more_is_drawn_at_a_time_while_most_are_repeats_and_a_hundred_times_at_most():
    asked = []

    def draw(size):
        asked.append(size)
        return np.arange(19)[:size]

    with pytest.raises(ValueError, match="lower popularity or oversampling"):
        distinct(draw, 20, NONE)
    assert asked == [20, 2, 4, 8, 16, *[20] * 95]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"oversampling": float("inf")}, "oversampling must be positive, got inf"),
        ({"oversampling": -0.5}, "oversampling must be positive, got -0.5"),
        ({"condition": float("inf")}, "condition must be at least 1, got inf"),
        ({"noise": float("inf")}, "noise must not be negative, got inf"),
        ({"noise": float("nan")}, "noise must not be negative, got nan"),
        ({"popularity": float("inf")}, "popularity must not be negative, got inf"),
        ({"min_per_line": -1}, r"min_per_line must be between 0 and 4 = min\(shape\), got -1"),
        ({"rank": 1, "condition": 2}, "a matrix of rank 1 has condition number 1, got condition = 2"),
    ],
)
def test_what_no_instance_has(change, message):
    with pytest.raises(ValueError, match=message):
        random_completion(**{"shape": (6, 4), "rank": 2, "oversampling": 0.8, "seed": 0} | change)


def test_the_least_that_options_may_be():
    instance = random_completion((6, 4), 2, 0.8, 0, condition=1, noise=0, popularity=0, min_per_line=0)
    np.testing.assert_allclose(instance.singular_values, np.sqrt(24), rtol=1e-12)
    assert len(random_completion((6, 4), 2, 0.8, 0, condition=30)) == len(instance)


@pytest.mark.parametrize("side", [0, 1])
def test_an_error_is_relative_to_a_matrix_of_finite_factors_alone(side):
    instance = random_completion((6, 4), 2, 0.8, 0)
    factors = [instance.L.copy(), instance.R.copy()]
    with pytest.raises(
        ValueError, match=r"of shapes \(6, [12]\) and \(4, [12]\) do not make a matrix \(6, 4\)"
    ):
        instance.relative_error(*(Z[:, : 1 + (k == side)] for k, Z in enumerate(factors)))
    factors[side][1, 0] = np.nan
    with pytest.raises(ValueError, match="L and R must be finite"):
        instance.relative_error(*factors)
    factors[side][1, 0] = np.inf
    with pytest.raises(ValueError, match="L and R must be finite"):
        instance.relative_error(*factors)


def test_an_error_is_that_of_factors_in_lists_too():
    instance = random_completion((6, 4), 2, 0.8, 0)
    assert instance.relative_error((2 * instance.L).tolist(), instance.R.tolist()) == pytest.approx(1.0)
