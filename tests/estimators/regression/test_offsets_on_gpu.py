"""The best offsets of columns on a GPU: what they cost, with a ridge that is large, and steps too long."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import rankfold as rf
from gpu_stand_in import stand_in

torch = pytest.importorskip("torch")


@pytest.fixture
def offsets(monkeypatch):
    """Of six counts in three columns of unequal length, with weights."""
    pytest.importorskip("triton")
    stand_in(monkeypatch)
    from rankfold.estimators.regression import free_offsets_on_gpu as module

    monkeypatch.setattr(module, "RIDGE", 0.5)
    cost = rf.Completion(
        [0, 1, 2, 0, 3, 1], [0, 0, 0, 1, 1, 2], [1.0, 0.0, 4.0, 2.0, 7.0, 3.0], (4, 3),
        [0.5, 2.0, 1.0, 1.5, 0.25, 3.0], "poisson",
    )  # fmt: skip
    return module.GpuFreeOffsets(cost.on("cuda"))


KEYS, Y = np.array([0, 0, 0, 1, 1, 2]), np.array([1.0, 0.0, 4.0, 2.0, 7.0, 3.0])
WEIGHTS = np.array([0.5, 2.0, 1.0, 1.5, 0.25, 3.0])
RIDGES = 0.5 * np.array([3.5, 1.75, 3.0])


def in_order(offsets, numbers):
    """Entries stand by column, and in one by row."""
    assert offsets._keys.tolist() == KEYS.tolist()
    assert offsets._values.tolist() == Y.tolist()
    return torch.as_tensor(numbers, dtype=torch.float64, device=offsets.device)


@pytest.mark.gpu
def test_columns_cost_their_losses_and_their_ridge(offsets):
    values, x = np.array([0.5, -1.0, 2.0, 3.0, 0.25, 4.0]), np.array([2.0, -3.0, 0.5])
    found = offsets._costs(in_order(offsets, values), torch.as_tensor(x, device=offsets.device))
    assert_allclose(found.cpu(), np.bincount(KEYS, WEIGHTS * values) + RIDGES * x**2)


@pytest.mark.gpu
def test_the_best_offsets_are_those_of_the_penalised_losses(offsets):
    given = np.array([0.5, -0.2, 0.1, 1.0, -0.5, 0.3])
    found = offsets._best(in_order(offsets, given)).cpu().numpy()

    def pays(c):
        w = given + c[KEYS]
        return np.sum(WEIGHTS * (np.exp(w) - Y * w)) + RIDGES @ c**2

    best = minimize(pays, np.zeros(3), tol=1e-12, method="BFGS", options={"gtol": 1e-9}).x
    assert_allclose(found, best, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("halvings", [1, 40])
def test_a_column_whose_step_stays_worse_stays_where_it_is(offsets, monkeypatch, halvings):
    from rankfold.estimators.regression import free_offsets_on_gpu as module

    monkeypatch.setattr(module, "HALVINGS", halvings)
    monkeypatch.setattr(module, "RIDGE", 1e-10)
    # Newton's steps of the second column would be to e^100 and beyond; those of the others are not too long.
    given = in_order(offsets, [0.1, 0.2, 0.3, -4.0, -4.0, 0.5])
    x, moved = offsets._stepped(given, given.new_zeros(3))
    assert bool(torch.isfinite(x).all())
    assert moved.tolist() == [True, halvings > 1, True]
    assert (x != 0).tolist() == [True, halvings > 1, True]
    costs = [
        offsets._costs(torch.exp(w) - offsets._values * w, c)
        for w, c in ((given, 0 * x), (given + x[offsets._keys], x))
    ]
    assert bool((costs[1] <= costs[0]).all())
