"""Multivariate regression with a coefficient matrix of low rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from array_api_compat import device, is_torch_array
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankfold.costs.base import Array, Cost, Evaluation
from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.costs.mapped import Features, Mapped
from rankfold.costs.start import downhill_start, filled_up_svd
from rankfold.entries.devices import usable_device
from rankfold.entries.given_arrays import check_size, unmasked, with_holes
from rankfold.linalg import namespace, on_gpu, thin_svd
from rankfold.linalg.primitives import on_host

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
        Responses, one column each; NaN, or masked, where unknown. If X or Y is a torch tensor on a GPU, the
        cost is there; `on` brings one in memory there.
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
        X, Y, place = _at_one_place(X, Y)
        predictors = Features.checked("X", X)
        responses, known = _responses(Y, predictors.matrix.shape[0])
        loss = Loss.named(loss) if isinstance(loss, str) else loss
        self.complete = loss.is_square and bool(known.all())
        core: _Target | Completion
        if self.complete:
            predictors, core = _reduced(predictors, responses)
        else:
            xp = namespace(responses)
            some = xp.nonzero(xp.any(known, axis=1))[0]
            predictors, responses, known = predictors.take(some), responses[some], known[some]
            rows, cols = xp.nonzero(known)
            core = Completion(rows, cols, responses[known], tuple(responses.shape), loss=loss)
        if place is not None and core.device is None:
            core = core.on(place)
        super().__init__(core, predictors, Features(None, responses.shape[1]))

    def closed_form(self, rank: int, ridge: float = 0.0) -> tuple[Array, Array, Array]:
        """Return the minimiser of the cost plus `Frobenius(ridge)` as (U, s, V), by the Eckart-Young theorem.

        For the square loss with all responses known. The least-squares fit is whitened by the singular
        vectors of X and truncated to rank r. Where the optimum has a lower rank than r, the singular values
        that are missing are tiny.
        """
        C, V = self.path(ridge)
        r = min(rank, V.shape[1])
        U, s, Qt = thin_svd(C[:, :r])
        return filled_up_svd(U, s, V[:, :r] @ Qt.T, rank, seed=0)

    def path(self, ridge: float = 0.0) -> tuple[Array, Array]:
        """Return (C, V), V orthonormal: C[:, :r] @ V[:, :r].T is the closed form for every rank r."""
        if not isinstance(self.core, _Target):
            raise ValueError("the closed form needs the square loss and no missing response")
        P, d, lift = self.X.spectrum
        (P, Y), xp = _of_one_type(P, self.core.Y), namespace(d)
        root = xp.sqrt(d * d + ridge / self.core.scale)
        A, s, Vt = thin_svd((d / root)[:, None] * (P.T @ Y))
        return lift(A * s / root[:, None]), Vt.T

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return the closed form where there is one; else one step down the gradient at W = 0."""
        if self.complete and min(self.X.matrix.shape) <= MAX_SPECTRUM:
            return self.closed_form(rank)
        return downhill_start(self, rank, seed)


class _Target(Cost):
    """scale · ‖W − Y‖² + rest for a dense Y, in memory or on a GPU."""

    quadratic = True

    def __init__(self, Y: Array, scale: float, rest: float):
        self.Y, self.scale, self.rest = Y, scale, rest
        self.shape = Y.shape[0], Y.shape[1]
        self.device = device(Y) if is_torch_array(Y) else None

    def on(self, device: str) -> _Target:
        """Return the same cost with Y on a GPU."""
        place = usable_device(device)
        if place == "cpu":
            return self
        from rankfold.costs.features_on_gpu import brought

        return _Target(brought(self.Y, place), self.scale, self.rest)

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        L, R = self._wide(L, R)
        E = L @ R.T - self.Y
        value = self.scale * _inner(E, E) + self.rest
        return Evaluation(value, 2 * self.scale * (E @ R), 2 * self.scale * (E.T @ L))

    def value(self, L: Array, R: Array) -> float:
        L, R = self._wide(L, R)
        E = L @ R.T - self.Y
        return self.scale * _inner(E, E) + self.rest

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        L, R, dL, dR = self._wide(L, R, dL, dR)
        E, dE = L @ R.T - self.Y, dL @ R.T + L @ dR.T
        return 2 * self.scale * (dE @ R + E @ dR), 2 * self.scale * (dE.T @ L + E.T @ dL)

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64]:
        tall, zeros = self._wide(*Ls, *Rs), namespace(self.Y).zeros_like(self.Y)
        Es = [0 - self.Y] + [zeros for _ in range(len(Ls) + len(Rs) - 2)]
        for i, L in enumerate(tall[: len(Ls)]):
            for j, R in enumerate(tall[len(Ls) :]):
                Es[i + j] = Es[i + j] + L @ R.T
        coefficients = np.zeros(2 * len(Es) - 1)
        coefficients[0] = self.rest
        for k, E_k in enumerate(Es):
            for m, E_m in enumerate(Es):
                coefficients[k + m] += self.scale * _inner(E_k, E_m)
        return coefficients

    def fingerprint(self) -> dict[str, str | float]:
        return {}  # Y may be in the basis of a QR decomposition, which is not the same everywhere

    @property
    def value_at_zero(self) -> float:
        return self.scale * _inner(self.Y, self.Y) + self.rest

    def _wide(self, *factors: Array) -> Sequence[Array]:
        """Factors in the type of their products with Y: torch multiplies no two types."""
        return factors if self.device is None else _of_one_type(self.Y, *factors)[1:]


