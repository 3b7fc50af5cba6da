"""What a user tries first is right: data of low rank, exact or noisy, with offsets or without."""

import numpy as np
import pytest

import rankfold as rf

SHAPE = 200, 150


def instance(offsets=False, noise=0.0, scale=1.0, shape=SHAPE, rank=2, per_row=25):
    """Pairs, values and the truth; `noise` is relative to the size of the truth."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    if offsets:
        truth += 3 + rng.standard_normal((shape[0], 1)) + rng.standard_normal(shape[1])
    cols = np.concatenate([rng.choice(shape[1], per_row, replace=False) for _ in range(shape[0])])
    pairs = np.stack([np.repeat(np.arange(shape[0]), per_row), cols], axis=1)
    values = truth[tuple(pairs.T)] + noise * truth.std() * rng.standard_normal(len(pairs))
    return pairs, scale * values, scale * truth


def error(fitted, truth):
    """The relative error of the whole matrix."""
    places = np.stack(np.indices(truth.shape), axis=-1).reshape(-1, 2)
    return np.linalg.norm(fitted.predict(places) - truth.ravel()) / np.linalg.norm(truth)


@pytest.mark.parametrize(
    ("settings", "bound"),
    [
        ({}, 1e-6),
        ({"offsets": True}, 1e-6),
        pytest.param({"scale": 1e6}, 1e-6, marks=pytest.mark.soak),
        ({"scale": 1e-6, "offsets": True}, 1e-6),
        pytest.param({"noise": 1 / 10}, 0.045, marks=pytest.mark.soak),
        ({"noise": 1 / 3}, 0.145),
        ({"noise": 1 / 3, "offsets": True}, 0.18),
    ],
)
def test_the_true_rank_is_all_that_has_to_be_said(settings, bound):
    pairs, values, truth = instance(**settings)
    assert error(rf.MatrixCompletion(rank=2, random_state=0).fit(pairs, values), truth) <= bound


@pytest.mark.parametrize("seed", [0, pytest.param(2, marks=pytest.mark.soak)])
def test_exact_data_with_offsets_end_as_converged(seed):
    """The least shrinkage that offsets can have is none here: what it charged took hundreds of iterations."""
    rng = np.random.default_rng(seed)
    truth = 3 + rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40))
    truth += rng.standard_normal((60, 1)) + rng.standard_normal(40)
    pairs = np.argwhere(rng.random(truth.shape) < 0.6)
    fitted = rf.MatrixCompletion(2, random_state=0).fit(pairs, truth[tuple(pairs.T)])
    assert fitted.converged_
    assert fitted.n_iter_ < 20
    assert error(fitted, truth) < 1e-9
    assert min(fitted.shrinkage_) > 0


def test_and_not_even_that():
    pairs, values, truth = instance(shape=(120, 90), per_row=20)
    fitted = rf.MatrixCompletion(rank="auto", random_state=0).fit(pairs, values)
    assert error(fitted, truth) <= 1e-6


@pytest.mark.parametrize(
    "settings",
    [
        {"noise": 1 / 3},
        pytest.param({"shape": (300, 200), "rank": 3, "per_row": 10}, marks=pytest.mark.soak),
    ],
)
def test_nothing_given_is_as_good_as_the_true_rank(settings):
    pairs, values, truth = instance(**settings)
    fitted = rf.MatrixCompletion(random_state=0).fit(pairs, values)
    assert fitted.rank_ == settings.get("rank", 2)
    assert error(fitted, truth) <= (0.145 if "noise" in settings else 1e-6)


def test_a_rank_above_the_usual_one_is_found():
    pairs, values, truth = instance(shape=(90, 80), rank=13, per_row=60)
    fitted = rf.MatrixCompletion(bias=False, random_state=0).fit(pairs, values)
    assert fitted.rank_ >= 13
    assert fitted.rank_path_.ranks == tuple(sorted(fitted.rank_path_.ranks))
    assert error(fitted, truth) <= 0.05


@pytest.mark.parametrize("mean", [1.0, 5.0])
def test_counts_have_negative_losses_and_may_be_large(mean):
    rng = np.random.default_rng(0)
    truth = mean + 0.7 * rng.standard_normal((80, 2)) @ rng.standard_normal((2, 60))
    pairs = np.argwhere(rng.random(truth.shape) < 0.5)
    y = rng.poisson(np.exp(truth[tuple(pairs.T)])).astype(float)
    fitted = rf.MatrixCompletion(rank=2, loss="poisson", random_state=0).fit(pairs, y)
    predicted = np.log(fitted.predict(np.argwhere(np.ones(truth.shape))).reshape(truth.shape))
    assert np.sqrt(np.mean((predicted - truth) ** 2)) < 0.4 * truth.std()


@pytest.mark.parametrize("bias", [True, False])
def test_a_few_very_large_counts_do_not_end_the_path_at_w_zero(bias):
    """Next to W = 0 the largest counts alone decide, and the others' losses rise before they fall."""
    rng = np.random.default_rng(0)
    truth = np.exp(0.7 * rng.standard_normal((200, 2)) @ rng.standard_normal((2, 150)))
    pairs = np.argwhere(rng.random(truth.shape) < 0.3)
    y = rng.poisson(truth[tuple(pairs.T)]).astype(float)
    fitted = rf.MatrixCompletion(rank=2, bias=bias, loss="poisson", random_state=0).fit(pairs, y)
    path = fitted.regularization_path_
    assert fitted.regularization_ < 0.01 * path.regularizations[0]
    assert min(path.errors) < path.errors[0] - 3
    assert error(fitted, truth) < 0.5


