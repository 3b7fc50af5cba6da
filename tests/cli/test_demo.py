"""The demonstration: the cloth it draws, and what it says of itself."""

import matplotlib.image
import numpy as np
import pytest

import rankfold as rf
from rankfold.cli import demo
from rankfold.cli.cloth import RANK, THREAD, side_by_side, stacked, tartan

NAVY, GOLD = np.array([24, 40, 92]), np.array([238, 190, 66])


def test_threads_pass_over_two_and_under_two():
    cloth = tartan(16, 160)
    np.testing.assert_allclose(cloth[1, 1], NAVY)  # in the middle of a thread; both are navy
    gold = 33 * THREAD + 1  # a thread of the warp: 12 + 3 + 3 + 3 + 12 lie before it
    above = [bool(np.allclose(cloth[THREAD * k + 1, gold], GOLD)) for k in range(4)]
    assert above == [(k + 33) % 4 < 2 for k in range(4)]
    below = above.index(False)
    np.testing.assert_allclose(cloth[THREAD * below + 1, gold], NAVY)
    across = [0.72, 1.0, 1.0, 0.82]  # light on a round thread
    np.testing.assert_allclose(cloth[0, :THREAD] / NAVY, np.outer(across, np.ones(3)))


def test_the_order_of_threads_turns_round():
    warp = tartan(THREAD, 130 * THREAD)[:, 1::THREAD]  # 65 threads, and the same again the other way
    above = (np.arange(130) % 4 < 2) & (np.arange(130)[::-1] % 4 < 2)
    np.testing.assert_array_equal(warp[0, above], warp[0, ::-1][above])
    assert above.any()


def test_a_cloth_is_a_matrix_of_low_rank():
    cloth = tartan(120, 280)
    matrix = side_by_side(cloth)
    assert matrix.shape == (120, 840)
    assert np.linalg.matrix_rank(matrix) <= RANK
    np.testing.assert_array_equal(matrix[:, 280:560], cloth[:, :, 1])
    np.testing.assert_array_equal(stacked(matrix), cloth)


@pytest.fixture(scope="module")
def small():
    """Two lines of three pixels, of which one of a line is not known, and completed with an error of 6."""
    picture = np.arange(18.0).reshape(2, 3, 3)
    known = np.array([[True, True, False], [False, True, True]])
    completed = picture + 6.0 * ~known[:, :, None]
    data = rf.data.random_completion((20, 15), 1, 3, seed=0)
    result = rf.minimize(rf.Problem.of(rf.Completion.from_triples(data), 1), max_iterations=2)
    return demo.Demo(picture, known, completed, result, 1.0)


def test_errors_are_those_of_the_unknown_pixels(small):
    matrix = side_by_side(small.picture)
    known = np.tile(small.known, 3)
    mean, means, ours = small.errors.values()
    assert ours == pytest.approx(6.0)
    assert mean == pytest.approx(np.sqrt(np.mean((matrix - matrix[known].mean())[~known] ** 2)))
    guess = np.full(matrix.shape, matrix[known].mean())
    guess += np.ma.mean(np.ma.array(matrix - guess, mask=~known), axis=1, keepdims=True).filled(0)
    guess += np.ma.mean(np.ma.array(matrix - guess, mask=~known), axis=0, keepdims=True).filled(0)
    assert means == pytest.approx(np.sqrt(np.mean((matrix - guess)[~known] ** 2)))


def test_the_picture_shows_what_was_known_beside_what_was_made_of_it(small, tmp_path):
    demo.draw(small, tmp_path / "d.png")
    drawn = np.rint(matplotlib.image.imread(tmp_path / "d.png") * 255)
    assert drawn.shape == (2, 3 + 12 + 3, 3)
    np.testing.assert_array_equal(drawn[:, :3][small.known], small.picture[small.known])
    assert (drawn[:, :3][~small.known] == 255).all()
    assert (drawn[:, 3:15] == 255).all()
    np.testing.assert_array_equal(drawn[:, 15:], small.completed)


def test_the_known_levels_are_written_as_triples(small, tmp_path):
    demo.write_known(small, tmp_path / "d.csv")
    triples = rf.data.read_triples(tmp_path / "d.csv")
    assert len(triples.values) == 3 * small.known.sum()
    assert sorted(triples.values) == sorted(small.picture[small.known].ravel())
