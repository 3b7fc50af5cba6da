"""A run is resumed on its own data only; and on these also where sums are rounded otherwise."""

import numpy as np
import pytest

import rankfold as rf
from rankfold.baselines import RTRMC, SVP, LMaFit
from rankfold.run import checkpoint as cp

ROWS, COLS = np.divmod(np.arange(60), 6)
KNOWN = np.arange(60) % 5 != 4
VALUES = np.sin(1.0 + np.arange(60) ** 1.5)
RNG = np.random.default_rng(0)
X, Z = RNG.standard_normal((60, 10)), RNG.standard_normal((60, 6))


def completion(values=VALUES, known=KNOWN, weights=None, loss="square"):
    return rf.Completion(ROWS[known], COLS[known], values[known], (10, 6), weights=weights, loss=loss)


def custom(values=VALUES):
    target = values.reshape(10, 6)

    def partials(L, R):
        E = L @ R.T - target
        return np.sum(E**2), 2 * E @ R, 2 * E.T @ L

    return rf.Custom.from_partials(partials, (10, 6))


COSTS = {
    "completion": completion,
    "poisson": lambda values=VALUES: completion(np.abs(values), loss="poisson"),
    "regularised": lambda values=VALUES: completion(values) + rf.Frobenius(0.1),
    "with offsets": lambda values=VALUES: rf.WithOffsets(completion(values)),
    "pairs": lambda values=VALUES: rf.Pairs(X, Z, values),
    "distances": lambda values=VALUES: rf.Distances(np.argwhere(np.triu(np.ones((12, 12)), 1))[:60], values),
    "regression": lambda values=VALUES: rf.Regression(X[:10], np.where(KNOWN, values, np.nan).reshape(10, 6)),
    "custom": custom,
}


def moved(order):
    """The known values in another order: the value at W = 0 stays."""
    values = VALUES.copy()
    values[KNOWN] = VALUES[KNOWN][order]
    return values


OTHERS = {
    "negated": -VALUES,
    "shuffled": moved(np.random.default_rng(1).permutation(48)),
    "mirrored": moved(np.arange(48)[::-1]),
    "two exchanged": moved(np.r_[1, 0, 2:48]),
}


def run(cost, **options):
    problem = rf.Problem(cost, rf.FullRank(cost.shape, 2))
    return rf.minimize(problem, rf.ConjugateGradient(), tolerance=0, **options)


def test_fingerprints_are_those_that_older_checkpoints_hold():
    """Sums of values with the multiples of square roots modulo 1, less a half; values at two such points."""

    def multiples(root, count):
        return np.array([(k * root**0.5) % 1.0 - 0.5 for k in range(1, count + 1)])

    found, norm = completion().fingerprint(), np.linalg.norm(VALUES[KNOWN])
    assert found["sum over the values"] == pytest.approx(multiples(2, 48) @ VALUES[KNOWN] / norm, abs=1e-12)
    second = multiples(5, 48) @ VALUES[KNOWN] / norm
    assert found["second sum over the values"] == pytest.approx(second, abs=1e-12)
    unit, target = np.sum(VALUES**2), VALUES.reshape(10, 6)
    expected = {
        name: np.sum((unit**0.5 * np.outer(multiples(i, 10), multiples(j, 6)) - target) ** 2) / unit
        for name, i, j in (("value at a fixed W", 2, 3), ("value at another fixed W", 5, 7))
    }
    assert custom().fingerprint() == pytest.approx(expected, abs=1e-12)


@pytest.fixture
def saved(tmp_path):
    def save(cost):
        run(cost, max_iterations=3, checkpoint=tmp_path / "run.ckpt")
        return tmp_path / "run.ckpt"

    return save


@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize("change", OTHERS)
def test_other_values_are_refused(saved, name, change):
    path = saved(COSTS[name]())
    if name == "poisson" and change == "negated":
        pytest.skip("counts have no sign")
    with pytest.raises(rf.CheckpointError, match=r"run\.ckpt.*is from other data: its .* is .*, here it is"):
        run(COSTS[name](OTHERS[change]), max_iterations=5, resume=path)


@pytest.mark.parametrize("name", COSTS)
def test_a_run_goes_on_where_its_data_differ_by_rounding_alone(saved, name):
    path = saved(COSTS[name]())
    rounded = VALUES * (1 + 1e-12 * np.cos(np.arange(60)))
    assert run(COSTS[name](rounded), max_iterations=5, resume=path).iterations == 5


@pytest.mark.parametrize(
    ("other", "part"),
    [
        ({"weights": np.linspace(1, 2, 48)}, "weights"),
        ({"known": KNOWN[::-1]}, "entries"),
        ({"loss": "huber"}, "loss"),
    ],
)
def test_the_part_that_differs_is_named(saved, other, part):
    path = saved(completion())
    with pytest.raises(rf.CheckpointError, match=rf"from other data: its (value at W = 0|{part}) is"):
        run(completion(**other), max_iterations=5, resume=path)


def test_weights_of_entries_must_be_the_same_to_the_last_bit_and_values_but_for_rounding(saved):
    weights, little = np.linspace(1, 2, 48), 1e-12 * np.cos(np.arange(60))
    path = saved(completion(weights=weights))
    assert (
        run(completion(VALUES * (1 + little), weights=weights), max_iterations=5, resume=path).iterations == 5
    )
    with pytest.raises(rf.CheckpointError, match="from other data: its weights is"):
        run(completion(weights=weights * (1 + little[:48])), max_iterations=5, resume=path)


