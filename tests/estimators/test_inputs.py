"""Weights as users give them."""

import numpy as np
import pytest

from rankfold.estimators.inputs import checked_weights


def test_weights_are_one_per_sample():
    np.testing.assert_array_equal(checked_weights(2, 3), [2.0, 2.0, 2.0])
    assert checked_weights([1, 2], 2, np.float32).dtype == np.float32
    assert checked_weights(None, 2, np.float32).dtype == np.float32


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], r"sample_weight\[1\] is .*-1\.0.*: weights are never negative"),
        ([1.0], r"a vector of 2 weights, one per sample; got shape \(1,\)"),
        ([[1.0], [1.0]], r"a vector of 2 weights, one per sample; got shape \(2, 1\)"),
        ([0.0, 0.0], "sample_weight is zero for every sample"),
        (0, "sample_weight is zero for every sample"),
        ([1.0, np.nan], "Input sample_weight contains NaN"),
    ],
)
def test_wrong_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        checked_weights(weights, 2)
