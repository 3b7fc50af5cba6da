from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import rankfold as rf
from dense import DenseCost
from geometry.variants import VARIANTS
from rankfold.linalg import svd_of_product
from rankfold.problem import Counts
from rankfold.run.checkpoint import Checkpoint
from rankfold.solvers.continuation import ContinuationState
from rankfold.solvers.growth import collapsed, dominant_pairs, grown, truncated


def completion(shape=(120, 100), rank=3, oversampling=6.0, seed=0, **options):
    data = rf.data.random_completion(shape, rank, oversampling, seed, min_per_line=True, **options)
    return data, rf.Completion.from_triples(data)


def preconditioned(cost, rank):
    return rf.Problem(cost, rf.FullRank(cost.shape, rank, metric="preconditioned"))


SOLVERS = {"cg": rf.ConjugateGradient(), "tr": rf.TrustRegion(), "gd": rf.GradientDescent()}


# Conjugate gradients crawl where U and Y live on scales as different as 1 and 100, at any rank.
PAIRS = [(v, s) for v in VARIANTS for s in ("cg", "tr") if (v, s) != ("UY-euclidean", "cg")]


@pytest.mark.parametrize(("variant", "solver"), PAIRS)
def test_solves_completion_in_every_geometry(variant, solver):
    data = VARIANTS[variant].completion((120, 100), 2, 6.0, 0, min_per_line=True, condition=3.0)
    problem = rf.Problem(rf.Completion.from_triples(data), VARIANTS[variant](data.shape, 2))
    method = rf.RankContinuation(SOLVERS[solver], slow=0.01)
    result = rf.minimize(problem, method, tolerance=1e-12, max_iterations=1000)
    assert result.converged
    assert data.relative_error(*result.factors) < 1e-5


@pytest.mark.parametrize("solver", SOLVERS)
def test_grows_on_a_cost_that_is_not_quadratic(solver):
    cost = DenseCost((20, 15))
    problem = preconditioned(cost, 4)
    result = rf.minimize(problem, rf.RankContinuation(SOLVERS[solver]), tolerance=0, max_iterations=300)
    at_once = rf.minimize(problem, rf.TrustRegion(), tolerance=0, max_iterations=300)
    assert [row.note for row in result.trace if row.note.startswith("rank")] == [
        f"rank {k}" for k in (1, 2, 3, 4)
    ]
    assert result.value <= at_once.value * 1.05


def test_solves_what_the_spectral_start_does_not_hold():
    data, cost = completion((400, 400), 5, 5.0, condition=1e5)
    problem = preconditioned(cost, 5)
    assert not rf.minimize(problem, rf.ConjugateGradient(), tolerance=1e-20, max_iterations=300).converged
    result = rf.minimize(problem, rf.RankContinuation(), tolerance=1e-20, max_iterations=300)
    assert result.converged
    assert data.relative_error(*result.factors) < 1e-8


def test_grows_several_directions_at_a_time():
    _, cost = completion(rank=5)
    result = rf.minimize(preconditioned(cost, 5), rf.RankContinuation(start=1, grow=3), tolerance=1e-16)
    assert result.converged
    assert [row.note for row in result.trace if row.note] == ["rank 1", "rank 4", "rank 5"]


def test_stops_below_the_rank_asked_for_when_nothing_is_left():
    data, cost = completion(rank=2)
    problem = preconditioned(cost, 5)
    result = rf.minimize(problem, rf.RankContinuation(slow=1e-3), tolerance=1e-20)
    assert result.converged
    assert result.factors[0].shape[1] == result.geometry.rank == 2
    assert repr(result.geometry) == repr(problem.with_rank(2).geometry)
    result.geometry.validate(result.x)
    assert data.relative_error(*result.factors) < 1e-8


def test_may_go_on_above_the_rank_of_the_problem():
    data, cost = completion(rank=3)
    problem = preconditioned(cost, 1)
    result = rf.minimize(problem, rf.RankContinuation(last=3), tolerance=1e-16)
    assert result.converged
    assert result.geometry.rank == 3
    assert data.relative_error(*result.factors) < 1e-6
    lower = rf.minimize(preconditioned(cost, 3), rf.RankContinuation(last=2), max_iterations=60)
    assert [row.note for row in lower.trace if row.note.startswith("rank")] == ["rank 1", "rank 2"]
    with pytest.raises(ValueError, match="rank"):
        rf.minimize(problem, rf.RankContinuation(last=101))