def _of_one_type(*arrays: Array) -> list[Array]:
    """Return arrays of two precisions in the better one."""
    xp = namespace(arrays[0])
    kind = xp.result_type(*arrays)
    return [xp.astype(array, kind, copy=False) for array in arrays]


def _inner(A: Array, B: Array) -> float:
    """Σ A_ij B_ij."""
    return float(np.vdot(A, B)) if type(A) is np.ndarray else float(namespace(A).sum(A * B))


def _at_one_place(X: Any, Y: Any) -> tuple[Any, Any, str | None]:
    """Return X and Y on one GPU, and its name, if either is on one; beside a sparse X, Y in memory."""
    places = [device(A) for A in (X, Y) if on_gpu.holds(A)]
    if not places:
        return X, Y, None
    if sparse.issparse(X):
        return X, on_host(Y), "cuda"
    from rankfold.costs.features_on_gpu import brought

    return brought(unmasked("X", X), places[0]), brought(with_holes(Y), places[0]), "cuda"


def _responses(Y: Any, n: int) -> tuple[Array, Array]:
    """Return responses as float32 or float64, and where they are known."""
    Y = Y if on_gpu.holds(Y) else np.asarray(with_holes(Y))
    xp = namespace(Y)
    if Y.ndim != 2 or len(Y) != n or 0 in Y.shape:
        raise ValueError(f"Y must be a matrix with {n} rows, as X has; got shape {tuple(Y.shape)}")
    if not xp.isdtype(Y.dtype, ("real floating", "integral", "bool")):
        raise TypeError(f"Y must hold real numbers; got {Y.dtype}")
    if Y.dtype != xp.float32:
        Y = xp.astype(Y, xp.float64, copy=False)
    known = ~xp.isnan(Y)
    if xp.any(xp.isinf(Y)) or not xp.any(known):
        raise ValueError("Y must be finite, with NaN for unknown responses, and have at least one known")
    if on_gpu.holds(Y):
        from rankfold.costs.features_on_gpu import check_size_on_gpu

        check_size_on_gpu("Y", Y, holes=True)
    else:
        check_size("Y", Y, holes=True)
    return Y, known


def _reduced(X: Features, Y: Array) -> tuple[Features, _Target]:
    """‖Y − XW‖² as ‖QᵀY − CW‖² + ‖Y − QQᵀY‖² with X = QC, where that makes X smaller."""
    n, q = X.matrix.shape
    scale = 1.0 / (Y.shape[0] * Y.shape[1])
    if n <= q or (sparse.issparse(X.matrix) and q > MAX_SPECTRUM):
        return X, _Target(Y, scale, 0.0)
    if sparse.issparse(X.matrix):
        values, E = np.linalg.eigh((X.matrix.T @ X.matrix).toarray())
        keep = values > values[-1] * q * np.finfo(values.dtype).eps
        roots, E = np.sqrt(values[keep]), E[:, keep]
        C, inner = roots[:, None] * E.T, (E.T @ (X.matrix.T @ Y)) / roots[:, None]
        fit = X.matrix @ (E @ (inner / roots[:, None]))
    else:
        Q, C = namespace(X.matrix).linalg.qr(X.matrix)
        Q, Y = _of_one_type(Q, Y)
        inner = Q.T @ Y
        fit = Q @ inner
    return replace(X, matrix=C), _Target(inner, scale, scale * float(((Y - fit) ** 2).sum()))
