"""numba is imported when a kernel is used, and not before."""

import subprocess
import sys

import pytest

from rankfold import kernels

PREDICT = """
import sys
import numpy as np
import rankfold.costs, rankfold.baselines, rankfold.entries.operators
loss = rankfold.costs.Loss.named("logistic")
loss(np.zeros(3), np.ones(3))
rankfold.costs.Frobenius(1.0).evaluate(np.ones((3, 1)), np.ones((2, 1)))
assert "numba" not in sys.modules, "a cost without kernels has imported numba"
rankfold.costs.Completion([0], [0], [1.0], (1, 1))
assert "numba" in sys.modules
"""


def test_costs_without_kernels_need_no_numba():
    done = subprocess.run([sys.executable, "-c", PREDICT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_module_is_found_by_name():
    for name in kernels.__all__:
        assert getattr(kernels, name).__name__ == f"rankfold.kernels.{name}"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'rankfold.kernels' has no attribute 'nothing'"):
        _ = kernels.nothing
