"""A small completion problem that every baseline solves, and the dense truth to check against."""

import numpy as np

import rankfold as rf


def instance(shape=(120, 100), rank=3, oversampling=4, seed=0, **options):
    return rf.data.random_completion(shape, rank, oversampling, seed, **options)


def completion(data, **options):
    return rf.Completion.from_triples(data, **options)


def dense(data):
    """W* and the mask of Ω, both dense."""
    mask = np.zeros(data.shape, dtype=bool)
    mask[data.rows, data.cols] = True
    return data.L @ data.R.T, mask


def solve(problem, method, x0=None, iterations=500, below=1e-20):
    stop = rf.stopping.ValueBelow(below)
    return rf.minimize(problem, method, x0=x0, max_iterations=iterations, tolerance=0, stop=stop)
