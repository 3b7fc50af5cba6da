import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankfold.data import random_completion
from rankfold.data.sampling import _fill, _thin, distinct


def positions(instance):
    return instance.rows.astype(np.int64) * instance.shape[1] + instance.cols


def dense(L, R):
    return L @ R.T


@given(st.integers(4, 40), st.integers(4, 40), st.integers(1, 4), st.floats(0.3, 1.0), st.integers(0, 99))
@settings(deadline=None)
def test_entries_are_distinct_in_range_sorted_and_those_of_the_truth(d1, d2, rank, fill, seed):
    oversampling = fill * d1 * d2 / ((d1 + d2 - rank) * rank)
    instance = random_completion((d1, d2), rank, oversampling, seed)
    assert len(instance) == round(oversampling * (d1 + d2 - rank) * rank)
    assert (np.diff(positions(instance)) > 0).all()
    assert 0 <= instance.rows.min() <= instance.rows.max() < d1
    assert 0 <= instance.cols.min() <= instance.cols.max() < d2
    truth = dense(instance.L, instance.R)[instance.rows, instance.cols]
    np.testing.assert_allclose(instance.values, truth, rtol=0, atol=1e-12)


def test_an_instance_knows_its_rank_and_singular_values():
    instance = random_completion((30, 20), 3, 2, seed=0)
    assert instance.rank == 3
    expected = np.linalg.svd(dense(instance.L, instance.R), compute_uv=False)[:3]
    np.testing.assert_allclose(instance.singular_values, expected, rtol=1e-12)


def test_the_paper_instance_has_the_count_and_index_type_of_its_table():
    instance = random_completion((4000, 4000), 5, 8, seed=0)
    assert len(instance) == 319_800
    assert instance.rows.dtype == instance.cols.dtype == np.int32
    assert instance.values.dtype == np.float64
    assert instance.values.var() == pytest.approx(5, rel=0.1)


@pytest.mark.parametrize(
    "options", [{}, {"condition": 1e3}, {"noise": 0.1}, {"popularity": 0.7}, {"min_per_line": True}]
)
def test_a_seed_decides_everything(options):
    one, same, other = (random_completion((60, 50), 3, 2, seed, **options) for seed in (1, 1, 2))
    for name in ("rows", "cols", "values", "L", "R"):
        assert (getattr(one, name) == getattr(same, name)).all()
    assert (one.L != other.L).any()
    assert (positions(one) != positions(other)).any()


@pytest.mark.parametrize("oversampling", [0.5, 1.5])  # drawn with rejection; drawn from a list
def test_every_cell_is_drawn_equally_often(oversampling):
    shape, repeats = (6, 7), 4000
    rng = np.random.default_rng(5)
    drawn = [positions(random_completion(shape, 2, oversampling, rng)) for _ in range(repeats)]
    observed = np.bincount(np.concatenate(drawn), minlength=42)
    p = len(drawn[0]) / 42
    # each count is binomial; the sum over cells of squared deviations has mean 42
    statistic = ((observed - repeats * p) ** 2 / (repeats * p * (1 - p))).sum()
    assert 15 < statistic < 85


def test_rejection_keeps_the_first_distinct_draws():
    stream = iter([7, 7, 3, 7, 3, 9, 2, 1, 0])
    found = distinct(lambda size: np.array([next(stream) for _ in range(size)]), 3, np.array([3]))
    assert found.tolist() == [2, 7, 9]


@given(st.integers(5, 60), st.integers(5, 60), st.integers(1, 4), st.floats(1.0, 1.5), st.integers(0, 99))
@settings(deadline=None)
def test_each_line_has_enough_entries_when_asked(d1, d2, rank, oversampling, seed):
    oversampling = min(oversampling, d1 * d2 / ((d1 + d2 - rank) * rank))
    instance = random_completion((d1, d2), rank, oversampling, seed, min_per_line=True)
    assert len(instance) == round(oversampling * (d1 + d2 - rank) * rank)
    assert (np.diff(positions(instance)) > 0).all()
    assert np.bincount(instance.rows, minlength=d1).min() >= rank
    assert np.bincount(instance.cols, minlength=d2).min() >= rank


def test_without_asking_some_line_has_too_few():
    instance = random_completion((500, 500), 3, 1.1, seed=0)
    assert np.bincount(instance.rows, minlength=500).min() < 3


def test_condition_is_that_of_the_truth_with_log_spaced_values_and_gaussian_scale():
    instance = random_completion((300, 200), 4, 2, seed=0, condition=1e6)
    singular = instance.singular_values
    np.testing.assert_allclose(singular[:-1] / singular[1:], 100, rtol=1e-8)
    assert np.linalg.norm(singular) == pytest.approx(np.sqrt(300 * 200 * 4))
    np.testing.assert_allclose(singular, np.linalg.svd(dense(instance.L, instance.R))[1][:4], rtol=1e-8)


def test_a_matrix_of_rank_1_has_condition_1():
    instance = random_completion((30, 20), 1, 2, seed=0, condition=1)
    np.testing.assert_allclose(instance.singular_values, [np.sqrt(30 * 20)], rtol=1e-12)


@pytest.mark.parametrize(("shape", "oversampling", "count"), [((1, 1), 1.0, 1), ((2, 2), 4 / 3, 4)])
def test_there_may_be_one_entry_or_all_of_them(shape, oversampling, count):
    assert positions(random_completion(shape, 1, oversampling, seed=0)).tolist() == list(range(count))


def test_every_line_may_be_asked_to_be_full():
    full = random_completion((30, 20), 1, 600 / 49, seed=0, min_per_line=20)
    assert positions(full).tolist() == list(range(600))


