"""What `ImplicitFeedback` minimises: `Completion + Unobserved` and a ridge, without visiting all pairs."""

import numpy as np
import pytest

import rankfold as rf
from estimators.clicks.click_data import clicks
from rankfold.data.triples import Triples
from rankfold.estimators.clicks.objective import Clicks, click_completion

ALPHA = 3.0


def instance(dtype="float64", rank=3, weight=0.7):
    pairs, _ = clicks(20, 12, 3)
    counts = np.random.default_rng(1).integers(1, 5, len(pairs)).astype(float)
    counts[:3] = 0
    data = Triples(pairs[:, 0], pairs[:, 1], counts, (20, 12))
    cost = Clicks.of(click_completion(data, None, ALPHA, dtype), weight)
    rng = np.random.default_rng(2)
    L, R = (rng.standard_normal((d, rank)).astype(dtype) for d in (20, 12))
    return data, counts, cost, (L, R)


def dense(data, counts, weight, L, R):
    """The objective, entry by entry."""
    v = np.zeros(data.shape)
    np.add.at(v, (data.rows, data.cols), ALPHA * counts)
    W = L @ R.T
    total = ((1 + v) * (W - (v > 0)) ** 2).sum()
    for factor, sums, power in ((L, v.sum(axis=1), 0.75), (R, v.sum(axis=0), 0.25)):
        total += weight * (np.maximum(sums, 1) ** power * (factor**2).sum(axis=1)).sum()
    return total


def test_its_value_is_that_of_the_formula_entry_by_entry():
    data, counts, cost, (L, R) = instance()
    assert cost.value(L, R) * len(counts) == pytest.approx(dense(data, counts, 0.7, L, R), rel=1e-12)
    assert cost.value_at_zero * len(counts) == pytest.approx(
        (1 + ALPHA * counts)[counts > 0].sum(), rel=1e-12
    )
    assert cost.nonnegative


def test_in_single_precision_sums_are_as_exact_as_in_double():
    """Of entries as they are kept; what is left of them where W = 0 is a difference of much larger sums."""
    pairs, _ = clicks(200, 120, 9)
    counts = np.random.default_rng(1).uniform(1, 5, len(pairs))
    seen = click_completion(Triples(*pairs.T, counts, (200, 120)), None, 1e-4, "float32")
    data = seen.observed.by_row.data.astype(np.float64)
    due = (data[:, 1] * data[:, 0] ** 2).sum() - data[:, 0].sum()
    assert Clicks.of(seen).value_at_zero * len(data) == pytest.approx(due, rel=1e-8)


def test_it_is_completion_plus_unobserved():
    data, counts, _, (L, R) = instance()
    cost = Clicks.of(click_completion(data, None, ALPHA, "float64"))
    there = counts > 0
    known = rf.Completion(
        data.rows[there],
        data.cols[there],
        np.ones(there.sum()),
        data.shape,
        weights=1 + ALPHA * counts[there],
    )
    other = there.sum() * known + rf.Unobserved(1.0, known)
    assert cost.value(L, R) * len(counts) == pytest.approx(other.value(L, R), rel=1e-12)
    for own, theirs in zip(cost.evaluate(L, R)[1:], other.evaluate(L, R)[1:], strict=True):
        np.testing.assert_allclose(own * len(counts), theirs, rtol=1e-9, atol=1e-9)


def test_its_derivatives_are_those_of_its_values():
    _, _, cost, (L, R) = instance()
    rng = np.random.default_rng(5)
    dL, dR = rng.standard_normal(L.shape), rng.standard_normal(R.shape)
    h = 1e-5
    ahead, behind = cost.evaluate(L + h * dL, R + h * dR), cost.evaluate(L - h * dL, R - h * dR)
    here = cost.evaluate(L, R)
    slope = (here.f_L * dL).sum() + (here.f_R * dR).sum()
    assert (ahead.value - behind.value) / (2 * h) == pytest.approx(slope, rel=1e-7)
    for k, change in enumerate(cost.derivative(L, R, dL, dR)):
        np.testing.assert_allclose((ahead[k + 1] - behind[k + 1]) / (2 * h), change, rtol=1e-5, atol=1e-5)
    coefficients = cost.polynomial([L, dL], [R, dR])
    for t in (0.0, 0.5, -1.3):
        assert np.polynomial.Polynomial(coefficients)(t) == pytest.approx(
            cost.value(L + t * dL, R + t * dR), rel=1e-11
        )


