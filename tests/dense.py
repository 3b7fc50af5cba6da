"""A smooth cost of a small dense W, written in the plainest way: the truth that geometries are tested on."""

from __future__ import annotations

from math import log

import numpy as np
from array_api_compat import array_namespace

from rankfold.costs.base import Cost, Evaluation


class DenseCost(Cost):
    """f(W) = Σ log cosh(W − C): smooth, convex, and quadratic nowhere."""

    def __init__(self, shape, seed=0):
        self.shape = shape
        self.C = np.random.default_rng(seed).standard_normal(shape)

    def _residual(self, L, R):
        xp = array_namespace(L)
        return L @ R.T - xp.asarray(self.C, dtype=L.dtype)

    def evaluate(self, L, R):
        E = self._residual(L, R)
        xp = array_namespace(L)
        S = xp.tanh(E)
        A = xp.abs(E)
        value = xp.sum(A + xp.log1p(xp.exp(-2 * A)) - log(2.0))
        return Evaluation(float(value), S @ R, S.T @ L)

    def derivative(self, L, R, dL, dR):
        xp = array_namespace(L)
        E = self._residual(L, R)
        S = xp.tanh(E)
        dS = (1 - S * S) * (dL @ R.T + L @ dR.T)
        return dS @ R + S @ dR, dS.T @ L + S.T @ dL

    def start(self, rank, seed=0):
        U, s, Vt = np.linalg.svd(self.C, full_matrices=False)
        return U[:, :rank], s[:rank], Vt[:rank].T

    @property
    def value_at_zero(self):
        return float(np.sum(np.log(np.cosh(self.C))))