def test_a_collapsed_singular_value_takes_the_rank_down():
    _, cost = completion(rank=2)
    problem = preconditioned(cost, 3)
    x = problem.geometry.from_svd(*_svd_with((3.0, 2.0, 1e-15), cost.shape))
    method = rf.RankContinuation(start=3)
    state = method.init(problem, x)
    assert collapsed(problem, x) == 1
    changed = method._changed(problem, state)
    assert (changed.rank, changed.limit) == (2, 2)


@pytest.mark.parametrize(
    ("says", "stationary"), [({}, False), ({"stationary": False}, False), ({"stationary": True}, True)]
)
def test_a_solver_that_stalls_at_the_last_rank_ends_it_for_its_own_reason(says, stationary):
    _, cost = completion(rank=2)
    problem = preconditioned(cost, 2)
    inner = SimpleNamespace(x=problem.start(), stalled="the disk is full", **says)
    state = ContinuationState(inner=inner, rank=2, limit=2, ripe=True)
    ended = rf.RankContinuation().step(problem, state)
    assert (ended.stalled, ended.stationary) == ("the disk is full", stationary)
    assert ended.report.step == 0.0


def test_the_rank_grows_when_an_iteration_gains_too_little():
    _, cost = completion(rank=2)
    problem = preconditioned(cost, 2)
    state = rf.RankContinuation().init(problem, problem.start())
    after = rf.RankContinuation(slow=0.0).step(problem, state)
    gain = 1 - after.value / state.value
    assert 0.01 < gain < 0.9
    for slow in (0.99 * gain, 1.01 * gain):
        assert rf.RankContinuation(slow=slow).step(problem, state).ripe == (slow > gain)
        last = replace(state, limit=1)
        assert not rf.RankContinuation(slow=slow).step(problem, last).ripe


def _svd_with(values, shape, seed=0):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((d, len(values))))[0] for d in shape)
    return U, np.array(values), V


def test_resumes_at_any_rank_to_the_same_numbers(tmp_path):
    _, cost = completion(rank=3, condition=100.0)
    problem, method = preconditioned(cost, 3), rf.RankContinuation()
    whole = rf.minimize(problem, method, tolerance=1e-16)
    for k in range(0, whole.iterations, 3):
        path = tmp_path / f"run{k}"
        rf.minimize(problem, method, tolerance=1e-16, max_iterations=k, checkpoint=Checkpoint(path, every=1))
        resumed = rf.minimize(problem, method, tolerance=1e-16, resume=path)
        assert [row._replace(seconds=0.0) for row in resumed.trace].__repr__() == [
            row._replace(seconds=0.0) for row in whole.trace
        ].__repr__()


def test_dominant_pairs_are_no_more_than_the_matrix_has_left():
    """Of a 6 × 4 matrix at rank 2, two pairs are outside W, however many are asked for."""
    cost = DenseCost((6, 4))
    L, R = (np.random.default_rng(k).standard_normal((d, 2)) for k, d in enumerate((6, 4)))
    S = cost.evaluate(np.hstack([L, np.zeros((6, 4))]), np.hstack([R, np.eye(4)])).f_L[:, 2:]
    U, s, V = dominant_pairs(cost, L, R, 9)
    outside = [np.eye(len(Z)) - Z @ np.linalg.pinv(Z) for Z in (L, R)]
    expected = np.linalg.svd(outside[0] @ S @ outside[1], compute_uv=False)[:2]
    np.testing.assert_allclose(s, expected, rtol=1e-10)
    np.testing.assert_allclose(U * s @ V.T, outside[0] @ S @ outside[1], atol=1e-10 * expected[0])


def test_dominant_pairs_of_the_gradient():
    cost = DenseCost((30, 25))
    L, R = np.zeros((30, 0)), np.zeros((25, 0))
    U, s, V = dominant_pairs(cost, L, R, 2)
    S = np.tanh(-cost.C)
    assert np.allclose(s, np.linalg.svd(S, compute_uv=False)[:2], rtol=1e-2)
    assert np.allclose(np.linalg.norm(S @ V, axis=0), s, rtol=1e-2)
    assert np.allclose(np.abs(np.diagonal(U.T @ S @ V)), s, rtol=1e-2)


