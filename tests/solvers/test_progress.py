"""Whether a method gets anywhere: what exactly a half, and a fifth, are, and what is looked at."""

import pytest

from rankfold.solvers.progress import Progress


def after(values, norms, window=4):
    progress = Progress(window)
    for value, norm in zip(values, norms, strict=True):
        progress = progress.then(value, norm)
    return progress


@pytest.mark.parametrize(
    ("value", "norm", "stagnates"),
    [(0.5, 0.2, True), (0.49, 0.2, False), (0.5, 0.19, False), (0.49, 0.19, False), (9.0, 9.0, True)],
)
def test_exactly_half_of_the_value_and_a_fifth_of_the_gradient_are_left_by_who_stagnates(
    value, norm, stagnates
):
    assert after([1.0] * 4 + [value], [1.0] * 4 + [norm]).stagnates == stagnates


def test_only_a_window_and_the_one_before_are_kept():
    progress = after(range(9), range(10, 19))
    assert (progress.window, progress.values, progress.norms) == (4, (4, 5, 6, 7, 8), (14, 15, 16, 17, 18))
    assert all(type(number) is float for number in (*progress.values, *progress.norms))


@pytest.mark.parametrize(("window", "slower"), [(1, True), (2, False), (3, True), (4, True), (5, False)])
def test_a_shorter_window_looks_back_as_far_as_it_is(window, slower):
    """Of the last values only the second before the last was more than twice as large."""
    progress = after([1.0, 1.0, 2.5, 1.0, 1.0], [1.0] * 5, window=4)
    assert progress.slower(window, 0.5) == slower


def test_what_was_seen_is_nothing_at_first():
    assert Progress() == Progress(20, (), ())
    assert not Progress().stagnates