@pytest.mark.parametrize("side", [0, 1])
def test_lines_are_the_best_for_those_of_the_other_side(side):
    """The partial derivative in the lines that were solved for vanishes."""
    _, _, cost, point = instance()
    solved = list(point)
    solved[side] = cost.solved(side, point[1 - side])
    before, after = cost.evaluate(*point), cost.evaluate(*solved)
    assert abs(after[side + 1]).max() < 1e-13 * abs(before[side + 1]).max()
    assert after.value < before.value


def test_a_sweep_solves_for_rows_and_then_for_columns():
    _, _, cost, (L, R) = instance()
    G, H = cost.swept(L, R)
    np.testing.assert_array_equal(G, cost.solved(0, R))
    np.testing.assert_array_equal(H, cost.solved(1, G))
    np.testing.assert_array_equal(cost.completed(L[:5], R)[0], G)
    np.testing.assert_array_equal(cost.completed(G, R[:5])[1], H)


def test_the_start_is_as_long_as_is_best():
    _, _, cost, _ = instance(weight=0.2)
    largest, (L, R) = cost.started(2, 0)
    value = cost.value(L, R)
    assert value < cost.value_at_zero
    for factor in (0.9, 1.1):
        assert cost.value(factor * L, factor * R) > value
    # from λ_max on, nothing is better than W = 0: the slope away from it is upwards
    u, v = L[:, :1] / np.linalg.norm(L), R[:, :1] / np.linalg.norm(R)
    for weight, sign in ((1.001 * largest, 1), (0.5 * largest, -1)):
        other = cost.at(weight)
        _, (L, R) = other.at(0.0).started(1, 0)
        assert np.sign(other.value(1e-4 * L, 1e-4 * R) - other.value_at_zero) == sign
    assert u.shape[1] == v.shape[1]


def test_clicks_of_a_pair_that_comes_twice_add_up():
    once = Triples(np.array([0, 1]), np.array([0, 1]), np.array([3.0, 1.0]), (2, 2))
    twice = Triples(np.array([0, 1, 0]), np.array([0, 1, 0]), np.array([1.0, 1.0, 2.0]), (2, 2))
    for data, weights in ((twice, None), (once, None), (twice, [1.0, 1.0, 1.0])):
        side = click_completion(data, weights, ALPHA, "float64").observed.by_row
        np.testing.assert_allclose(side.data, [[10 / 9, 9], [4 / 3, 3]])
    heavier = Triples(np.array([0, 1]), np.array([0, 1]), np.array([1.5, 2.0]), (2, 2))
    side = click_completion(heavier, [2.0, 0.5], ALPHA, "float64").observed.by_row
    np.testing.assert_allclose(side.data, [[10 / 9, 9], [4 / 3, 3]])


def test_what_is_no_count_is_refused():
    def made(values):
        return Triples(np.array([0, 1]), np.array([0, 1]), np.array(values), (2, 2))

    with pytest.raises(ValueError, match=r"y\[1\].*never negative"):
        click_completion(made([1.0, -1.0]), None, ALPHA, "float64")
    with pytest.raises(ValueError, match="no click to learn from"):
        click_completion(made([0.0, 0.0]), None, ALPHA, "float64")


def test_some_rows_or_columns_have_the_penalty_of_all_of_them():
    """Twice the users alike: √(n^¾ m^¼) of a pair, as λ has it, grows as √(n^½ m^½) does, by 2^¼."""
    rng = np.random.default_rng(3)
    pairs = np.argwhere(rng.random((6, 10)) < 0.5)
    twice = np.concatenate([pairs, pairs + np.array([6, 0])])

    def made(pairs, shape):
        data = Triples(pairs[:, 0], pairs[:, 1], np.ones(len(pairs)), shape)
        return Clicks.of(click_completion(data, None, ALPHA, "float64"))

    for order in (1, -1):
        part, whole = (made(p[:, ::order], s[::order]) for p, s in ((pairs, (6, 10)), (twice, (12, 10))))
        share = part.share_of(whole.shape)
        rows, cols = (new[:6] / old[:6] for new, old in zip(whole.roots, part.roots, strict=True))
        np.testing.assert_allclose(np.sqrt(rows * cols) / share, 2**0.25, rtol=1e-12)
        assert whole.share_of(whole.shape) == 1


def test_a_cost_of_clicks_has_no_penalty_unless_it_is_given_one():
    data = rf.data.Triples(np.arange(3), np.arange(3), np.ones(3), (3, 3))
    cost = Clicks.of(click_completion(data, None, 1.0, "float64"))
    assert cost.joint.weight == 0.0
    assert cost.at(2.0).joint.weight == 2.0
