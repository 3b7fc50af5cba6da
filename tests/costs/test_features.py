"""Features of rows and columns as costs hold them."""

import numpy as np
import pytest
from scipy import sparse

from rankfold.costs.mapped import Features


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("given", "held"),
    [(np.float32, np.float32), (np.float64, np.float64), (np.int32, np.float64), (np.bool_, np.float64)],
)
def test_single_precision_stays_and_all_else_is_double(wrap, given, held):
    features = Features.checked("X", wrap(np.eye(3, 2, dtype=given)))
    assert features.matrix.dtype == held
    assert features.size == 2
    assert features.times(np.ones((2, 1), held)).dtype == held


def test_a_constant_is_one_more_feature_on_a_gpu_too():
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    from rankfold.costs.features_on_gpu import TensorFeatures

    X = np.random.default_rng(0).standard_normal((4, 2))
    for held in (Features(X, 2).with_constant(), TensorFeatures(torch.as_tensor(X), 2).with_constant()):
        assert held.size == 3
        np.testing.assert_array_equal(held.matrix, np.column_stack([X, np.ones(4)]))