@pytest.mark.parametrize("settled", [0.0, 1e-9])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("rank", [1, 2])
def test_the_only_direction_that_is_left_is_found(rank, count, settled):
    """Where the gradient outside W has rank 1, all further directions are rounding."""
    rng = np.random.default_rng(rank)
    L, R, u, v = (rng.standard_normal((d, k)) for k in (rank, 1) for d in (30, 25))
    i, j = np.indices((30, 25)).reshape(2, -1)
    cost = rf.Completion(i, j, (L @ R.T + u @ v.T)[i, j], (30, 25))
    U, s, V = dominant_pairs(cost, L, R, count, settled=settled)
    a, b = (z - Z @ np.linalg.lstsq(Z, z)[0] for z, Z in ((u, L), (v, R)))
    size = 2 / (30 * 25) * np.linalg.norm(a) * np.linalg.norm(b)
    np.testing.assert_allclose(s, [size, 0.0][:count], atol=1e-12 * size)
    np.testing.assert_allclose((U * s) @ V.T, -2 / (30 * 25) * a @ b.T, atol=1e-12 * size)


def test_growth_steps_exactly_to_the_least_value_on_its_line():
    _, cost = completion(rank=3)
    problem = preconditioned(cost, 1)
    x = problem.start()
    L, R = problem.with_rank(2).geometry.factors(grown(problem, x))
    L0, R0 = problem.geometry.factors(x)
    U, s, Vt = np.linalg.svd(L @ R.T - L0 @ R0.T)
    beside = [
        cost.value(np.hstack([L, e * s[:1] * U[:, :1]]), np.hstack([R, Vt[:1].T])) for e in (-0.01, 0.01)
    ]
    assert cost.value(L, R) < min(beside)


class Asked(DenseCost):
    """Counts what it is asked."""

    def __init__(self, shape):
        super().__init__(shape)
        self.values = self.products = self.derivatives = 0

    def value(self, L, R):
        self.values += 1
        return super().value(L, R)

    def derivative(self, L, R, dL, dR):
        self.derivatives += 1
        return super().derivative(L, R, dL, dR)

    def gradient_products(self, L, R):
        products = super().gradient_products(L, R)

        def counted(X, Y):
            self.products += 1
            return products(X, Y)

        return counted


def test_growth_counts_the_work_that_it_takes():
    """A pair of products with the gradient counts as a gradient, a curvature as a Hessian product."""
    cost = Asked((60, 50))
    problem = preconditioned(cost, 1)
    x = problem.geometry.from_svd(*_svd_with((20.0,), cost.shape))  # far off: Newton's step is too long
    assert grown(problem, x) is not None
    counts = problem.counts
    assert (counts.hessians, cost.derivatives) == (1, 1)
    assert counts.values == cost.values > 0
    assert counts.gradients == cost.products + 1 == 11  # one for the value here


def test_symmetric_pairs_take_two_products_each():
    cost, counts = Asked((20, 20)), Counts()
    L = np.random.default_rng(0).standard_normal((20, 2))
    dominant_pairs(cost, L, L, 1, symmetric=True, counts=counts)
    assert counts.gradients == cost.products == 18  # nine times two: of width 2 there is no more room


def one_pair_left():
    """A completion at rank 1, of whose gradient one pair stands out; and that pair, outside W."""
    data, cost = completion((300, 250), 2, 12.0, condition=3.0)
    U, s, V = svd_of_product(data.L, data.R)
    L, R = U[:, :1] * s[0], V[:, :1]
    S = cost.gradient_matrix(L, R) @ np.eye(250)
    u, _, vt = np.linalg.svd(
        S - U[:, :1] @ (U[:, :1].T @ S) - (S @ R) @ R.T + L @ (L.T @ S @ R) @ R.T / s[0] ** 2
    )
    return cost, L, R, u[:, 0], vt[0]


class Watched:
    """A matrix that counts its products on each side."""

    def __init__(self, S):
        self.S, self.asked = S, [0, 0]

    def __matmul__(self, X):
        self.asked[0] += 1
        return self.S @ X

    def transposed_times(self, Y):
        self.asked[1] += 1
        return self.S.transposed_times(Y)


def test_the_search_ends_when_singular_values_settle(monkeypatch):
    cost, L, R, u, v = one_pair_left()
    counts, S = Counts(), Watched(cost.gradient_matrix(L, R))
    monkeypatch.setattr(cost, "gradient_matrix", lambda L, R: S)
    U, s, V = dominant_pairs(cost, L, R, 1, settled=0.02, counts=counts)
    assert abs(U[:, 0] @ u) > 0.999
    assert abs(V[:, 0] @ v) > 0.9999  # a product nearer
    assert counts.gradients == 3
    assert S.asked == [3, 3]
    (fine,) = dominant_pairs(cost, L, R, 1, settled=1e-9)[1]
    assert 1e-9 < 1 - s[0] / fine < 0.001
    soon = Counts()
    dominant_pairs(cost, L, R, 1, settled=0.9, counts=soon)
    assert soon.gradients == 2


