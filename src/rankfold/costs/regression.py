"""Multivariate regression with a coefficient matrix of low rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankfold.costs.base import Array, Cost, Evaluation
from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.costs.mapped import Features, Mapped
from rankfold.costs.start import downhill_start, filled_up_svd
from rankfold.entries.given_arrays import check_size, with_holes
from rankfold.remembered import remembered

# The smaller side of X up to which its (dense) spectrum is worth having for the closed form.
MAX_SPECTRUM = 4096


class Regression(Mapped):
    """f(W) = mean of ℓ((XW)_ij, Y_ij) over the known responses: reduced-rank regression for the square loss.

    X is n×q, Y is n×k and W, the coefficients, q×k. With the square loss and all responses known, n > q
    observations are replaced once by q (a QR factorisation of X, or the Gram XᵀX of a sparse one), so that
    no later work depends on n. With q > n the cost works through X itself.

    Parameters
    ----------
    X
        Predictors, an array or a SciPy sparse matrix (kept as CSR). There is no intercept: centre X and Y, or
        add a column of ones.
    Y
        Responses, one column each; NaN, or masked, where unknown.
    loss
        "square", "logistic", "huber", "poisson", "squared_hinge" or a `Loss`, by entry of Y.

    Examples
    --------
    >>> import numpy as np
    >>> X, Y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    >>> cost = Regression(X, Y)
    >>> U, s, V = cost.closed_form(rank=1)
    >>> (U * s @ V.T).round(6).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """

    def __init__(self, X: Any, Y: ArrayLike, loss: str | Loss = "square"):
        predictors = Features.checked("X", X)
        responses, known = _responses(Y, predictors.matrix.shape[0])
        loss = Loss.named(loss) if isinstance(loss, str) else loss
        self.complete = loss.is_square and bool(known.all())
        core: Cost
        if self.complete:
            predictors, core = _reduced(predictors, responses)
        else:
            some = np.flatnonzero(known.any(axis=1))
            predictors, responses, known = predictors.take(some), responses[some], known[some]
            rows, cols = np.nonzero(known)
            core = Completion(rows, cols, responses[known], responses.shape, loss=loss)
        super().__init__(core, predictors, Features(None, responses.shape[1]))

    def closed_form(self, rank: int, ridge: float = 0.0) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the minimiser of the cost plus `Frobenius(ridge)` as (U, s, V), by the Eckart-Young theorem.

        For the square loss with all responses known. The least-squares fit is whitened by the singular
        vectors of X and truncated to rank r. Where the optimum has a lower rank than r, the singular values
        that are missing are tiny.
        """
        C, V = self.path(ridge)
        r = min(rank, V.shape[1])
        U, s, Qt = np.linalg.svd(C[:, :r], full_matrices=False)
        return filled_up_svd(U, s, V[:, :r] @ Qt.T, rank, seed=0)

    def path(self, ridge: float = 0.0) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return (C, V), V orthonormal: C[:, :r] @ V[:, :r].T is the closed form for every rank r."""
        if not isinstance(self.core, _Target):
            raise ValueError("the closed form needs the square loss and no missing response")
        P, d, lift = self._spectrum
        root = np.sqrt(d * d + ridge / self.core.scale)
        A, s, Vt = np.linalg.svd((d / root)[:, None] * (P.T @ self.core.Y), full_matrices=False)
        return lift(A * s / root[:, None]), Vt.T

    @remembered
    def _spectrum(self) -> tuple[NDArray[Any], NDArray[Any], Callable[[NDArray[Any]], NDArray[Any]]]:
        """P, d and M ↦ Q M for the singular value decomposition X = P diag(d) Qᵀ, without zero values."""
        X = self.X.matrix
        if sparse.issparse(X) and X.shape[0] <= X.shape[1]:
            squares, P = np.linalg.eigh((X @ X.T).toarray())
            keep = squares > squares[-1] * len(squares) * np.finfo(squares.dtype).eps
            P, d = P[:, keep], np.sqrt(squares[keep])
            return P, d, lambda M: X.T @ (P @ (M / d[:, None]))
        P, d, Qt = np.linalg.svd(X.toarray() if sparse.issparse(X) else X, full_matrices=False)
        keep = d > d[0] * max(X.shape) * np.finfo(d.dtype).eps
        P, d, Qt = P[:, keep], d[keep], Qt[keep]
        return P, d, lambda M: Qt.T @ M

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return the closed form where there is one; else one step down the gradient at W = 0."""
        if self.complete and min(self.X.matrix.shape) <= MAX_SPECTRUM:
            return self.closed_form(rank)
        return downhill_start(self, rank, seed)


