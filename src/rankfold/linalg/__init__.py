"""Linear algebra of tall (d×r) and small (r×r) matrices, written once for every array-API backend.

Every contraction over a long dimension goes through `gram`, and ends in `primitives.grams`: the one place
that distributed rows or a remote device ever have to know of. All else that is tall is row-wise; all else
that is dense is r×r. Tall matrices may be arrays, or sums that are yet to be made (`tall.Tall`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any, NamedTuple

import array_api_compat.numpy as host
import numpy as np
from array_api_compat import array_namespace, device

from rankfold.linalg.primitives import grams, on_host
from rankfold.linalg.rows import is_spread
from rankfold.linalg.tall import Tall, lazy_gram, learn, real, reals

Array = Any  # an array of any array-API namespace

# Grams are taken again until one of them, with unit diagonal, has condition number below eps^-0.2
# (1e3 in float64): its rounding errors then stay within three digits of eps.
_GRADED_EXPONENT = 0.2
_MAX_PASSES = 5


def namespace(A: Array) -> Any:
    """Return the library of A, by the array API; of a `Tall`, that of its small matrices."""
    return host if type(A) is np.ndarray or type(A) is Tall else array_namespace(A)


def asarray_like(numbers: Any, example: Array) -> Array:
    """Return numbers as an array of the library and dtype of `example`, and where that lives."""
    return namespace(example).asarray(numbers, dtype=example.dtype, device=device(example))


def rows_like(numbers: Any, example: Array) -> Array:
    """Return a tall matrix of which all rows are given, as `asarray_like`, with its rows where they belong.

    Those of `example` may be spread over processes (`linalg.rows`); then its own are, too.
    """
    return example.placed(numbers) if is_spread(example) else asarray_like(numbers, example)


def normal_like(rng: np.random.Generator, shape: tuple[int, int], example: Array) -> Array:
    """Return a tall matrix of standard normal numbers: the same ones however its rows are spread."""
    return (
        example.drawn(rng, shape) if is_spread(example) else asarray_like(rng.standard_normal(shape), example)
    )


def identity_like(A: Array, size: int) -> Array:
    """Return the identity matrix in the library, dtype and place of A."""
    return namespace(A).eye(size, dtype=A.dtype, device=device(A))


def diagonal(values: Array) -> Array:
    """Return the diagonal matrix of these values."""
    return values[:, None] * identity_like(values, values.shape[0])


def gram(A: Array, B: Array) -> Array:
    """Return AᵀB for tall A and B, in their library; of a `Tall`, on the host."""
    if isinstance(A, Tall) or isinstance(B, Tall):
        A = A if isinstance(A, Tall) else Tall.of(A)
        return lazy_gram(A, B if isinstance(B, Tall) else Tall.of(B))
    return grams([(A, B)])[0][0] if type(A) is type(B) is np.ndarray and A.ndim == 2 else A.T @ B


def add_product(Z: Array, A: Array, S: Array) -> Array:
    """Return Z + A S for tall Z and A: without a third tall array, whose fresh pages would cost most."""
    out = A @ S
    out += Z
    return out


def sym(A: Array) -> Array:
    """Return the symmetric part (A + Aᵀ)/2."""
    return (A + A.T) / 2


def skew(A: Array) -> Array:
    """Return the skew-symmetric part (A − Aᵀ)/2 (the paper prints the other sign; see the docs)."""
    return (A - A.T) / 2


def trace(A: Array) -> float:
    """Return Tr A as a Python float."""
    if type(A) is np.ndarray:
        return float(sum(A.diagonal().tolist()))  # in a third of the time of its method, for a small matrix
    return float(namespace(A).linalg.trace(A))


def eps(A: Array) -> float:
    """Return the machine epsilon of A's dtype."""
    return float((np if namespace(A) is host else namespace(A)).finfo(A.dtype).eps)


def eigh(A: Array) -> tuple[Array, Array]:
    """Return eigenvalues, in ascending order, and eigenvectors of a small symmetric matrix."""
    values, E = np.linalg.eigh(A) if type(A) is np.ndarray else namespace(A).linalg.eigh(A)
    return values, E


def pair_sums(values: Array) -> Array:
    """Return the r×r matrix of sums v_i + v_j: the denominators of a Lyapunov equation in its eigenbasis."""
    return values[:, None] + values[None, :]


def lyapunov(A: Array, C: Array) -> Array:
    """Solve A X + X A = C for symmetric positive definite A."""
    values, E = eigh(A)
    return E @ ((E.T @ C @ E) / pair_sums(values)) @ E.T


