"""Lists beside the best ones, place by place."""

import numpy as np
import pytest

from rankfold.selection.ranking import judged, ndcg, recall


@pytest.mark.parametrize("shape", [(4, 2), (4, 9)])
def test_each_place_has_the_gain_of_its_item_and_users_without_any_are_there(shape):
    relevant = np.array([0, 1, 0]), np.array([1, 1, 0]), np.array([1.0, 2.0, 3.0])
    listed = np.array([1, 0, 1, 3, 1, 0]), np.array([1, 1, -1, 0, 0, 0])
    lists = judged(shape, relevant, listed, 2)
    assert lists.gains.tolist() == [[1, 3], [2, 0], [0, 0], [0, 0]]
    assert lists.ideal.tolist() == [[3, 1], [2, 0], [0, 0], [0, 0]]
    assert lists.relevant.tolist() == [2, 1, 0, 0]
    assert lists.hits.tolist() == [[True, True], [True, False], [False] * 2, [False] * 2]
    np.testing.assert_array_equal(recall(lists), [1, 1, np.nan, np.nan])
    third = 1 / np.log2(3)
    np.testing.assert_allclose(ndcg(lists), [(1 + 3 * third) / (3 + third), 1, np.nan, np.nan])


def test_more_users_than_items_and_users_whose_numbers_are_large():
    relevant = np.array([2**31, 2**31 - 1]) - 2**31 + 1, np.array([0, 2**33]), np.array([1.0, 2.0])
    lists = judged((2, 2**33 + 1), relevant, (np.array([1, 0], np.int32), np.array([0, 2**33])), 1)
    assert lists.gains.tolist() == [[2.0], [1.0]]