class _Target(Cost):
    """scale · ‖W − Y‖² + rest for a dense Y."""

    quadratic = True

    def __init__(self, Y: NDArray[Any], scale: float, rest: float):
        self.Y, self.scale, self.rest = Y, scale, rest
        self.shape = Y.shape

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        E = L @ R.T - self.Y
        value = self.scale * float(np.vdot(E, E)) + self.rest
        return Evaluation(value, 2 * self.scale * (E @ R), 2 * self.scale * (E.T @ L))

    def value(self, L: Array, R: Array) -> float:
        E = L @ R.T - self.Y
        return self.scale * float(np.vdot(E, E)) + self.rest

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        E, dE = L @ R.T - self.Y, dL @ R.T + L @ dR.T
        return 2 * self.scale * (dE @ R + E @ dR), 2 * self.scale * (dE.T @ L + E.T @ dL)

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64]:
        Es = [0 - self.Y] + [np.zeros_like(self.Y) for _ in range(len(Ls) + len(Rs) - 2)]
        for i, L in enumerate(Ls):
            for j, R in enumerate(Rs):
                Es[i + j] = Es[i + j] + L @ R.T
        coefficients = np.zeros(2 * len(Es) - 1)
        coefficients[0] = self.rest
        for k, E_k in enumerate(Es):
            for m, E_m in enumerate(Es):
                coefficients[k + m] += self.scale * float(np.vdot(E_k, E_m))
        return coefficients

    def fingerprint(self) -> dict[str, str | float]:
        return {}  # Y may be in the basis of a QR decomposition, which is not the same everywhere

    @property
    def value_at_zero(self) -> float:
        return self.scale * float(np.vdot(self.Y, self.Y)) + self.rest


def _responses(Y: ArrayLike, n: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    Y = np.asarray(with_holes(Y))
    if Y.ndim != 2 or len(Y) != n or not Y.size:
        raise ValueError(f"Y must be a matrix with {n} rows, as X has; got shape {Y.shape}")
    if Y.dtype.kind not in "fiub":
        raise TypeError(f"Y must hold real numbers; got {Y.dtype}")
    if Y.dtype != np.float32:
        Y = Y.astype(np.float64, copy=False)
    known = ~np.isnan(Y)
    if np.isinf(Y).any() or not known.any():
        raise ValueError("Y must be finite, with NaN for unknown responses, and have at least one known")
    check_size("Y", Y, holes=True)
    return Y, known


def _reduced(X: Features, Y: NDArray[Any]) -> tuple[Features, _Target]:
    """‖Y − XW‖² as ‖QᵀY − CW‖² + ‖Y − QQᵀY‖² with X = QC, where that makes X smaller."""
    n, q = X.matrix.shape
    scale = 1.0 / Y.size
    if n <= q or (sparse.issparse(X.matrix) and q > MAX_SPECTRUM):
        return X, _Target(Y, scale, 0.0)
    if sparse.issparse(X.matrix):
        values, E = np.linalg.eigh((X.matrix.T @ X.matrix).toarray())
        keep = values > values[-1] * q * np.finfo(values.dtype).eps
        roots, E = np.sqrt(values[keep]), E[:, keep]
        C, inner = roots[:, None] * E.T, (E.T @ (X.matrix.T @ Y)) / roots[:, None]
        fit = X.matrix @ (E @ (inner / roots[:, None]))
    else:
        Q, C = np.linalg.qr(X.matrix)
        inner = Q.T @ Y
        fit = Q @ inner
    return Features(C, q), _Target(inner, scale, scale * float(np.sum((Y - fit) ** 2)))
