"""Every cost and combination, each with the same function of W written densely in torch.

A cost that joins `COSTS` gets the suite of `costs.suite`, and Taylor slopes on every geometry. Entries are
functions, called once when first asked for.
"""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import torch
from array_api_compat import array_namespace
from scipy import sparse

import rankfold as rf
from costs.choice_cases import multinomial, multinomial_pairs, ranked
from costs.losses import FORMULAS, named
from costs.suite import Case
from geometry.variants import dense, well_conditioned_point
from rankfold.costs.mapped import Features, Mapped
from rankfold.costs.offsets import GivenOffsets

SHAPE, RANK = (6, 5), 2
SEED = 13  # one whose W has entries well beyond 1, where the squared hinge is met
WHERE = np.random.default_rng(0).choice(30, 21, replace=False)
ROWS, COLS = WHERE // 5, WHERE % 5
VALUES = 1 + np.random.default_rng(1).standard_normal(21)
WEIGHTS = np.random.default_rng(2).uniform(0.5, 2, 21)
TARGET = np.random.default_rng(3).standard_normal(SHAPE)


def tensor(array):
    return torch.from_numpy(np.asarray(array, dtype=float))


def outcomes(loss, w, rng):
    """Data for the predictions w at the W of `SEED`; second derivatives jump at none of them."""
    if loss == "huber":  # the jump is where |w - y| = 1
        return w + rng.choice([-3.0, -0.5, 0.5, 3.0], w.size)
    if loss == "poisson":
        return rng.poisson(2.0, w.size).astype(float)
    if loss == "squared_hinge":  # where w = 1 for y = 1, w = -1 for y = 0
        met = np.abs(w) > 1.2
        assert 0 < met.sum() < w.size
        return ((w > 0) == met).astype(float)
    return rng.integers(0, 2, w.size).astype(float)


def build(kind, X, Z, pairs, y, weights, loss):
    """Return the cost of the outcomes y of these pairs."""
    if kind == "completion":
        return rf.Completion(*pairs.T, y, SHAPE, weights, loss)
    if kind == "pairs":
        return rf.Pairs(X, Z, y, loss, pairs, weights)
    Y = np.full((len(X), len(Z)), np.nan)
    Y[pairs[:, 0], pairs[:, 1]] = y
    return rf.Regression(X, Y, loss)


def with_loss(kind, loss):
    """Weighted (but regression), with kinks on both sides of the W of `SEED`."""
    rng = np.random.default_rng(SEED)
    X = np.eye(SHAPE[0]) if kind == "completion" else rng.standard_normal((9, SHAPE[0]))
    Z = rng.standard_normal((8, SHAPE[1])) if kind == "pairs" else np.eye(SHAPE[1])
    pairs = np.argwhere(rng.uniform(size=(len(X), len(Z))) < 0.8)
    geometry = rf.FullRank(SHAPE, RANK)
    W = dense(geometry, well_conditioned_point(geometry, SEED))
    y = outcomes(loss, (X @ W @ Z.T)[tuple(pairs.T)], rng)
    weights = np.ones(y.size) if kind == "regression" else rng.uniform(0.5, 2, y.size)
    x, z, t, v = (tensor(a) for a in (X[pairs[:, 0]], Z[pairs[:, 1]], y, weights))

    def function(W):
        return (v * FORMULAS[loss](torch.einsum("pi,ij,pj->p", x, W, z), t)).mean()

    return Case(build(kind, X, Z, pairs, y, weights, named(loss)), function, seed=SEED)


def plain(weights=None):
    return rf.Completion(ROWS, COLS, VALUES, SHAPE, weights)


def mean_square(W):
    return ((W[ROWS, COLS] - tensor(VALUES)) ** 2).mean()


def repeated():
    """Entries that come twice, with other values."""
    rows, cols, values = (
        np.append(ROWS, ROWS[:4]),
        np.append(COLS, COLS[:4]),
        np.append(VALUES, [1, 2, 3, 4.0]),
    )
    cost = rf.Completion(rows, cols, values, SHAPE, duplicates="keep")
    return Case(cost, lambda W: ((W[rows, cols] - tensor(values)) ** 2).mean())


