"""Step-sizes from a sample of the rows."""

from types import SimpleNamespace

import numpy as np
import pytest

import rankfold as rf
from rankfold.costs import completion
from rankfold.entries.observed import Observed


@pytest.fixture
def data():
    return rf.data.random_completion((90, 70), rank=3, oversampling=5, seed=0)


def cost_of(data, keep=slice(None)):
    return rf.Completion(data.rows[keep], data.cols[keep], data.values[keep], data.shape)


def test_small_data_are_not_sampled(data):
    L, R = data.L, data.R
    assert cost_of(data).sampled_polynomial((L, L), (R, R)) is None


@pytest.mark.filterwarnings("ignore:.*no observed entry")
def test_a_sample_is_the_polynomial_of_its_rows(data, monkeypatch):
    """The sample is every fourth run of eight rows, by the numbers that rows have in the whole matrix."""
    monkeypatch.setattr(completion, "SAMPLED_ENTRIES", len(data.values) // 4)
    rng = np.random.default_rng(0)
    L, R, dL, dR = (rng.standard_normal((d, 3)) for d in data.shape * 2)
    cost = cost_of(data)
    found = cost.sampled_polynomial((L, dL), (R, dR))
    assert cost.observed.by_row.bounds.size > 2
    sample = [i for i in range(90) if i // 8 % 4 == 0]
    truth = cost_of(data, np.isin(data.rows, sample)).polynomial((L, dL), (R, dR))
    np.testing.assert_allclose(found, truth, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.*no observed entry")
def test_a_sample_is_never_thinner_than_every_sixteenth_row(data, monkeypatch):
    monkeypatch.setattr(completion, "SAMPLED_ENTRIES", 10)
    cost = cost_of(data)
    curve = (data.L, data.L), (data.R, 2 * data.R)
    np.testing.assert_array_equal(cost.sampled_polynomial(*curve), cost.polynomial(*curve, every=16))
    monkeypatch.setattr(completion, "SAMPLED_ENTRIES", len(data.values) // 2 + 1)
    assert cost.sampled_polynomial(*curve) is None


def test_a_store_says_how_thin_a_sample_may_be(data):
    """One on a GPU allows of thinner ones, since it has more entries left."""
    seen = []
    store = SimpleNamespace(size=1000, sampled_entries=10, most_sampling=32)
    store.polynomial = lambda Ls, Rs, every: seen.append(every)
    cost = cost_of(data)
    cost.store = store
    for size in (1000, 200, 19):
        store.size = size
        cost.sampled_polynomial((data.L,), (data.R,))
    assert seen == [32, 20]


def test_conjugate_gradients_calibrate_it(data, monkeypatch):
    """With samples of a quarter of the rows the solution is the same, at not many more iterations."""
    problem = rf.Problem(cost_of(data), rf.FullRank(data.shape, 3, metric="preconditioned"))
    exact = rf.minimize(problem, rf.ConjugateGradient(), tolerance=1e-18)
    monkeypatch.setattr(completion, "SAMPLED_ENTRIES", len(data.values) // 4)
    sampled = rf.minimize(problem, rf.ConjugateGradient(), tolerance=1e-18)
    assert sampled.converged
    assert sampled.iterations <= 1.5 * exact.iterations
    assert np.all(np.diff(sampled.trace["value"]) < 0)
    assert data.relative_error(*sampled.factors) < 1e-8


def test_a_sample_does_not_depend_on_how_rows_are_cut(data):
    """Of two halves, the sums are those of the whole: rows are counted from where a part begins."""
    rng = np.random.default_rng(0)
    L, R, dL, dR = (rng.standard_normal((d, 3)) for d in data.shape * 2)
    whole, entries = cost_of(data).observed.polynomial_sums((L, dL), (R, dR), 3)
    total, number = 0.0, 0.0
    for a, b in ((0, 37), (37, 90)):
        own = (data.rows >= a) & (data.rows < b)
        part = Observed.from_triples(
            data.rows[own] - a, data.cols[own], data.values[own], (b - a, 70), warn_of_empty=False
        )
        sums, count = part.polynomial_sums((L[a:b], dL[a:b]), (R, dR), 3, first=a)
        total, number = total + sums, number + count
    assert number == entries > 0
    np.testing.assert_allclose(total, whole, rtol=1e-12)
