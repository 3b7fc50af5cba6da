"""Sums and multiples of costs: what a sum knows of its terms, and what tells one from another."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import rankfold as rf
from costs.suite import all_close, close, factors
from dense import DenseCost
from entries.stores import draw, in_memory
from rankfold.costs.base import Cost
from rankfold.costs.offsets import GivenOffsets
from rankfold.fingerprint import spread

SHAPE = 3, 4


def data(loss="square"):
    return rf.Completion(*np.indices(SHAPE).reshape(2, -1), np.arange(12.0) / 4, SHAPE, loss=loss)


@pytest.mark.parametrize(
    ("factor", "loss", "nonnegative", "has_blocks"),
    [
        (1.0, "square", True, True),
        (0.0, "square", True, True),
        (-0.1, "square", False, False),
        (-2.0, "square", False, False),
        (1.0, "poisson", False, True),
    ],
)
def test_what_a_sum_is_known_for(factor, loss, nonnegative, has_blocks):
    cost = rf.Frobenius(1.0) + factor * data(loss)
    assert (cost.nonnegative, cost.has_line_blocks) == (nonnegative, has_blocks)
    assert cost.quadratic == (loss == "square")
    assert cost.shape == SHAPE
    with_another = cost + DenseCost(SHAPE)
    assert (with_another.has_line_blocks, with_another.quadratic) == (False, False)


def test_what_a_cost_is_known_for_that_says_nothing_of_itself():
    cost = DenseCost(SHAPE)
    assert (cost.quadratic, cost.nonnegative, cost.has_start) == (False, True, True)
    assert (cost.has_line_blocks, cost.factored, cost.places) == (False, False, None)
    assert cost.sampled_polynomial([], []) is None
    numbers = np.ones(3)
    assert cost.as_factor(numbers) is numbers


def test_a_sum_is_that_of_its_terms_times_their_factors():
    terms = [(1.5, data()), (-2.0, DenseCost(SHAPE)), (0.25, rf.Frobenius(3.0))]
    cost = sum_of(terms)
    points = L, R, dL, dR = factors(SHAPE, 2)

    def due(ask):
        return [sum(a * part for (a, _), part in zip(terms, parts, strict=True))
                for parts in zip(*(ask(term) for _, term in terms), strict=True)]  # fmt: skip

    for ask in (
        lambda term: term.evaluate(L, R),
        lambda term: term.evaluate_factored(L, R),
        lambda term: term.evaluate_ahead(L, R),
        lambda term: term.derivative(*points),
        lambda term: term.gauss_newton(*points),
        lambda term: term.gradient_products(L, R)(dR, dL),
        lambda term: [term.value(L, R), term.value_at_zero],
    ):
        all_close(ask(cost), due(ask))
    squares = sum_of([terms[0], terms[2]])
    blocks, polynomials = ([a * np.array(ask(term)) for a, term in squares.terms] for ask in (
        lambda term: np.concatenate(term.line_blocks(L, R)), lambda term: term.polynomial((L, dL), (R,)),
    ))  # fmt: skip
    close(np.concatenate(squares.line_blocks(L, R)), sum(blocks))
    close(squares.polynomial((L, dL), (R,)), sum(polynomials))


def test_a_sum_with_a_term_that_is_not_quadratic_is_not():
    L, R = factors(SHAPE, 2, count=1)
    with pytest.raises(TypeError, match="Combination is not quadratic in W"):
        (data() + DenseCost(SHAPE)).polynomial((L,), (R,))


def test_starts_are_of_seed_0_unless_another_is_given():
    entries = draw(3, 60, 50, 0.3)
    plain = rf.Completion.from_observed(in_memory(entries))
    for cost in (
        plain + rf.Frobenius(0.1),
        GivenOffsets(plain, np.ones(60), np.ones(50)),
        rf.WithOffsets(plain),
    ):
        for one, two in zip(cost.start(2), cost.start(2, seed=0), strict=True):
            assert_array_equal(one, two)
        assert (cost.start(2, seed=1)[0] != cost.start(2)[0]).any()


def sum_of(terms):
    (a, first), *others = terms
    cost = a * first
    for a, term in others:
        cost = cost + term * a
    return cost


class Scaled(Cost):
    """c (1 + ‖W‖²), which says that it is `zero` at W = 0."""

    shape = SHAPE

    def __init__(self, c, zero):
        self.c, self.value_at_zero = c, zero

    value_at_zero = 0.0

    def evaluate(self, L, R):
        W = L @ R.T
        return self.c * (1 + float(np.sum(W * W))), 2 * self.c * W @ R, 2 * self.c * W.T @ L

    def derivative(self, L, R, dL, dR):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("zero", "unit"), [(16.0, 16.0), (-16.0, 16.0), (0.5, 0.5), (0.0, 1.0), (np.inf, 1.0)]
)
def test_costs_are_told_apart_by_values_in_units_of_that_at_zero(zero, unit):
    """At matrices as large as the data; the same of any part of a checkpoint, for ever."""
    found = Scaled(2.0, zero).fingerprint()
    assert list(found) == ["value at a fixed W", "value at another fixed W"]
    for value, steps in zip(found.values(), ((2, 3), (5, 7)), strict=True):
        W = np.outer(*(spread(d, step**0.5) for d, step in zip(SHAPE, steps, strict=True)))
        close(value, 2.0 * (1 + unit * np.sum(W * W)) / unit)


def test_what_tells_sums_apart_is_of_terms_with_data_and_of_the_whole():
    cost = 2.0 * rf.Frobenius(1.0) + data() + 0.5 * Scaled(1.0, 1.0)
    found, own = cost.fingerprint(), Cost.fingerprint(cost)
    parts = {2: data().fingerprint(), 3: Scaled(1.0, 1.0).fingerprint()}
    assert found == {
        **{f"{name} (term {k})": part for k, each in parts.items() for name, part in each.items()},
        **own,
    }
    assert own != Cost.fingerprint(rf.Frobenius(1.0) + data())


def test_points_of_a_sum_are_where_its_terms_have_their_data():
    torch = pytest.importorskip("torch")
    elsewhere = rf.Custom(lambda L, R: (L @ R.T).sum(), SHAPE, like=torch.zeros(1))
    found = (data() + elsewhere).as_factor(np.ones((3, 1)))
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.float32


def test_a_sum_is_where_its_first_term_is_that_is_spread():
    class Spread(DenseCost):
        places = "of the rows", "of the columns"

    assert (data() + Spread(SHAPE)).places == ("of the rows", "of the columns")
    assert (data() + DenseCost(SHAPE)).places is None


KNOWN = {  # quadratic, nonnegative, has a start, has blocks, is of the factors
    "frobenius": (lambda: rf.Frobenius(0.1), True, True, False, True, False),
    "nuclear": (lambda: rf.Nuclear(0.1), False, True, False, True, False),
    "unobserved": (lambda: rf.Unobserved(0.1, data()), True, True, False, True, False),
    "factor penalty": (lambda: rf.FactorPenalty(0.1, 0.2), True, True, False, True, True),
    "completion": (data, True, True, True, True, False),
    "offsets": (lambda: rf.WithOffsets(data()), True, True, True, True, False),
    "multinomial": (
        lambda: rf.Multinomial([0, 1], [0, 0], [0, 1], (2, 1), 2), False, True, True, True, False,
    ),
    "multinomial pairs": (
        lambda: rf.MultinomialPairs(np.eye(2), np.eye(2), [0, 1], 2), False, True, True, False, False,
    ),
    "ranked pairs": (
        lambda: rf.RankedPairs(np.eye(2), np.eye(2), np.eye(2, dtype=int), [0], [1]),
        False, True, True, False, False,
    ),
    "pairs": (lambda: rf.Pairs(np.eye(2), np.eye(2), [0.0, 1]), True, True, True, False, False),
    "regression": (lambda: rf.Regression(np.eye(2), np.eye(2)), True, True, True, False, False),
    "distances": (lambda: rf.Distances([[0, 1]], [1.0]), True, True, True, True, False),
    "triplets": (lambda: rf.Triplets([[0, 1, 2]]), False, True, True, False, False),
    "custom": (lambda: rf.Custom(lambda L, R: (L @ R.T).sum(), SHAPE), False, False, True, False, None),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_what_each_cost_is_known_for(name):
    make, *known = KNOWN[name]
    cost = make()
    assert [cost.quadratic, cost.nonnegative, cost.has_start, cost.has_line_blocks, cost.factored] == known
    if not cost.has_start:
        assert cost.value_at_zero == 0.0