def pairs(sparse_features=False, linear=False):
    rng = np.random.default_rng(4)
    X, Z, y = rng.standard_normal((12, 6)), rng.standard_normal((10, 5)), rng.standard_normal(40)
    if sparse_features:
        X, Z = (A * (rng.uniform(size=A.shape) < 0.4) for A in (X, Z))
    where = np.stack([rng.integers(0, len(A), 40) for A in (X, Z)], axis=1)
    forms = (sparse.csr_array(X), sparse.csc_array(Z)) if sparse_features else (X, Z)
    cost = rf.Pairs(*forms, y, pairs=where, linear=linear)
    if linear:
        X, Z = (np.hstack([A, np.ones((len(A), 1))]) for A in (X, Z))
    x, z = tensor(X)[where[:, 0]], tensor(Z)[where[:, 1]]
    return Case(cost, lambda W: (((x @ W) * z).sum(1) - tensor(y)).square().mean())


def regression(observations, as_sparse=False, missing=0.0):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((observations, 6)) * (
        rng.uniform(size=(observations, 6)) < (0.6 if as_sparse else 1)
    )
    Y = X @ rng.standard_normal((6, 5)) + rng.standard_normal((observations, 5))
    known = rng.uniform(size=Y.shape) >= missing
    cost = rf.Regression(sparse.csr_array(X) if as_sparse else X, np.where(known, Y, np.nan))
    return Case(cost, lambda W: (tensor(known) * (tensor(X) @ W - tensor(Y)) ** 2).sum() / known.sum())


def least_squares_of_offsets(w, rows, cols, mean, by_counts):
    """The penalised least squares of offsets as W ↦ value, by an explicit solution in all unknowns."""
    design = np.zeros((21, 12))
    design[np.arange(21), ROWS] = design[np.arange(21), 6 + COLS] = design[:, 11] = 1
    ridges = np.repeat([np.nan if ridge is None else ridge for ridge in (rows, cols, mean)], (*SHAPE, 1))
    if by_counts:
        ridges[:-1] *= design[:, :-1].T @ w
    A, rho, w = tensor(design[:, ~np.isnan(ridges)]), tensor(ridges[~np.isnan(ridges)]), tensor(w)
    H = torch.linalg.pinv(A.T @ (w[:, None] * A) + torch.diag(rho), hermitian=True)

    def function(W):
        e = tensor(VALUES) - W[ROWS, COLS]
        beta = H @ (A.T @ (w * e))
        return ((w * (e - A @ beta) ** 2).sum() + (rho * beta**2).sum()) / 21

    return function


def offsets(rows=5.0, cols=5.0, mean=0.0, by_counts=False, weights=None):
    cost = rf.WithOffsets(plain(weights), mean, rows, cols, by_counts)
    w = np.ones(21) if weights is None else weights
    return Case(cost, least_squares_of_offsets(w, rows, cols, mean, by_counts), eliminates=True)


def given_offsets(loss):
    rows, cols = np.linspace(-1, 1, 6), np.linspace(2, -1, 5)
    y = VALUES if loss == "square" else (VALUES > 1).astype(float)
    cost = GivenOffsets(rf.Completion(ROWS, COLS, y, SHAPE, loss=loss), rows, cols)
    shift = tensor(rows[:, None] + cols)
    return Case(cost, lambda W: FORMULAS[loss]((W + shift)[ROWS, COLS], tensor(y)).mean())


def mapped(core):
    """A cost of X W, the core being one of 6×5 matrices."""
    X = np.random.default_rng(6).standard_normal((6, 4))
    cost = Mapped(core.cost, Features.checked("X", X), Features(None, 5))
    return Case(cost, lambda W: core.dense(tensor(X) @ W))


def squared_distances(W):
    q = torch.diagonal(W)
    return q[:, None] + q[None, :] - W - W.T


