"""A cost of distances as one of W: D_ij = W_ii + W_jj − W_ij − W_ji, which is ‖Y_i − Y_j‖² for W = Y Yᵀ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev, polynomial
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from rankfold.costs.base import Cost, Evaluation, LineBlocks
from rankfold.costs.completion import Completion
from rankfold.costs.start import downhill_start, filled_up_svd
from rankfold.entries.observed import Observed
from rankfold.kernels import formulas

Floats = NDArray[Any]
_KERNEL_TERMS = 3  # of a factor along a curve, that the passes of a completion take


class Lifted(NamedTuple):
    """Factors of D(W): those of W, beside q_i = W_ii and ones, so that D is of rank 2r + 2.

    [q, 1, −L, −R] [1, q, R, L]ᵀ; where L and R are one array, [q, 1, −2L] [1, q, L]ᵀ of rank r + 2.
    """

    left: Floats
    right: Floats

    @staticmethod
    def of(L: Floats, R: Floats, q: Floats, one: float) -> Lifted:
        """Return the lifted factors; or, with `one` = 0, their change, where L, R and q are changes too."""
        ones, q = np.full((len(L), 1), one, L.dtype), q[:, None]
        if L is R:
            return Lifted(np.hstack([q, ones, -2 * L]), np.hstack([ones, q, L]))
        return Lifted(np.hstack([q, ones, -L, -R]), np.hstack([ones, q, R, L]))

    def followed_by(self, column: float) -> Lifted:
        """Return both with one more column of that number."""
        return Lifted(*(np.hstack([side, np.full((len(side), 1), column, side.dtype)]) for side in self))


class OfDistances(Cost):
    """f(W) = core(D(W)), with a cost of n×n matrices as its core: O(entries · r), and nothing n×n.

    Factors are NumPy arrays; that L and R are one and the same array halves the work.
    """

    def __init__(self, core: Cost, size: int):
        self.core, self.shape = core, (size, size)
        self.quadratic, self.nonnegative = core.quadratic, core.nonnegative
        self.has_line_blocks = core.has_line_blocks

    def evaluate(self, L: Floats, R: Floats) -> Evaluation:
        """Value and partial derivatives at L Rᵀ."""
        value, F, G = self.core.evaluate(*Lifted.of(L, R, _dot(L, R), 1.0))
        return Evaluation(value, *_lowered(L, R, F, G, F[:, 0] + G[:, 1]))

    def value(self, L: Floats, R: Floats) -> float:
        """Value alone."""
        return self.core.value(*Lifted.of(L, R, _dot(L, R), 1.0))

    def derivative(self, L: Floats, R: Floats, dL: Floats, dR: Floats) -> tuple[Floats, Floats]:
        """Change of `f_L` and `f_R` along (dL, dR).

        q bends, so that the derivative in q counts too: a column that is 0, and changes by 1, brings it along
        (the sums of the rows and of the columns of the core's gradient).
        """
        if (L is R) != (dL is dR):  # both lifts in the same form
            R, dR = R.copy(), dR.copy()
        here = Lifted.of(L, R, _dot(L, R), 1.0).followed_by(0.0)
        along = Lifted.of(dL, dR, _dot(dL, R) + _dot(L, dR), 0.0).followed_by(1.0)
        dF, dG = self.core.derivative(*here, *along)
        slope = dF[:, -1] + dG[:, -1]
        df_L, df_R = _lowered(L, R, dF[:, :-1], dG[:, :-1], dF[:, 0] + dG[:, 1])
        if L is R:
            df = df_L + slope[:, None] * dL
            return df, df
        return df_L + slope[:, None] * dR, df_R + slope[:, None] * dL

    def polynomial(self, Ls: Sequence[Floats], Rs: Sequence[Floats]) -> NDArray[np.float64]:
        """Coefficients, constant first, of t ↦ f((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ), if the core is quadratic."""
        if not self.quadratic:
            return super().polynomial(Ls, Rs)
        degree = len(Ls) + len(Rs) - 2
        if degree >= _KERNEL_TERMS:
            return self._interpolated(Ls, Rs, 2 * degree)
        # The core's degree is higher, but D's is that of W.
        return self.core.polynomial(*_lifted_line(Ls, Rs))[: 2 * degree + 1]

    def sampled_polynomial(self, Ls: Sequence[Floats], Rs: Sequence[Floats]) -> NDArray[np.float64] | None:
        """That polynomial from a sample of the data, where the core has one to offer."""
        degree = len(Ls) + len(Rs) - 2
        found = None if degree >= _KERNEL_TERMS else self.core.sampled_polynomial(*_lifted_line(Ls, Rs))
        return None if found is None else found[: 2 * degree + 1]

    def _interpolated(self, Ls: Sequence[Floats], Rs: Sequence[Floats], degree: int) -> NDArray[np.float64]:
        def along(terms: Sequence[Floats], t: float) -> Floats:
            return np.asarray(polynomial.polyval(t, np.stack(terms)))

        nodes = chebyshev.chebpts1(degree + 1)
        values = [self.value(along(Ls, t), along(Rs, t)) for t in nodes]
        return np.asarray(polynomial.polyfit(nodes, values, degree))

    def line_blocks(self, L: Floats, R: Floats) -> LineBlocks:
        """Return Σ w ℓ″ (R_i − R_j)(R_i − R_j)ᵀ of each row i of L over its pairs, and the same for R."""
        if not self.has_line_blocks:
            return super().line_blocks(L, R)
        r = L.shape[1]
        L = L.copy() if L is R else L
        rows, cols = self.core.line_blocks(*Lifted.of(L, R, _dot(L, R), 1.0))
        first, second = slice(2, 2 + r), slice(2 + r, 2 + 2 * r)
        return LineBlocks(
            _seen(rows, 0, first, -1.0, R) + _seen(cols, 1, second, 1.0, R),
            _seen(rows, 0, second, -1.0, L) + _seen(cols, 1, first, 1.0, L),
        )

    def start(self, rank: int, seed: int = 0) -> tuple[Floats, Floats, Floats]:
        """Return a positive semidefinite start: by classical scaling, where the data are distances.

        Otherwise, by one step down the gradient at W = 0.
        """
        if isinstance(self.core, Completion) and self.core.loss.formula in (formulas.square, formulas.huber):
            return scaled(self.core.observed, rank, seed)
        return downhill_semidefinite(self, rank, seed)

    def fingerprint(self) -> dict[str, str | float]:
        """That of the core."""
        return self.core.fingerprint()

    @property
    def value_at_zero(self) -> float:
        """Value at W = 0, where all distances are 0."""
        return self.core.value_at_zero


def _dot(A: Floats, B: Floats) -> Floats:
    return np.asarray(np.einsum("ik,ik->i", A, B))


def _lowered(L: Floats, R: Floats, F: Floats, G: Floats, slope: Floats) -> tuple[Floats, Floats]:
    """Partial derivatives in L and R from those in the lifted factors; `slope` is that in q."""
    r = L.shape[1]
    if L is R:
        f = slope[:, None] * L - F[:, 2:] + G[:, 2:] / 2
        return f, f
    f_L = slope[:, None] * R - F[:, 2 : 2 + r] + G[:, 2 + r :]
    return f_L, slope[:, None] * L - F[:, 2 + r :] + G[:, 2 : 2 + r]


def _lifted_line(Ls: Sequence[Floats], Rs: Sequence[Floats]) -> tuple[list[Floats], list[Floats]]:
    """Lifted factors of a curve, by powers of t; q has the product's degree."""
    degree = len(Ls) + len(Rs) - 2
    q = [np.zeros(len(Ls[0]), Ls[0].dtype) for _ in range(degree + 1)]
    for i, L in enumerate(Ls):
        for j, R in enumerate(Rs):
            q[i + j] = q[i + j] + _dot(L, R)
    same = len(Ls) == len(Rs) and all(L is R for L, R in zip(Ls, Rs, strict=True))
    zero = np.zeros_like(Ls[0])
    terms = []
    for k, part in enumerate(q):
        L = Ls[k] if k < len(Ls) else zero
        R = Rs[k] if k < len(Rs) else zero
        terms.append(Lifted.of(L, L if same else (R if R is not L else R.copy()), part, float(k == 0)))
    return [term.left for term in terms], [term.right for term in terms]


def _seen(blocks: Floats, q: int, part: slice, sign: float, Z: Floats) -> Floats:
    """Blocks of the rows of a factor, from those of the lifted rows: its part, times `sign`, and q by Z."""
    cross = sign * Z[:, :, None] * blocks[:, q, part][:, None, :]
    square = blocks[:, q, q][:, None, None] * Z[:, :, None] * Z[:, None, :]
    return np.asarray(blocks[:, part, part] + cross + cross.transpose(0, 2, 1) + square)


def semidefinite(L: Floats, R: Floats, rank: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return the positive semidefinite matrix of rank r nearest to L Rᵀ, as U, s, U."""
    Q = np.linalg.qr(np.hstack([L, R]))[0]
    core = (Q.T @ L) @ (R.T @ Q)
    values, E = np.linalg.eigh((core + core.T) / 2)
    positive = values[::-1][:rank].clip(min=0)
    U, s, _ = filled_up_svd(Q @ E[:, ::-1][:, :rank], positive, Q @ E[:, ::-1][:, :rank], rank, seed)
    return U, s, U


def scaled(distances: Observed, rank: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return W = −½ J D J, with the centring J and the squared distances D that are known, as U, s, U.

    J takes away a_i + a_j, whatever a: the part of D that the means of its rows explain. What D has beyond it
    is held by few numbers, and taken for 0 where it is not known: less is lost than if D itself were.
    """
    i, j = (distances.by_row.keys.astype(np.int64), distances.by_row.indices.astype(np.int64))
    y, n = distances.by_row.data[:, 0].astype(np.float64), distances.shape[0]
    counts = np.bincount(i, minlength=n) + np.bincount(j, minlength=n)
    means = (np.bincount(i, y, n) + np.bincount(j, y, n)) / np.maximum(counts, 1)
    a = means - y.mean() / 2
    scale = n * (n - 1) / (4 * y.size)  # ½ for each half of the matrix, and ½ of the scaling
    half = sparse.csr_array((scale * (a[i] + a[j] - y), (i, j)), shape=(n, n))

    def centred(v: Floats) -> Floats:
        v = v - v.mean(axis=0)
        v = half @ v + half.T @ v + np.multiply(a, v.T).T  # D_ii = 0 is known
        return np.asarray(v - v.mean(axis=0))

    if n <= 4 * rank + 20:
        values, E = np.linalg.eigh(centred(np.eye(n)))
    else:
        operator = LinearOperator((n, n), matvec=centred, matmat=centred, dtype=np.float64)
        first = np.random.default_rng(seed).standard_normal(n)
        values, E = eigsh(operator, rank, which="LA", v0=first, tol=1e-3)
    largest = np.argsort(values)[::-1][:rank]
    U, s, _ = filled_up_svd(E[:, largest], values[largest].clip(min=0), E[:, largest], rank, seed)
    return U, s, U


def downhill_semidefinite(cost: Cost, rank: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return the semidefinite part of a step down the gradient at W = 0, of twice the rank.

    Half of it or more may be lost, for a gradient has eigenvalues of both signs.
    """
    U, s, V = downhill_start(cost, min(2 * rank, cost.shape[0]), seed)
    return semidefinite(U * s, V, rank, seed)
