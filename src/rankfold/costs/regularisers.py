"""Regularisers that are functions of W, so that they live on every quotient."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import ArrayLike, NDArray

from rankfold.costs.base import ANY_SHAPE, Array, Combination, Cost, Evaluation, LineBlocks, Products
from rankfold.costs.completion import Completion
from rankfold.entries.arrays import near
from rankfold.entries.given_arrays import check_size, real_vector
from rankfold.entries.observed import Observed
from rankfold.linalg import eps, gram, pair_sums, rows_like, svd_of_product, trace
from rankfold.linalg.rows import at_hand, in_place_of

# A singular value below this multiple of rounding in the largest is none.
_LOST = 100.0


class Frobenius(Cost):
    """λ‖W‖², by r×r Grams: ‖L Rᵀ‖² = Tr(LᵀL RᵀR).

    Parameters
    ----------
    weight
        λ >= 0. Beside a mean over entries, λ is what each of the d1 d2 entries of W pays for its square.

    Examples
    --------
    >>> import numpy as np
    >>> Frobenius(0.5).value(np.array([[3.0], [4.0]]), np.array([[2.0]]))
    50.0
    """

    shape = ANY_SHAPE
    quadratic = True
    has_start = False
    has_line_blocks = True
    value_at_zero = 0.0

    def __init__(self, weight: float):
        self.weight = _checked_weight(weight)

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ: S = 2λW."""
        LL, RR = gram(L, L), gram(R, R)
        value = self.weight * trace(LL @ RR)
        return Evaluation(value, 2 * self.weight * (L @ RR), 2 * self.weight * (R @ LL))

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR)."""
        LdL, RdR = gram(L, dL), gram(R, dR)
        df_L = dL @ gram(R, R) + L @ (RdR + RdR.T)
        df_R = dR @ gram(L, L) + R @ (LdL + LdL.T)
        return 2 * self.weight * df_L, 2 * self.weight * df_R

    def line_blocks(self, L: Array, R: Array) -> LineBlocks:
        """Return 2λ RᵀR for every row, 2λ LᵀL for every column."""
        A, B = _near(L, R)
        return LineBlocks(*(_repeated(2 * self.weight * gram(Y, Y), Z) for Z, Y in ((A, B), (B, A))))

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64]:
        """Coefficients, constant first, of t ↦ λ‖(Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ‖²."""
        coefficients = np.zeros(2 * (len(Ls) + len(Rs)) - 3)
        grams_L, grams_R = ([[gram(A, B) for B in As] for A in As] for As in (Ls, Rs))
        for i, row_L in enumerate(grams_L):
            for k, LL in enumerate(row_L):
                for j, row_R in enumerate(grams_R):
                    for m, RR in enumerate(row_R):
                        coefficients[i + j + k + m] += self.weight * trace(LL @ RR.T)
        return coefficients


class Nuclear(Cost):
    """λ‖W‖_*, the sum of the singular values of W, or of those of D_r^½ W D_c^½ (weighted trace norm).

    Smooth where W has full rank r, with S = λ U Vᵀ from the singular value decomposition of W = L Rᵀ, which
    takes r×r work beside a few tall products. On `Polar`, where W = U B Vᵀ, the value is λ Tr B.

    It is what a ridge on factors becomes as a function of W: 2‖W‖_* is the least ‖L‖² + ‖R‖² over all
    factorisations L Rᵀ = W. `Nuclear.by_counts` is the same for the ridge that counts a factor's row once
    for each entry it takes part in.

    Parameters
    ----------
    weight
        λ >= 0.
    row_weights, col_weights
        The diagonals of D_r and D_c, positive; both 1 if not given.

    Examples
    --------
    >>> import numpy as np
    >>> Nuclear(0.1).value(np.array([[3.0], [4.0]]), np.array([[2.0]]))
    1.0
    """

    shape = ANY_SHAPE
    has_start = False
    has_line_blocks = True
    value_at_zero = 0.0

    def __init__(
        self, weight: float, row_weights: ArrayLike | None = None, col_weights: ArrayLike | None = None
    ):
        self.weight = _checked_weight(weight)
        self._roots: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        if row_weights is not None and col_weights is not None:
            self._roots = _roots("row_weights", row_weights), _roots("col_weights", col_weights)
            self.shape = self._roots[0].size, self._roots[1].size
        elif not (row_weights is None and col_weights is None):
            raise ValueError("give both row_weights and col_weights, or neither")

    @staticmethod
    def by_counts(weight: float, cost: Completion) -> Nuclear:
        """Return the least λ/|Ω| Σ_(i,j)∈Ω (‖L_i‖² + ‖R_j‖²) over all factorisations L Rᵀ = W.

        That is (2λ/|Ω|) ‖D_r^½ W D_c^½‖_* with the numbers of entries per row and per column on the
        diagonals: the ridge of popular matrix factorisation codes, which grows with the data. Rows and
        columns without an entry count as if they had one.
        """
        counts = (np.maximum(numbers, 1) for numbers in cost.store.counts)
        return Nuclear(2 * weight / cost.store.size, *counts)

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ."""
        L, R = self._scaled(L, R)
        U, s, V = svd_of_product(L, R)
        f_L, f_R = self._scaled(U @ gram(V, R), V @ gram(U, L))
        value = self.weight * float(array_namespace(s).sum(s))
        return Evaluation(value, self.weight * f_L, self.weight * f_R)

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR), through that of the polar factor Q = U Vᵀ.

        With Ẇ = U M Vᵀ + U_p Vᵀ + U V_pᵀ, the change of Q is U Ω Vᵀ + U_p Σ⁻¹ Vᵀ + U Σ⁻¹ V_pᵀ, where
        Ω_ij = (M_ij - M_ji) / (σ_i + σ_j).
        """
        (L, R), (dL, dR) = self._scaled(L, R), self._scaled(dL, dR)
        U, s, V = svd_of_product(L, R)
        A, C, dA, dC = gram(U, L), gram(V, R), gram(U, dL), gram(V, dR)  # L = U A, R = V C
        M = dA @ C.T + A @ dC.T
        Omega = (M - M.T) / pair_sums(s)
        df_L = U @ (Omega @ C + dC) + (dL - U @ dA) @ (C.T @ (C / s[:, None]))
        df_R = V @ (Omega.T @ A + dA) + (dR - V @ dC) @ (A.T @ (A / s[:, None]))
        df_L, df_R = self._scaled(df_L, df_R)
        return self.weight * df_L, self.weight * df_R

    def gradient_products(self, L: Array, R: Array) -> Products:
        """Return the function (X, Y) ↦ (S X, SᵀY) for S = λ D_r^½ U Vᵀ D_c^½.

        U and V are of the singular values of D_r^½ W D_c^½ that are above rounding: where there are fewer of
        them than columns in L and R, that is the subgradient which is 0 beyond the spaces of W.
        """
        U, s, V = svd_of_product(*self._scaled(L, R))
        rank = sum(float(value) > _LOST * eps(s) * float(s[0]) for value in s)
        U, V = self._scaled(U[:, :rank], V[:, :rank])
        return lambda X, Y: (self.weight * (U @ gram(V, X)), self.weight * (V @ gram(U, Y)))

    def line_blocks(self, L: Array, R: Array) -> LineBlocks:
        """Return λ Cᵀ Σ⁻¹ C for every row, with R = V C: the second derivative outside the columns of W.

        At balanced factors that is λ I, as of the ridge on factors that the norm is the least of.
        """
        A, B = _near(*self._scaled(L, R))
        U, s, V = svd_of_product(A, B)
        found = []
        for side, (Z, Y, Q) in enumerate(((A, B, V), (B, A, U))):
            C = gram(Q, Y)
            blocks = _repeated(self.weight * C.T @ (C / s[:, None]), Z)
            scales = self._roots and at_hand(rows_like(self._roots[side][:, None] ** 2, Z))
            found.append(blocks if scales is None else scales[:, :, None] * blocks)
        return LineBlocks(*found)

    def _scaled(self, L: Array, R: Array) -> tuple[Array, Array]:
        """D_r^½ L and D_c^½ R."""
        if self._roots is None:
            return L, R
        xp = array_namespace(L)
        rows, cols = (xp.asarray(d, dtype=L.dtype, device=device(L)) for d in self._roots)
        return rows[:, None] * L, cols[:, None] * R


class Unobserved(Combination):
    """λ Σ W_ij² over the entries that a completion cost does not observe.

    A small λ keeps the entries that nothing determines from growing (the λ² of Boumal and Absil's RTRMC).
    Costs one more pass over Ω: Σ W_ij² over all entries by r×r Grams, less that over Ω.

    Parameters
    ----------
    weight
        λ >= 0.
    cost
        The completion cost; only its positions count.

    Examples
    --------
    >>> import numpy as np
    >>> cost = Completion([0, 1], [0, 1], [1.0, 2.0], (2, 2))
    >>> Unobserved(1.0, cost).value(np.ones((2, 1)), np.array([[1.0], [3.0]]))  # 1² + 3²
    10.0
    """

    def __init__(self, weight: float, cost: Completion):
        self.weight = _checked_weight(weight)
        zeros = _zeros_like(cost)
        super().__init__([(weight, Frobenius(1.0)), (-weight * zeros.store.size, zeros)])
        # Less what is on Ω, the sum over all entries is still a sum of squares, and its blocks are too.
        self.nonnegative, self.has_start, self.has_line_blocks = True, False, True


def _near(L: Array, R: Array) -> tuple[Array, Array]:
    """Return factors whose rows at hand are on a GPU or NumPy's."""
    own = near(at_hand(L), at_hand(R))
    return in_place_of(L, own[0]), in_place_of(R, own[1])


def _repeated(block: Array, lines: Array) -> Array:
    """Return the same block for each line at hand, as a view."""
    return array_namespace(block).broadcast_to(block, (at_hand(lines).shape[0], *block.shape))


def _zeros_like(cost: Completion) -> Completion:
    """Completion of zeros at the distinct positions of a cost."""
    if getattr(cost.store, "on_device", False):
        return Completion.from_observed(cost.store.zeros())  # type: ignore[attr-defined]
    observed, rows = cost.observed, cost.observed.by_row
    if observed.first_repeated >= 0:
        where = np.unique(np.stack([rows.keys, rows.indices], axis=1), axis=0)
        observed = Observed.from_triples(where[:, 0], where[:, 1], np.zeros(len(where)), cost.shape)
    else:
        zeros = np.zeros((observed.size, 1), observed.dtype)
        observed = observed.with_data(zeros, zeros)
    return Completion.from_observed(observed)


def _roots(name: str, weights: ArrayLike) -> NDArray[np.float64]:
    numbers = real_vector(name, weights).astype(np.float64)
    if not numbers.size or not np.all(np.isfinite(numbers) & (numbers > 0)):
        raise ValueError(f"{name} must be a vector of positive, finite numbers")
    check_size(name, numbers)
    return np.asarray(np.sqrt(numbers))


def _checked_weight(weight: float) -> float:
    if not (isfinite(weight) and weight >= 0):
        raise ValueError(f"weight must be finite and zero or more; got {weight!r}")
    return float(weight)