def distances(loss="square", features=None, weights=None):
    rng = np.random.default_rng(8)
    where = np.array([(i, j) for i in range(9) for j in range(9) if i < j and rng.uniform() < 0.7])
    X = rng.standard_normal((9, 6)) if features == "dense" else np.eye(9)
    X = X if features else np.eye(6)
    where = where if features else where[(where < 6).all(1)]
    y = rng.uniform(1, 5, len(where))
    w = None if weights is None else rng.uniform(0.5, 2, len(where))
    cost = rf.Distances(where, y, features=X if features else None, weights=w, loss=named(loss))

    def function(W):
        D = squared_distances(tensor(X) @ W @ tensor(X).T)[where[:, 0], where[:, 1]]
        return (tensor(np.ones(len(y)) if w is None else w) * FORMULAS[loss](D, tensor(y))).mean()

    return Case(cost, function)


def triplets(loss, features=False):
    rng = np.random.default_rng(9)
    X = rng.standard_normal((8, 6)) if features else np.eye(6)
    where = np.array([rng.choice(len(X), 3, replace=False) for _ in range(15)])
    where = np.vstack([where, where[:2]])
    w = rng.uniform(0.5, 2, len(where))
    form = sparse.csr_array(X) if features else None
    cost = rf.Triplets(where, 6 if form is None else None, form, w, loss)
    i, j, k = where.T

    def function(W):
        D = squared_distances(tensor(X) @ W @ tensor(X).T)
        return (tensor(w) * FORMULAS[loss](D[i, k] - D[i, j], torch.ones(len(where)))).mean()

    return Case(cost, function)


MASK = np.zeros(SHAPE)
MASK[ROWS, COLS] = 1
D_R, D_C = (np.random.default_rng(7).uniform(0.5, 3, d) for d in SHAPE)


def square(W):
    return (W**2).sum()


def unseen(W):
    return (tensor(1 - MASK) * W**2).sum()


def nuclear(W, left=1.0, right=1.0):
    """By eigenvalues, of which autodiff passes only those that are not zero."""
    W = tensor(np.sqrt(np.outer(left, right))) * W
    return torch.sqrt(torch.linalg.eigvalsh(W @ W.T)[-RANK:].clamp(min=0)).sum()


def combined():
    a, b = plain(), rf.Unobserved(0.3, plain())
    cost = 2 * (a + rf.Frobenius(0.1)) + 0.5 * (b + 2 * a)
    return Case(cost, lambda W: 3 * mean_square(W) + 0.2 * square(W) + 0.15 * unseen(W))


def log_cosh(W):
    E = W - W.new_tensor(TARGET)
    return (torch.nn.functional.softplus(2 * E) - E).sum()


def partials(L, R):
    xp = array_namespace(L)
    E = L @ R.T - xp.asarray(TARGET, dtype=L.dtype)
    S = xp.tanh(E)
    return xp.sum(xp.log(2 * xp.cosh(E))), S @ R, S.T @ L


def partials_change(L, R, dL, dR):
    xp = array_namespace(L)
    S = xp.tanh(L @ R.T - xp.asarray(TARGET, dtype=L.dtype))
    dS = (1 - S**2) * (dL @ R.T + L @ dR.T)
    return dS @ R + S @ dR, dS.T @ L + S.T @ dL


class Cube(torch.autograd.Function):
    """W³ without a rule for forward mode, as an operation of one's own may be."""

    generate_vmap_rule = False

    @staticmethod
    def forward(W):
        return W**3

    @staticmethod
    def setup_context(context, inputs, output):
        context.save_for_backward(*inputs)

    @staticmethod
    def backward(context, grad):
        (W,) = context.saved_tensors
        return 3 * W**2 * grad


def cubes(W):
    return ((Cube.apply(W) + W - W.new_tensor(TARGET)) ** 2).sum()


