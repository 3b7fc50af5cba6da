"""Ratings with a known truth, and models of them."""

import functools

import numpy as np

import rankfold as rf


def ratings(shape=(60, 40), rank=2, entries=1200, noise=0.3, seed=0):
    """Pairs and values with offsets, low rank and noise, and the truth without noise."""
    rng = np.random.default_rng(seed)
    L, R = (rng.standard_normal((d, rank)) for d in shape)
    truth = L @ R.T + 3 + rng.standard_normal(shape[0])[:, None] + rng.standard_normal(shape[1])
    places = rng.permutation(truth.size)[:entries]
    pairs = np.stack(np.unravel_index(places, shape), axis=1)
    return pairs, truth[tuple(pairs.T)] + noise * rng.standard_normal(entries), truth


def rmse(a, b):
    return float(np.sqrt(np.mean((np.asarray(a) - np.asarray(b)) ** 2)))


def model(**options):
    return rf.MatrixCompletion(**{"rank": 2, "random_state": 0} | options)


@functools.cache
def fitted_once(**options):
    """A model of `ratings()`, which many tests look at and none changes."""
    return model(**options).fit(*ratings()[:2])


def everywhere(fitted, shape=(60, 40)):
    return fitted.predict(np.stack(np.indices(shape), axis=-1).reshape(-1, 2)).reshape(shape)