def test_four_ratings_and_a_small_table_fit():
    pairs = [("ann", "Dune"), ("ann", "Heat"), ("bob", "Dune"), ("cyd", "Heat")]
    fitted = rf.MatrixCompletion(random_state=0).fit(pairs, [5.0, 1.0, 4.0, 2.0])
    assert fitted.converged_
    assert fitted.regularization_ > 0
    assert fitted.rank_ == 2  # no W of three rows and two columns has a higher one
    assert fitted.predict([("bob", "Heat")])[0] < fitted.predict([("bob", "Dune")])[0]
    rng = np.random.default_rng(0)
    truth = np.outer(rng.standard_normal(6), rng.standard_normal(5))
    known = np.argwhere(rng.random((6, 5)) < 0.8)
    fitted = rf.MatrixCompletion(rank=1, random_state=0).fit(known, truth[tuple(known.T)])
    assert error(fitted, truth) < 0.1


def test_noise_alone_is_predicted_by_its_mean():
    rng = np.random.default_rng(0)
    pairs = np.argwhere(rng.random((60, 50)) < 0.4)
    fitted = rf.MatrixCompletion(random_state=0).fit(pairs, rng.standard_normal(len(pairs)))
    assert fitted.predict(pairs).std() < 0.35  # one of rank 10 could follow most of it
    path = fitted.regularization_path_
    assert path.chosen in path.regularizations[:2]  # W = 0, or next to it
    assert min(fitted.shrinkage_) > 50


@pytest.mark.parametrize(
    ("weight", "rank", "columns"), [(1.0, 8, 80), (2.0, 8, 80), (3.0, 8, 80), (2.0, 16, 16)]
)
def test_the_penalised_fit_reaches_its_minimum_where_that_has_a_lower_rank(weight, rank, columns):
    """That of Σ (y - W)² + 2λ ‖D_r^½ W D_c^½‖_*, beside alternating least squares from elsewhere."""
    rng = np.random.default_rng(5)
    truth = rng.standard_normal((100, 2)) @ rng.standard_normal((2, columns))
    known = rng.random((100, columns)) < 0.4
    pairs = np.argwhere(known)
    y = truth[known] + rng.standard_normal(len(pairs))
    fitted = rf.MatrixCompletion(rank=rank, bias=False, regularization=weight, random_state=0).fit(pairs, y)
    assert fitted.converged_
    Y = np.zeros((100, columns))
    Y[known] = y
    L, R = fitted.factors_
    roots = [np.sqrt(np.sqrt(known.sum(axis=k))) for k in (1, 0)]
    found = objective(Y, known, roots, weight, L @ R.T)
    start = (np.random.default_rng(1).standard_normal((d, rank)) for d in Y.shape)
    best = alternating(Y, known, roots, weight, *start)
    assert found <= best * (1 + 1e-6)


def objective(Y, known, roots, weight, W):
    nuclear = np.linalg.svd(roots[0][:, None] * W * roots[1], compute_uv=False).sum()
    return ((W - Y)[known] ** 2).sum() + 2 * weight * nuclear


def alternating(Y, known, roots, weight, L, R, sweeps=150):
    """The least value that alternating least squares finds, from these factors on."""
    for _ in range(sweeps):
        for k, (A, B) in enumerate(((L, R), (R, L))):
            mask, values = (known, Y) if k == 0 else (known.T, Y.T)
            Q = np.einsum("ij,jk,jm->ikm", mask.astype(float), B, B, optimize=True)
            Q[:, np.arange(B.shape[1]), np.arange(B.shape[1])] += weight * roots[k][:, None] ** 2
            A[:] = np.linalg.solve(Q, (values @ B)[..., None])[..., 0]
    return objective(Y, known, roots, weight, L @ R.T)