def test_noise_is_relative_to_the_size_of_the_seen_values():
    clean = random_completion((200, 300), 3, 10, seed=0)
    noisy = random_completion((200, 300), 3, 10, seed=0, noise=0.25)
    assert (clean.rows == noisy.rows).all()
    difference = noisy.values - clean.values
    assert difference.std() == pytest.approx(0.25 * np.sqrt((clean.values**2).mean()), rel=0.03)
    assert noisy.relative_error(clean.L, clean.R) < 1e-14


def test_popularity_follows_its_exponent():
    instance = random_completion((2000, 2000), 2, 10, seed=0, popularity=0.6)
    counts = np.sort(np.bincount(instance.rows, minlength=2000))[::-1]
    k = np.arange(5, 500)
    slope = np.polyfit(np.log(k), np.log(counts[k]), 1)[0]
    assert slope == pytest.approx(-0.6, abs=0.1)
    assert counts[0] != np.bincount(instance.rows)[0]  # the most popular row lies anywhere


@given(st.integers(3, 30), st.integers(3, 30), st.integers(1, 3), st.integers(1, 5), st.integers(0, 99))
@settings(deadline=None)
def test_relative_error_is_that_of_the_dense_matrices(d1, d2, rank, other_rank, seed):
    instance = random_completion((d1, d2), rank, 0.5, seed)
    rng = np.random.default_rng(seed)
    L, R = rng.standard_normal((d1, other_rank)), rng.standard_normal((d2, other_rank))
    truth = dense(instance.L, instance.R)
    expected = np.linalg.norm(dense(L, R) - truth) / np.linalg.norm(truth)
    assert instance.relative_error(L, R) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("condition", [None, 1e4])
@pytest.mark.parametrize("error", [1e-3, 1e-7, 1e-10, 1e-12])
def test_relative_error_is_accurate_when_small(condition, error):
    instance = random_completion((400, 300), 4, 2, seed=0, condition=condition)
    turn = np.random.default_rng(1).standard_normal((4, 4))  # another factorisation of the same matrix
    L, R = (1 + error) * instance.L @ turn, instance.R @ np.linalg.inv(turn).T
    assert instance.relative_error(L, R) == pytest.approx(error, rel=0.01)


@pytest.mark.parametrize("oversampling", [1, 6])
def test_held_out_entries_are_new_and_exact(oversampling):
    instance = random_completion((40, 30), 2, oversampling, seed=0, noise=0.5)
    test = instance.held_out(150, seed=1)
    assert len(np.union1d(positions(instance), positions(test))) == len(instance) + 150
    np.testing.assert_allclose(test.values, dense(instance.L, instance.R)[test.rows, test.cols])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": (0, 5)}, r"shape must hold two positive integers, got \(0, 5\)"),
        ({"rank": 0}, r"rank must be between 1 and 20 = min\(shape\), got 0"),
        ({"rank": 21}, r"rank must be between 1 and 20 = min\(shape\), got 21"),
        ({"oversampling": 0}, "oversampling must be positive, got 0"),
        ({"oversampling": float("nan")}, "oversampling must be positive"),
        ({"oversampling": 10}, "asks for 960 of the 600 entries there are"),
        ({"oversampling": 0.005}, "oversampling = 0.005 asks for 0 of the 600 entries there are"),
        ({"condition": 0.5}, "condition must be at least 1, got 0.5"),
        ({"condition": 10, "rank": 1}, "rank 1 has condition number 1"),
        ({"noise": -1}, "noise must not be negative, got -1"),
        ({"popularity": -1}, "popularity must not be negative, got -1"),
        ({"min_per_line": 21}, r"min_per_line must be between 0 and 20 = min\(shape\), got 21"),
        ({"min_per_line": 4, "oversampling": 1}, "min_per_line = 4 needs 120 entries, and there are 96"),
        ({"min_per_line": 5, "oversampling": 1}, "min_per_line = 5 needs 150 entries, and there are 96"),
        ({"popularity": 9.0, "oversampling": 6}, "lower popularity or oversampling"),
    ],
)
def test_impossible_requests_name_the_argument(change, message):
    request = {"shape": (30, 20), "rank": 2, "oversampling": 3, "seed": 0} | change
    with pytest.raises(ValueError, match=message):
        random_completion(**request)


def test_an_arrangement_that_cannot_be_found_is_an_error():
    with pytest.raises(ValueError, match="raise oversampling"):
        random_completion((200, 200), 2, 0.51, seed=0, min_per_line=2)


def test_relative_error_refuses_what_is_no_such_matrix():
    instance = random_completion((30, 20), 2, 3, seed=0)
    with pytest.raises(ValueError, match=r"do not make a matrix \(30, 20\)"):
        instance.relative_error(instance.R, instance.L)
    with pytest.raises(ValueError, match="finite"):
        instance.relative_error(instance.L * np.nan, instance.R)
    with pytest.raises(ValueError, match="count must be between 0 and 312"):
        instance.held_out(313)
    assert len(instance.held_out(312)) == 312


@pytest.mark.parametrize("axis", [0, 1])
def test_lines_with_too_few_entries_are_filled_at_random_places(axis):
    positions = _fill(np.empty(0, np.int64), (300, 200), axis, 2, np.random.default_rng(0))
    lines = np.divmod(positions, 200)
    assert (np.bincount(lines[axis], minlength=(300, 200)[axis]) >= 2).all()
    assert len(np.unique(lines[1 - axis])) > 100


@pytest.mark.parametrize("seed", range(5))
def test_what_is_too_much_is_taken_from_lines_that_can_spare_it(seed):
    kept = _thin(np.arange(30), (6, 5), 13, 2, np.random.default_rng(seed))
    assert len(kept) == 17
    assert min(np.bincount(line, minlength=5).min() for line in np.divmod(kept, 5)) >= 2
