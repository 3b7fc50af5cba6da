"""A smooth cost of a small dense W, written in the plainest way: the truth that geometries are tested on."""

from __future__ import annotations

from math import log

import numpy as np
from array_api_compat import array_namespace

from rankfold.costs.base import Cost, Evaluation


class OffDiagonal(Cost):
    """A cost of d1×d2 matrices as one of symmetric matrices: of their block of d1 rows and d2 other columns.

    Where a point Y has the rows of L and of R, that block of Y Yᵀ is L Rᵀ: any matrix of the rank.
    """

    def __init__(self, cost):
        self.cost, self.quadratic = cost, cost.quadratic
        self.shape = (sum(cost.shape),) * 2
        self.split = cost.shape[0]

    def _parts(self, L, R):
        return L[: self.split, :], R[self.split :, :]

    def _padded(self, f_L, f_R):
        xp = array_namespace(f_L)
        return xp.concat([f_L, xp.zeros_like(f_R)]), xp.concat([xp.zeros_like(f_L), f_R])

    def evaluate(self, L, R):
        value, f_L, f_R = self.cost.evaluate(*self._parts(L, R))
        return Evaluation(value, *self._padded(f_L, f_R))

    def value(self, L, R):
        return self.cost.value(*self._parts(L, R))

    def derivative(self, L, R, dL, dR):
        return self._padded(*self.cost.derivative(*self._parts(L, R), *self._parts(dL, dR)))

    def polynomial(self, Ls, Rs):
        return self.cost.polynomial([L[: self.split, :] for L in Ls], [R[self.split :, :] for R in Rs])

    @property
    def value_at_zero(self):
        return self.cost.value_at_zero


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
