"""Costs of choices, categories and comparisons, each with the same function of W written in torch."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse

import rankfold as rf
from costs.losses import FORMULAS
from costs.suite import Case


def tensor(array):
    return torch.from_numpy(np.asarray(array, dtype=float))


def softmax_loss(logits, codes, weights):
    """Logits of one entry a row; a category that a column has not has the logit -inf."""
    chosen = logits[torch.arange(len(codes)), torch.as_tensor(codes)]
    return (tensor(weights) * (torch.logsumexp(logits, 1) - chosen)).mean()


def multinomial(categories=(3, 2), weighted=False, repeats=0):
    """A table of two columns, whose logits have three columns of W, and two; some entries come twice."""
    rng = np.random.default_rng(8)
    rows, cols = np.divmod(rng.permutation(12)[:10], 2)
    rows, cols = np.append(rows, rows[:repeats]), np.append(cols, cols[:repeats])
    counts = np.asarray(categories)[cols]
    codes = rng.integers(0, counts)
    weights = rng.uniform(0.5, 2, rows.size)
    options = {"weights": weights if weighted else None, "duplicates": "keep" if repeats else "error"}
    cost = rf.Multinomial(rows, cols, codes, (6, 2), categories, **options)
    starts = np.array([0, categories[0]])[cols]
    places = starts[:, None] + np.arange(3)
    there = torch.as_tensor(np.arange(3) < counts[:, None])
    weights = weights if weighted else np.ones(rows.size)

    def function(W):
        logits = W[torch.as_tensor(rows)[:, None], torch.as_tensor(places.clip(max=4))]
        return softmax_loss(torch.where(there, logits, -torch.inf), codes, weights)

    return Case(cost, function)


def multinomial_pairs(linear=False, as_sparse=False):
    """Three classes; with linear terms W is 7×6, of 6 features and 1, else 6×5, of one class and 5."""
    rng, K = np.random.default_rng(9), 3 if linear else 5
    X, Z = rng.standard_normal((8, 6)), rng.standard_normal((7, 1))
    where = np.stack([rng.integers(0, len(A), 30) for A in (X, Z)], axis=1)
    codes, weights = rng.integers(0, K, 30), rng.uniform(0.5, 2, 30)
    given = (sparse.csr_array(X), sparse.csc_array(Z)) if as_sparse else (X, Z)
    cost = rf.MultinomialPairs(*given, codes, K, where, weights, linear)
    if linear:
        X, Z = (np.hstack([A, np.ones((len(A), 1))]) for A in (X, Z))
    x, z = tensor(X)[where[:, 0]], tensor(Z)[where[:, 1]]

    def function(W):
        parts = W.reshape(W.shape[0], Z.shape[1], K)  # column K j + k: feature j, class k
        return softmax_loss(torch.einsum("pi,ijk,pj->pk", x, parts, z), codes, weights)

    return Case(cost, function)


def ranked(loss="logistic", linear=False):
    """Comparisons of pairs, some of which share neither thing, and some come twice."""
    rng = np.random.default_rng(10)
    X, Z = rng.standard_normal((8, 6)), rng.standard_normal((7, 5))
    where = np.stack([rng.integers(0, len(A), 20) for A in (X, Z)], axis=1)
    better, worse = rng.integers(0, 20, (2, 45))
    weights = rng.uniform(0.5, 2, 45)
    cost = rf.RankedPairs(X, Z, where, better, worse, loss, weights, linear)
    if linear:
        X, Z = (np.hstack([A, np.ones((len(A), 1))]) for A in (X, Z))
    x, z = tensor(X)[where[:, 0]], tensor(Z)[where[:, 1]]

    def function(W):
        s = torch.einsum("pi,ij,pj->p", x, W, z)
        return (tensor(weights) * FORMULAS[loss](s[better] - s[worse], 1.0)).mean()

    return Case(cost, function)