class GramFactor(NamedTuple):
    """Square root of a Gram matrix: YᵀY = TᵀT, N = T⁻¹, so that Y N has orthonormal columns.

    `graded` says that Y was too ill conditioned for a single Gram: products in the basis N must then go
    through tall matrices (`gram_in_basis`), whose rounding errors N does not magnify.
    """

    T: Array
    N: Array
    graded: bool


def gram_factor(Y: Array) -> GramFactor:
    """Factor YᵀY = TᵀT to an accuracy of eps·κ(Y), where one Gram alone would give eps·κ(Y)².

    One Gram serves well-conditioned matrices. Otherwise its eigenvectors make the columns of Y nearly
    orthogonal, and the Gram of the rotated and rescaled columns is taken afresh.
    """
    xp = namespace(Y)
    enough = eps(Y) ** _GRADED_EXPONENT
    Z, T, N = afresh(Y), None, None
    for step in range(_MAX_PASSES):
        M = gram(Z, Z)
        norms = xp.sqrt(xp.linalg.diagonal(M))
        norms = xp.where(norms > 0, norms, xp.ones_like(norms))
        values, E = eigh(M / (norms[:, None] * norms[None, :]))
        good = float(values[0]) > enough * float(values[-1])
        if good or step == _MAX_PASSES - 1:
            least = max(float(values[-1]) * eps(Y), float(xp.finfo(Y.dtype).smallest_normal))
            roots = xp.sqrt(xp.clip(values, min=least))
            rotation, inverse = roots[:, None] * E.T * norms[None, :], E / norms[:, None] / roots[None, :]
        else:
            rotation, inverse = E.T * norms[None, :], E / norms[:, None]
        T = rotation if T is None else rotation @ T
        N = inverse if N is None else N @ inverse
        if good:
            return GramFactor(T, N, graded=step > 0)
        Z = afresh(Z @ inverse)
    return GramFactor(T, N, graded=True)


def afresh(Y: Array) -> Array:
    """Return Y, of which a Gram will be taken of its own numbers, and not of what it is a sum of."""
    return Tall.of(real(Y)) if isinstance(Y, Tall) and Y.leaf is None else Y


def inverse_gram(Y: Array) -> Array:
    """Return (YᵀY)⁻¹, through `gram_factor` if Y is too ill conditioned for a single Gram."""
    leaf = Y.leaf if isinstance(Y, Tall) else None
    if leaf is None:
        return _inverse_gram(Y)
    if _inverse_gram not in leaf.known:
        leaf.known[_inverse_gram] = _inverse_gram(Y)
    return leaf.known[_inverse_gram]


def _inverse_gram(Y: Array) -> Array:
    M = gram(Y, Y)
    if type(M) is np.ndarray and (inverse := quick_inverse(M)) is not None:
        return inverse
    values, E = eigh(M)
    if float(values[0]) > eps(Y) ** _GRADED_EXPONENT * float(values[-1]):
        return (E / values) @ E.T
    N = gram_factor(Y).N
    return N @ N.T