def test_data_are_told_by_what_files_of_earlier_versions_hold():
    rows, cols = np.divmod(np.arange(10), 4)
    values = np.array([3.0, 1, 4, 1, 5, 9, 2, 6, 5, 3])
    cost = rf.Completion(rows, cols, values, (3, 4), weights=np.tile([0.5, 2.0], 5))
    known = (cost + rf.Frobenius(0.25)).fingerprint()
    digests = {name: known.pop(name) for name in list(known) if isinstance(known[name], str)}
    assert digests == {
        "entries (term 1)": "a81c4bf15fcfd75ebafbde7d4e8256c0",
        "weights (term 1)": "d09775fc6ac7e6732d1c73a6a5bdc79b",
        "loss (term 1)": "square(0.0)",
    }
    assert known == pytest.approx(
        {
            "sum over the values (term 1)": -0.2315473136328534,
            "second sum over the values (term 1)": -0.10786376495268325,
            "value at a fixed W": 0.9677901577573331,
            "value at another fixed W": 1.0223209560204363,
        },
        rel=1e-12,
    )


def test_another_weight_of_a_penalty_is_refused(saved):
    path = saved(completion() + rf.Frobenius(0.1))
    with pytest.raises(rf.CheckpointError, match="from other data: its value at a fixed W is"):
        run(completion() + rf.Frobenius(0.2), max_iterations=5, resume=path)


def test_the_order_of_the_entries_is_no_part_of_the_data(saved):
    path, order = saved(completion()), np.random.default_rng(2).permutation(np.flatnonzero(KNOWN))
    turned = rf.Completion(ROWS[order], COLS[order], VALUES[order], (10, 6))
    assert run(turned, max_iterations=5, resume=path).value == run(completion(), max_iterations=5).value


def test_a_cost_that_changes_behind_its_fingerprint_is_noticed_by_its_value(saved, monkeypatch):
    path = saved(completion())
    monkeypatch.setattr(rf.Completion, "fingerprint", lambda cost: {})
    with pytest.raises(rf.CheckpointError, match=r"run\.ckpt.*is from another cost: its point has the value"):
        run(completion(OTHERS["mirrored"]), max_iterations=5, resume=path)


def test_the_fingerprint_is_taken_once_a_run(tmp_path, monkeypatch):
    calls, honest = [], rf.Completion.fingerprint
    monkeypatch.setattr(rf.Completion, "fingerprint", lambda cost: (calls.append(1), honest(cost))[1])
    run(completion(), max_iterations=4, checkpoint=rf.Checkpoint(tmp_path / "run", every=1))
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("geometry", "method"),
    [(rf.FullRank, LMaFit()), (rf.Embedded, SVP()), (rf.SubspaceProjection, RTRMC())],
    ids=lambda thing: type(thing).__name__,
)
@pytest.mark.parametrize("cut", [slice(0, 1), slice(0, 0)])
def test_states_of_baselines_whose_arrays_do_not_fit_reach_no_kernel(tmp_path, geometry, method, cut):
    problem, path = rf.Problem(completion(), geometry((10, 6), 2)), tmp_path / "run.ckpt"
    rf.minimize(problem, method, max_iterations=2, tolerance=0, checkpoint=path)
    meta, arrays = cp.CHECKPOINTS.read(path)
    for name in [name for name, array in arrays.items() if array.ndim and not array.dtype.names]:
        with path.open("wb") as file:
            cp.CHECKPOINTS.write(file, meta, arrays | {name: arrays[name][cut]})
        try:
            result = rf.minimize(problem, method, max_iterations=5, tolerance=0, resume=path)
        except rf.CheckpointError:
            continue
        assert isinstance(result.error, ValueError)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_may_differ_by_what_other_processors_round(dtype):
    x, rounding = (np.ones(3, dtype), np.ones(2)), float(np.finfo(dtype).eps)
    for ours in (1 + 90 * rounding**0.5, 1 - 90 * rounding**0.5):
        cp._check_value("it", 1.0, ours, 1.0, x)
    cp._check_value("it", 0.0, 0.9 * rounding, 1.0, x)  # of exact data, what is left is rounding
    for saved, ours in ((1.0, 1 + 110 * rounding**0.5), (0.0, 1.1 * rounding)):
        with pytest.raises(cp.CheckpointError, match="'it' is from another cost: its point has the value"):
            cp._check_value("it", saved, ours, 1.0, x)


def test_data_are_compared_part_by_part():
    def same(there, here, smallest=1e-5):
        cp._check_data("it", {"part": there}, {"part": here}, smallest)

    alike = [("a", "a"), (1.0, 1 + 9e-6), (2, 2.0), (np.nan, np.nan), (0.0, 9e-6), (1e9, 1e9 + 9e3)]
    for there, here in alike:
        same(there, here)
    cp._check_data("it", {"other": 1.0}, {}, 0.0)
    nan = float("nan")
    apart = [("a", "b"), ("a", 1.0), (1.0, "a"), (None, 1.0), (1.0, 1 + 1.1e-5), (nan, 1.0), (1.0, nan)]
    for there, here in apart:
        with pytest.raises(cp.CheckpointError, match="'it' is from other data: its part is"):
            same(there, here, 0.0)


@pytest.mark.parametrize("shape", [(9, 6), (10, 7)])
def test_a_best_point_of_another_shape_is_refused(shape):
    cost = rf.Completion.from_triples(rf.data.random_completion((10, 6), 1, 2, seed=0))
    problem = rf.Problem.of(cost, 2)
    own, other = problem.geometry.random_point(0), rf.FullRank(shape, 2).random_point(0)
    with pytest.raises(ValueError, match=r"must have shape \((10|6), r\)"):
        cp._checked_best((other, 1.0, 1.0), problem)
    assert cp._checked_best((own, 1, 2), problem) == (own, 1.0, 2.0)
