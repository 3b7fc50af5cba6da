"""Offsets and factors as one model: the objective, and the best rows for given columns (or columns for rows).

The objective of `MatrixCompletion`, for p_ij = μ + b_i + c_j + L_i·R_j, n_i and m_j entries in row i and
column j, a weight λ of the penalty and shrinkages ρ_r and ρ_c of the offsets:

    Σ_Ω w_ij ℓ(p_ij, y_ij) + λ (Σ √n_i ‖L_i‖² + Σ √m_j ‖R_j‖²) + ρ_r Σ b_i² + ρ_c Σ c_j²

The least of the second term over all L Rᵀ = W is 2λ ‖D_r^½ W D_c^½‖_*, with √n_i and √m_j on the diagonals:
half-way between the plain ridge on factors (no weights) and the one that grows with the data (n_i, m_j). The
noise in D_r^-½ P_Ω(E) D_c^-½ has a spectral norm that depends on the size of the errors E, not on their
number, so one λ is right for a sample of the data and for all of it; on validation data it was as good as
either extreme or better. ρ counts entries: alone, the offset of a row with n of them shrinks by n / (n + ρ).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.base import Array, Cost, Evaluation
from rankfold.costs.completion import Completion
from rankfold.costs.offsets import Offsets
from rankfold.entries.lanczos import dominant_svd
from rankfold.entries.lines import FactorPair, solve_lines
from rankfold.entries.operators import Scaled
from rankfold.estimators.completion.convex_lines import ConvexLines
from rankfold.estimators.completion.offsets import counts
from rankfold.estimators.completion.side.expecting import Expecting
from rankfold.linalg import svd_of_product
from rankfold.remembered import remembered

Floats = NDArray[Any]
# A singular value that a penalty shrank to nothing starts again at this part of the largest.
LIFT = 0.02
_ROOT_HALF, _HALVINGS = float(np.sqrt(0.5)), 60


class Shrinkage(NamedTuple):
    """ρ_r and ρ_c, what offsets of rows and of columns are charged for their squares."""

    rows: float
    cols: float


@dataclass(frozen=True, eq=False)
class Joint(Cost):
    """The objective above, divided by |Ω|, over G = [L, μ + b] and H = [R, c].

    μ is the mean of the last column of G, which is its best value. Without offsets (`shrinkage` is None),
    G = L and H = R.
    """

    completion: Completion
    roots: tuple[Floats, Floats]  # √n_i and √m_j
    weight: float = 0.0
    shrinkage: Shrinkage | None = None
    expecting: tuple[Expecting | None, Expecting | None] = (None, None)  # of lines, by their features
    shape: tuple[int, int] = field(init=False)
    quadratic: bool = field(init=False)
    nonnegative: bool = field(init=False)

    def __post_init__(self) -> None:
        for name in ("shape", "quadratic", "nonnegative"):
            object.__setattr__(self, name, getattr(self.completion, name))

    @staticmethod
    def of(completion: Completion, weight: float = 0.0, shrinkage: Shrinkage | None = None) -> Joint:
        """Count the entries of each line."""
        rows, cols = (np.sqrt(np.maximum(n, 1.0)) for n in counts(completion))
        return Joint(completion, (rows, cols), weight, shrinkage)

    def at(self, weight: float, shrinkage: Shrinkage | None) -> Joint:
        """Return the objective with other weights."""
        return replace(self, weight=weight, shrinkage=shrinkage)

    @property
    def bias(self) -> bool:
        """Whether there are offsets."""
        return self.shrinkage is not None

    def widened(self, G: Floats, H: Floats, constant: float = 1.0) -> FactorPair:
        """[L, μ + b, 1] and [R, 1, c], whose product is what is predicted; `constant` in place of 1."""
        if not self.bias:
            return G, H
        ones = [np.full((len(X), 1), constant, X.dtype) for X in (G, H)]
        return np.hstack([G, ones[0]]), np.hstack([H[:, :-1], ones[1], H[:, -1:]])

    def value(self, L: Array, R: Array) -> float:
        """Value at G and H."""
        return self.completion.value(*self.widened(L, R)) + self._charge((L, R), (L, R))

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value at G and H, and partial derivatives in them."""
        value, f_L, f_R = self.completion.evaluate(*self.widened(L, R))
        ridges = self._charges((L, R))
        partials = (f + 2 * ridge for f, ridge in zip(self._narrowed(f_L, f_R), ridges, strict=True))
        return Evaluation(value + self._charge((L, R), (L, R)), *partials)

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of the partial derivatives along (dG, dH)."""
        moving = self.widened(dL, dR, 0.0)
        changes = self._narrowed(*self.completion.derivative(*self.widened(L, R), *moving))
        df_L, df_R = (f + 2 * ridge for f, ridge in zip(changes, self._charges((dL, dR)), strict=True))
        return df_L, df_R

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64]:
        """Coefficients along the line (G + t dG, H + t dH)."""
        here, moving = (Ls[0], Rs[0]), (Ls[1], Rs[1])
        wide = [self.widened(*here), self.widened(*moving, 0.0)]
        As, Bs = zip(*wide, strict=True)
        coefficients = np.array(self.completion.polynomial(As, Bs))
        coefficients[:3] += (
            self._charge(here, here),
            2 * self._charge(here, moving),
            self._charge(moving, moving),
        )
        return coefficients

    @remembered
    def value_at_zero(self) -> float:
        """Value at W = 0 with the mean for all; at 0 without offsets."""
        if not self.bias or not self.quadratic:
            return self.completion.value_at_zero
        return self.value(*self.constant())

    def constant(self) -> FactorPair:
        """W = 0, all offsets 0, and the mean of the values for μ (0 if the loss is not the square)."""
        width = int(self.bias)
        G, H = (np.zeros((d, width), self.completion.observed.dtype) for d in self.shape)
        if self.quadratic:
            G[:] = self.completion.observed.mean_value
        return G, H

    def swept(self, G: Floats, H: Floats) -> FactorPair:
        """Return the best rows for the columns, then the best columns for these rows; never a worse point.

        The best ones for the quadratic model of the loss, if that is not the square.
        """
        G = self._solved(0, G, H)
        return self.centred(G, self._solved(1, H, G))

    def completed(self, G: Floats, H: Floats) -> FactorPair:
        """Return a point from one of which only one factor belongs to all lines of its side."""
        if len(H) == self.shape[1]:
            start = np.zeros((self.shape[0], G.shape[1]), G.dtype)
            if self.bias:
                start[:, -1] = G[:, -1].mean()
            return self.swept(start, H) if len(G) != len(start) else self.swept(G, H)
        H = self._solved(1, np.zeros((self.shape[1], H.shape[1]), H.dtype), G)
        return self.swept(*self.centred(G, H))

    def centred(self, G: Floats, H: Floats) -> FactorPair:
        """Move the mean of c to μ, which changes no prediction and costs nothing."""
        if not self.bias:
            return G, H
        middle = H[:, -1].mean(dtype=np.float64).astype(H.dtype)
        G, H = G.copy(), H.copy()
        G[:, -1] += middle
        H[:, -1] -= middle
        return G, H

    def started(self, G: Floats, H: Floats, rank: int, seed: int) -> tuple[float, FactorPair]:
        """Return λ_max, from which on W = 0 is best beside these offsets, and a start for W.

        The start is the dominant directions of the gradient, shrunk by λ.
        """
        U, s, V = dominant_svd(self._slope(G, H), rank, seed)
        L, R = self._unscaled(U, np.maximum(s - self.weight, LIFT * s[0]), V)
        if not self.quadratic:
            L, R = self._tamed(L, R, G, H)
        return float(s[0]), (np.hstack([L, G]), np.hstack([R, H]))

    def _tamed(self, L: Floats, R: Floats, G: Floats, H: Floats) -> FactorPair:
        """Halve W until it fits no worse than W = 0: a loss may curve much more than the square does."""
        fit = self.completion
        limit = fit.value(*self.widened(G, H)) if G.shape[1] else fit.value_at_zero
        for _ in range(_HALVINGS):
            with np.errstate(over="ignore", invalid="ignore"):
                value = fit.value(*self.widened(np.hstack([L, G]), np.hstack([R, H])))
            if value <= limit:
                break
            L, R = L * _ROOT_HALF, R * _ROOT_HALF
        return L, R

    def lifted(self, G: Floats, H: Floats) -> FactorPair:
        """Return a point like this one, where W has lost no rank: what has vanished could not grow again."""
        r = G.shape[1] - self.bias
        L, R = self.balanced(G[:, :r], H[:, :r], LIFT)
        return np.hstack([L, G[:, r:]]), np.hstack([R, H[:, r:]])

    def shortened(self, G: Floats, H: Floats, rank: int) -> FactorPair:
        """Return a point with the first directions of W alone."""
        r = G.shape[1] - self.bias
        L, R = self.balanced(G[:, :r], H[:, :r])
        return np.hstack([L[:, :rank], G[:, r:]]), np.hstack([R[:, :rank], H[:, r:]])

    def balanced(self, L: Floats, R: Floats, least: float = 0.0) -> FactorPair:
        """Return the factors of the same W that the penalty is least for.

        Singular values below the part `least` of the largest are raised to it. Where features say what to
        expect of lines, that is no matter of W alone, and the factors stay as they are.
        """
        if any(self.expecting):
            return L, R
        rows, cols = (np.sqrt(root) for root in self.roots)
        U, s, V = svd_of_product(_times(rows, L), _times(cols, R))
        return self._unscaled(U, np.maximum(s, least * s[0]), V)

    def split(self, G: Floats, H: Floats) -> tuple[FactorPair, Offsets]:
        """Return the factors and the offsets."""
        if not self.bias:
            d1, d2 = self.shape
            return (G, H), Offsets(0.0, np.zeros(d1), np.zeros(d2))
        b, c = (np.asarray(X[:, -1], dtype=np.float64) for X in (G, H))
        return (G[:, :-1], H[:, :-1]), Offsets(float(b.mean()), b - b.mean(), c)

    def ridges(self, k: int, width: int) -> Floats:
        """What each unknown of each line of side k is charged for its square."""
        ridges = np.repeat(self.weight * self.roots[k][:, None], width, axis=1)
        if self.shrinkage is not None:
            ridges[:, -1] = self.shrinkage[k]
        return ridges

    def _solved(self, k: int, X: Floats, Y: Floats) -> Floats:
        """The best lines of side k for the lines Y of the other one."""
        side, B = self.completion.observed.sides[k], self.design(Y)
        ridges, pull, traits = self.ridges(k, X.shape[1]), None, self.expecting[k]
        if traits is not None:
            pull = ridges * traits.expected(X, self.bias)
        elif self.shrinkage is not None and k == 0:  # offsets of rows are drawn to their mean
            pull = np.zeros(ridges.shape, X.dtype)
            pull[:, -1] = self.shrinkage.rows * X[:, -1].mean()
        if self.quadratic:
            return solve_lines(side, B, ridges, pull)
        found = []
        for lines, part in side.parts():
            own = ridges[lines], None if pull is None else pull[lines]
            found.append(ConvexLines(part, self.completion.loss, B, *own).stepped(X[lines]))
        return np.concatenate(found)

    def design(self, Y: Floats) -> Floats:
        """What the unknowns of a line are multiplied by: [R, 1], and c, whose coefficient is 1."""
        return np.hstack([Y[:, :-1], np.ones((len(Y), 1), Y.dtype), Y[:, -1:]]) if self.bias else Y

    def _charges(self, x: FactorPair) -> list[Floats]:
        """Half the partial derivatives of the penalties."""
        both = zip(x, self.expecting, strict=True)
        off = [X if traits is None else traits.off(X, self.bias) for X, traits in both]
        charges = [self.ridges(k, X.shape[1]) * X / self.completion.observed.size for k, X in enumerate(off)]
        if self.shrinkage is not None and self.expecting[0] is None:  # offsets of rows are off their mean
            charges[0][:, -1] -= charges[0][:, -1].mean()
        return [charge.astype(X.dtype, copy=False) for charge, X in zip(charges, x, strict=True)]

    def _charge(self, x: FactorPair, y: FactorPair) -> float:
        """The penalties as a bilinear form."""
        return sum(
            float(np.einsum("ik,ik->", charge, Y, dtype=np.float64))
            for charge, Y in zip(self._charges(x), y, strict=True)
        )

    def _narrowed(self, f_L: Floats, f_R: Floats) -> FactorPair:
        """Drop the columns of the constants."""
        return (f_L[:, :-1], np.delete(f_R, -2, axis=1)) if self.bias else (f_L, f_R)

    def _slope(self, G: Floats, H: Floats) -> Scaled:
        """D_r^-½ S D_c^-½ for S = -|Ω|/2 times the gradient of the losses at W = 0 and these offsets."""
        if not G.shape[1]:
            G, H = (np.zeros((d, 1), X.dtype) for d, X in zip(self.shape, (G, H), strict=True))
        S = self.completion.observed.slopes(*self.widened(G, H), self.completion.loss, -0.5)
        rows, cols = ((1 / np.sqrt(root))[:, None].astype(S.dtype) for root in self.roots)
        return Scaled(S, rows, cols)

    def _unscaled(self, U: Floats, s: Floats, V: Floats) -> FactorPair:
        """D_r^-½ U s^½ and D_c^-½ V s^½."""
        (rows, cols), roots = self.roots, np.sqrt(s)
        return _times(1 / np.sqrt(rows), U * roots), _times(1 / np.sqrt(cols), V * roots)


def _times(diagonal: Floats, X: Floats) -> Floats:
    return (diagonal[:, None] * X).astype(X.dtype, copy=False)