def quick_inverse(M: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return the inverse of a Gram, or of several; None if one may be too ill conditioned."""
    try:
        inverse = np.linalg.inv(M)
    except np.linalg.LinAlgError:
        return None
    most, size = largest_condition(M) ** 2, M.shape[-1] ** 2
    for a, b in zip(M.reshape(-1, size), inverse.reshape(-1, size), strict=True):
        if not a.dot(a) * b.dot(b) < most:  # of Frobenius norms: no smaller than the condition number
            return None
    return (inverse + np.swapaxes(inverse, -1, -2)) / 2


def largest_condition(M: Array) -> float:
    """Return up to which condition number one Gram of its type is enough."""
    return float(eps(M) ** -_GRADED_EXPONENT)


def gram_in_basis(A: Array, B: Array, N: Array, graded: bool) -> Array:
    """Return (A N)ᵀ(B N): by tall products if `graded`, else by the r×r Gram, which is cheaper."""
    return gram(afresh(A @ N), afresh(B @ N)) if graded else N.T @ gram(A, B) @ N


def svd_of_product(L: Array, R: Array) -> tuple[Array, Array, Array]:
    """Return the thin singular value decomposition (U, s, V) of L Rᵀ, without forming it.

    Factors that are ill conditioned, or of lower rank than they have columns, go through QR: what a Gram
    has lost of them would be made up of rounding, and mixed with the rest.
    """
    xp = namespace(L)
    L, R = _met(L, R)
    left, right = gram_factor(L), gram_factor(R)
    if left.graded or right.graded:
        if isinstance(L, Tall):
            U, s, V = svd_of_product(real(L), real(R))
            return Tall.of(U), on_host(s), Tall.of(V)
        (Q_L, T_L), (Q_R, T_R) = xp.linalg.qr(L), xp.linalg.qr(R)
        A, s, Ct = _facing(T_L, T_R)
        return Q_L @ A, s, Q_R @ Ct.T
    A, s, Ct = _facing(left.T, right.T)
    U, V = _met(L @ (left.N @ A), R @ (right.N @ Ct.T))
    return polar(U), s, polar(V)


def _facing(T_L: Array, T_R: Array) -> tuple[Array, Array, Array]:
    """Return the SVD of T_L T_Rᵀ, each direction on the side of that column of T_L which it has most of.

    Rounding is not to choose signs: the same factors would have others on another machine.
    """
    xp = namespace(T_L)
    A, s, Ct = xp.linalg.svd(T_L @ T_R.T, full_matrices=False)
    along = A.T @ T_L
    most = xp.linalg.diagonal(xp.take(along, xp.argmax(xp.abs(along), axis=1), axis=1))
    signs = xp.where(most < 0, -xp.ones_like(most), xp.ones_like(most))
    return A * signs, s, Ct * signs[:, None]


def _met(L: Array, R: Array) -> tuple[Array, Array]:
    """Return both as `afresh` does, with their Grams known after one pass; arrays as they are."""
    if not (isinstance(L, Tall) and isinstance(R, Tall)):
        return L, R
    both = [Tall.of(Z) if A.leaf is None else A for A, Z in zip((L, R), reals([L, R]), strict=True)]
    learn(*([(leaf, leaf)] for A in both for leaf in A.terms))
    return both[0], both[1]


def orthonormal(Z: Array) -> Array:
    """Return an orthonormal basis of the columns of a tall Z: Q of its QR decomposition."""
    return namespace(Z).linalg.qr(Z)[0]


def thin_svd(Z: Array) -> tuple[Array, Array, Array]:
    """Return U, s and Vᵀ of Z, with as many singular vectors as the lesser side has."""
    U, s, Vt = namespace(Z).linalg.svd(Z, full_matrices=False)
    return U, s, Vt


def column_norms(Z: Array) -> Array:
    """Return the lengths of the columns of a tall Z."""
    xp = namespace(Z)
    return xp.sqrt(xp.linalg.diagonal(gram(Z, Z)))


def core_of_product(L: Array, R: Array) -> Array:
    """Return T_L T_Rᵀ, where L = Q_L T_L and R = Q_R T_R: r×r, with the singular values of L Rᵀ.

    Examples
    --------
    >>> import numpy as np
    >>> L, R = np.array([[3.0], [4.0]]), np.array([[0.0], [2.0], [0.0]])
    >>> abs(core_of_product(L, R))
    array([[10.]])
    """
    T_L, T_R = (namespace(A).linalg.qr(A)[1] for A in (L, R))
    return T_L @ T_R.T


def norm_of_product(Ls: Sequence[Array], Rs: Sequence[Array]) -> float:
    """Return ‖Σ L_i R_iᵀ‖_F, accurate to rounding however much the terms cancel."""
    xp = namespace(Ls[0])
    core = core_of_product(*(xp.concat(As, axis=1) for As in (Ls, Rs)))
    return float(xp.linalg.matrix_norm(core))


def polar(D: Array) -> Array:
    """Return the orthonormal factor uf(D) = D (DᵀD)^(-1/2) of the polar decomposition.

    For D = U + ξ with ξ tangent to the Stiefel manifold at U, DᵀD = I + ξᵀξ, and one Gram is safe. A D too
    ill conditioned for that takes the thin singular value decomposition.
    """
    xp, D = namespace(D), afresh(D)
    values, E = eigh(gram(D, D))
    if float(values[0]) > eps(D) ** _GRADED_EXPONENT * float(values[-1]):
        return D @ ((E / xp.sqrt(values)) @ E.T)
    if isinstance(D, Tall):
        return Tall.of(polar(real(D)))
    U, _, Vt = xp.linalg.svd(D, full_matrices=False)
    return U @ Vt


def spd_exp(B: Array, X: Array) -> Array:
    """Return B^½ exp(B^-½ X B^-½) B^½, the exponential map of symmetric positive definite matrices.

    The result is positive definite in floating point too: no eigenvalue moves by more than a factor of
    1/eps in one step, nor ends below 100·eps times the largest.
    """
    xp = namespace(B)
    b, E = eigh(B)
    roots = xp.sqrt(b)
    c, Q = eigh(sym(E.T @ X @ E) / (roots[:, None] * roots[None, :]))
    reach = -log(eps(B))
    F = (E * roots[None, :]) @ (Q * xp.exp(xp.clip(c, min=-reach, max=reach) / 2)[None, :])
    A, s, _ = xp.linalg.svd(F, full_matrices=False)
    s = xp.clip(s, min=float(s[0]) * 10 * eps(B) ** 0.5)
    return sym((A * (s * s)[None, :]) @ A.T)