def test_a_search_that_does_not_settle_ends_after_ten_products():
    rng = np.random.default_rng(0)
    i, j = np.indices((60, 50)).reshape(2, -1)
    cost, counts = rf.Completion(i, j, rng.standard_normal(3000), (60, 50)), Counts()
    dominant_pairs(cost, np.zeros((60, 0)), np.zeros((50, 0)), 1, settled=1e-12, counts=counts)
    assert counts.gradients == 10


@pytest.mark.parametrize("settled", [0.0, 0.02])
def test_other_searches_take_all_ten_products(settled):
    cost, L, R, u, v = one_pair_left()
    counts = Counts()
    U, _, V = dominant_pairs(cost + rf.Frobenius(0.0), L, R, 1, settled=settled, counts=counts)
    assert counts.gradients == 10
    assert min(abs(U[:, 0] @ u), abs(V[:, 0] @ v)) > 0.999
    again = Counts()
    dominant_pairs(cost, L, R, 1, settled=0.0, counts=again)
    assert again.gradients == 10


def test_growth_of_a_quadratic_cost_asks_for_one_polynomial():
    """And for no evaluation of the point that it starts from, if that is known."""
    _, cost = completion(rank=3)
    problem = preconditioned(cost, 1)
    here = problem.at(problem.start())
    assert here.value > 0
    before = replace(problem.counts)
    assert grown(problem, here.x, here=here) is not None
    assert problem.counts == replace(before, gradients=before.gradients + 10, polynomials=1)
    assert grown(problem, here.x) is not None
    assert problem.counts.gradients == before.gradients + 21


def test_a_continuation_hands_on_what_it_knows_and_when_to_end_a_search():
    _, cost = completion(rank=2, oversampling=10.0)
    problem, gradients = preconditioned(cost, 2), []
    for settled in (0.0, 0.02):
        method = rf.RankContinuation(settled=settled)
        state = replace(method.init(problem, problem.start()), ripe=True)
        before = problem.counts.gradients
        assert method.step(problem, state).rank == 2
        gradients.append(problem.counts.gradients - before)
    assert gradients[0] == 11  # ten products, and the evaluation at the new point
    assert gradients[1] < 8


def test_truncation_is_the_best_approximation():
    problem = preconditioned(DenseCost((9, 7)), 3)
    x = problem.geometry.random_point(seed=0)
    L, R = problem.geometry.factors(x)
    A, B = problem.geometry.factors(truncated(problem, x, 1))
    s = np.linalg.svd(L @ R.T, compute_uv=False)
    assert np.isclose(np.linalg.norm(L @ R.T - A @ B.T) ** 2, np.sum(s[1:3] ** 2))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("start", 0),
        ("grow", 0),
        ("slow", 1.0),
        ("slow", -1e-9),
        ("last", 0),
        ("settled", 1.0),
        ("settled", -1e-9),
    ],
)
def test_options_are_checked(option, value):
    with pytest.raises(ValueError, match=option):
        rf.RankContinuation(**{option: value})


@pytest.mark.parametrize("part", [0.0, 0.25, 0.9])
def test_a_threshold_shortens_the_new_pair_as_a_nuclear_norm_would(part):
    """mean (W - A)² + λ‖W‖_* is least where singular values of A are less by λ d1 d2 / 2."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((d, 7)))[0] for d in (9, 7))
    A, least = U * [5.0, 2.0, 0.4, 0.3, 0.2, 0.1, 0.05] @ V.T, 2 * 2.0 / 63
    problem = rf.Problem(rf.Completion.from_dense(A), rf.FullRank((9, 7), 1))
    x = problem.geometry.from_svd(U[:, :1], np.array([5.0]), V[:, :1])
    L, R = problem.with_rank(2).geometry.factors(grown(problem, x, threshold=part * least))
    np.testing.assert_allclose(L @ R.T, U[:, :2] * [5.0, (1 - part) * 2.0] @ V[:, :2].T, atol=1e-8)
    assert grown(problem, x, threshold=1.01 * least) is None
