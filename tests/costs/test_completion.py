"""Completion as a cost over a store; what the store computes is tested in tests/entries."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import rankfold as rf
from costs.losses import FORMULAS, named
from costs.suite import close
from entries.stores import draw, factors, in_memory
from rankfold.costs import Completion, Cost, Loss
from rankfold.costs.start import shortened


def cost_of(entries, loss="square"):
    named = Loss.named(loss) if isinstance(loss, str) else loss
    return Completion.from_observed(in_memory(entries), named)


# A loss of the user's compiles kernels with weights, and others without.
@pytest.mark.parametrize(
    ("loss", "weighted"), [(loss, w) for loss in FORMULAS for w in (False, True) if w or loss != "own"]
)
def test_products_with_the_gradient(loss, weighted):
    """Those of the sparse gradient against those that any cost gets from its evaluation; also at W = 0."""
    entries = draw(4, 30, 40, weighted=weighted, loss=loss)
    cost, (L, R, dL, dR) = cost_of(entries, named(loss)), factors(entries.shape, 3)
    for at in ((L, R), (L[:, :0], R[:, :0])):
        by_evaluation = Cost.gradient_products(cost, *at)(dR, dL)
        for actual, desired in zip(cost.gradient_products(*at)(dR, dL), by_evaluation, strict=True):
            close(actual, desired)
    assert cost.quadratic == (loss == "square")


def test_only_the_square_loss_has_a_polynomial():
    entries = draw(5, 20, 20)
    L, R = factors(entries.shape, 2, count=1)
    with pytest.raises(TypeError, match="not quadratic"):
        cost_of(entries, "huber").polynomial([L], [R])


def test_triples_of_the_library_and_of_others():
    data = rf.data.random_completion((40, 30), rank=2, oversampling=4, seed=0)
    L, R = factors(data.shape, 2, count=1)
    by_hand = Completion(data.rows, data.cols, data.values, data.shape, loss="huber")
    assert Completion.from_triples(data, loss="huber").value(L, R) == by_hand.value(L, R)
    entries = draw(5, 40, 30)
    assert_array_equal(
        Completion.from_triples(entries).evaluate(L, R).f_L, cost_of(entries).evaluate(L, R).f_L
    )


class Elsewhere:
    """A store that is not in memory, as far as a cost needs one to be built."""

    shape = 3, 2


def test_entries_that_are_not_in_memory_are_not_handed_out():
    cost = Completion.from_observed(Elsewhere())
    with pytest.raises(TypeError, match="needs the entries in memory, and they are held by Elsewhere"):
        _ = cost.observed
    with pytest.raises(TypeError, match="held by Elsewhere"):
        rf.WithOffsets(cost)


@pytest.mark.parametrize("largest", [1, 40, 3000])
def test_counts_of_any_size_have_a_start_that_is_better_than_zero(largest):
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((20, 15)) < 0.5)
    cost = rf.Completion(rows, cols, rng.integers(0, largest + 1, rows.size), (20, 15), loss="poisson")
    U, s, V = cost.start(3)
    assert cost.value(U * s, V) < cost.value_at_zero


@pytest.mark.parametrize(("reach", "halved"), [(20.0, 16.0), (16.0, 8.0), (3.0, 2.0), (0.0, 16.0 / 2**60)])
def test_a_start_is_halved_until_it_is_better_than_zero_but_not_for_ever(reach, halved):
    cost = SimpleNamespace(quadratic=False, value_at_zero=1.0)
    cost.value = lambda L, R: np.nan if L.max() > 16 else float(L.max() >= reach)
    s = shortened(cost, np.eye(2), np.array([16.0, 4.0]), np.eye(2))
    assert s.tolist() == [halved, halved / 4]