COSTS = {
    **{
        f"{kind}, {loss}": partial(with_loss, kind, loss)
        for kind in ("completion", "pairs", "regression")
        for loss in FORMULAS
    },
    "completion": lambda: Case(plain(), mean_square),
    "completion, repeated entries": repeated,
    "pairs": pairs,
    "pairs, sparse": partial(pairs, sparse_features=True),
    "pairs, linear terms": partial(pairs, linear=True),
    "regression, n > q": partial(regression, 30),
    "regression, n < q": partial(regression, 4),
    "regression, sparse": partial(regression, 30, as_sparse=True),
    "regression, sparse and missing": partial(regression, 9, as_sparse=True, missing=0.3),
    "multinomial": multinomial,
    "multinomial, weighted": partial(multinomial, weighted=True),
    "multinomial, repeated entries": partial(multinomial, (2, 3), repeats=3),
    "multinomial pairs": multinomial_pairs,
    "multinomial pairs, sparse": partial(multinomial_pairs, as_sparse=True),
    "multinomial pairs, linear terms": partial(multinomial_pairs, linear=True),
    "ranked pairs": ranked,
    "ranked pairs, linear terms": partial(ranked, linear=True),
    "ranked pairs, square": partial(ranked, "square"),
    "offsets": offsets,
    "offsets, ridges": partial(offsets, 0.7, 3.0, 2.0),
    "offsets, by counts": partial(offsets, 0.1, 0.2, by_counts=True),
    "offsets, weighted": partial(offsets, 0.7, 3.0, 2.0, weights=WEIGHTS),
    "offsets of columns, free": partial(offsets, None, 0.0, None),
    "offsets of rows, free": partial(offsets, 0.0, None, None, weights=WEIGHTS),
    "offset of all entries": partial(offsets, None, None, 0.0),
    "offsets of rows and columns": partial(offsets, 0.0, 1.0, None),
    "given offsets": partial(given_offsets, "square"),
    "given offsets, logistic": partial(given_offsets, "logistic"),
    "mapped": lambda: mapped(Case(plain(), mean_square)),
    "mapped offsets": lambda: mapped(offsets(0.7, 3.0, 2.0)),
    "distances": distances,
    "distances, weighted": partial(distances, weights="uniform"),
    "distances, logarithms of counts": partial(distances, "poisson"),
    "distances, features": partial(distances, features="dense"),
    "triplets": partial(triplets, "logistic"),
    "triplets, features": partial(triplets, "logistic", features=True),
    "frobenius": lambda: Case(rf.Frobenius(0.3), lambda W: 0.3 * square(W)),
    "nuclear": lambda: Case(rf.Nuclear(0.3), lambda W: 0.3 * nuclear(W), smooth=False),
    "nuclear, weighted": lambda: Case(
        rf.Nuclear(0.3, D_R, D_C), lambda W: 0.3 * nuclear(W, D_R, D_C), smooth=False
    ),
    "nuclear, by counts": lambda: Case(
        rf.Nuclear.by_counts(0.3, plain()),
        lambda W: 0.6 / 21 * nuclear(W, MASK.sum(1), MASK.sum(0)),
        smooth=False,
    ),
    "unobserved": lambda: Case(rf.Unobserved(0.3, plain()), lambda W: 0.3 * unseen(W)),
    "sum": lambda: Case(plain() + rf.Frobenius(0.3), lambda W: mean_square(W) + 0.3 * square(W)),
    "sum with a norm": lambda: Case(
        2 * plain() + rf.Nuclear(0.01), lambda W: 2 * mean_square(W) + 0.01 * nuclear(W), smooth=False
    ),
    "sum of sums": combined,
    "custom": lambda: Case(rf.Custom(lambda L, R: log_cosh(L @ R.T), SHAPE), log_cosh),
    "custom, reverse mode twice": lambda: Case(rf.Custom(lambda L, R: cubes(L @ R.T), SHAPE), cubes),
    "custom, partials": lambda: Case(rf.Custom.from_partials(partials, SHAPE, partials_change), log_cosh),
}


@cache
def case(name):
    """Return the cost of that name with its truth."""
    return COSTS[name]()
