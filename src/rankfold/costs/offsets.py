"""Completion with offsets: one for all entries, one for each row, one for each column; fitted, or given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, is_torch_array
from numpy.typing import ArrayLike, NDArray

from rankfold.costs.base import Array, Cost, Evaluation, LineBlocks
from rankfold.costs.completion import Completion
from rankfold.costs.offset_system import OffsetSystem
from rankfold.entries.arrays import check_factors, like, near, to_numpy
from rankfold.entries.given_arrays import check_size, real_vector
from rankfold.linalg import asarray_like
from rankfold.linalg.primitives import on_host
from rankfold.linalg.rows import at_hand, in_place_of, is_spread, whole
from rankfold.remembered import remembered

Floats = NDArray[np.float64]


class Offsets(NamedTuple):
    """Offsets of a fit: entry (i, j) is predicted by W_ij + mean + rows[i] + cols[j]."""

    mean: float
    rows: Floats
    cols: Floats


class WithOffsets(Cost):
    """Completion of W + mean + row and column offsets, with the best offsets for each W.

    f(W) is the least of (1/|Ω|) (Σ w_ij (W_ij + μ + b_i + c_j - y_ij)² + ρ_μ μ² + ρ_r ‖b‖² + ρ_c ‖c‖²) over
    μ, b and c.

    The offsets are the solution of a linear system that is factored once, so they are always optimal and
    never variables: f is a function of W alone, quadratic, and every geometry and solver works on it. A pass
    costs two more products with the pattern of Ω, and two more columns.

    Parameters
    ----------
    cost
        A completion cost with the square loss.
    mean, rows, cols
        The ridges ρ_μ, ρ_r and ρ_c, in numbers of entries: without W, an offset of a row with n entries
        shrinks by n / (n + ρ_r). None switches an offset off. One of those that are on may have the ridge 0;
        two could trade a constant. An offset that no entry and no ridge determines is 0.
    by_counts
        Multiply ρ_r and ρ_c by the number of entries in the row or column, as popular codes do.

    Examples
    --------
    >>> import numpy as np, rankfold as rf
    >>> plain = rf.Completion([0, 0, 1, 1], [0, 1, 0, 1], [1.0, 2.0, 3.0, 4.0], (2, 2))
    >>> cost = WithOffsets(plain, mean=None, rows=0.0, cols=None)
    >>> zero = np.zeros((2, 1)), np.zeros((2, 1))
    >>> np.round(cost.offsets(*zero).rows, 6).tolist()
    [1.5, 3.5]
    """

    quadratic = True
    has_line_blocks = True

    def __init__(
        self,
        cost: Completion,
        mean: float | None = 0.0,
        rows: float | None = 5.0,
        cols: float | None = 5.0,
        by_counts: bool = False,
    ):
        if not cost.quadratic:
            raise ValueError("offsets are eliminated exactly for the square loss only")
        _check_ridges(mean, rows, cols)
        self.completion, self.shape = cost, cost.shape
        self._system = OffsetSystem(cost.store, mean, rows, cols, by_counts)

    @property
    def places(self) -> tuple[Any, Any] | None:
        """Those of the completion cost."""
        return self.completion.places

    @property
    def device(self) -> Any:
        """The GPU that the entries are on; None if they are in memory."""
        return self.completion.device

    def offsets(self, L: Array, R: Array) -> Offsets:
        """Return the best offsets for W = L Rᵀ."""
        A, B = at_hand_of(self.completion, (L,), (R,))
        beta = on_host(self._system.offsets(A, B))
        rows, cols = np.split(beta[:-1], [len(A)])
        return Offsets(float(beta[-1]), self._system.all_rows(rows), cols)

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ: as the offsets are optimal, theirs vanish."""
        A, B = at_hand_of(self.completion, (L,), (R,))
        beta = self._system.offsets(A, B)
        value, f_L, f_R = self.completion.evaluate(*self._with(A, B, beta))
        return Evaluation(value + self._system.penalty(beta), *without_offsets(L, f_L, f_R))

    def value(self, L: Array, R: Array) -> float:
        """Value alone."""
        A, B = at_hand_of(self.completion, (L,), (R,))
        beta = self._system.offsets(A, B)
        return self.completion.value(*self._with(A, B, beta)) + self._system.penalty(beta)

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR), the change of the offsets included."""
        A, dA, B, dB = at_hand_of(self.completion, (L, dL), (R, dR))
        beta = self._system.offsets(A, B)
        change = -self._system.solve(self._system.sums(dA, B) + self._system.sums(A, dB))
        here, moving = self._with(A, B, beta), self._with(dA, dB, change, constant=0.0)
        return without_offsets(L, *self.completion.derivative(*here, *moving))

    def line_blocks(self, L: Array, R: Array) -> LineBlocks:
        """Return the blocks of completion with the offsets held, which are no smaller."""
        return self.completion.line_blocks(L, R)

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64]:
        """Coefficients, constant first, of t ↦ f((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ).

        With the offsets held, it is that of completion. Letting them follow lowers it by aᵀH⁻¹a / |Ω|, a(t)
        being the sums by row, by column and in all of the change of W on Ω, and H the offsets' system.
        """
        factors = at_hand_of(self.completion, Ls, Rs)
        As, Bs = factors[: len(Ls)], factors[len(Ls) :]
        system, beta = self._system, self._system.offsets(As[0], Bs[0])
        zero = 0 * beta
        lines = [self._with(As[0], Bs[0], beta), *(self._with(A, Bs[0], zero, 0.0) for A in As[1:])]
        lines_R = [lines[0][1], *(self._with(As[0], B, zero, 0.0)[1] for B in Bs[1:])]
        coefficients = self.completion.polynomial([line[0] for line in lines], lines_R)
        coefficients[0] += system.penalty(beta)
        sums = array_namespace(beta).stack([zero] * (len(As) + len(Bs) - 1))
        for i, A in enumerate(As):
            for j, B in enumerate(Bs):
                if i + j:
                    sums[i + j] += system.sums(A, B)
        gains = on_host(system.inner(sums, system.solve(sums.T))) / self.completion.store.size
        for k in range(1, len(sums)):
            for m in range(1, len(sums)):
                coefficients[k + m] -= gains[k, m]
        return coefficients

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return the start point of completion of what the offsets alone leave over."""
        mean, rows, cols = self.offsets(*(np.zeros((d, 1)) for d in self.shape))
        left = self.completion.store.with_values(lambda i, j, y: y - (mean + rows[i] + cols[j]))
        return Completion.from_observed(left).start(rank, seed)

    def fingerprint(self) -> dict[str, str | float]:
        """That of the completion cost, and values that depend on the ridges."""
        return {**self.completion.fingerprint(), **super().fingerprint()}

    @remembered
    def value_at_zero(self) -> float:
        """Value at W = 0: what offsets alone leave over."""
        return self.value(*(np.zeros((d, 1)) for d in self.shape))

    def _with(self, A: Any, B: Any, beta: Floats, constant: float = 1.0) -> tuple[Any, Any]:
        """[A, b + μ, 1] and [B, 1, c], whose product is W with the offsets added."""
        d = len(A)
        return _placed(self.completion, with_offsets(A, B, beta[:d] + beta[-1], beta[d:-1], constant))


def _check_ridges(*ridges: float | None) -> None:
    given = [ridge for ridge in ridges if ridge is not None]
    if not given or given.count(0) > 1 or not all(ridge >= 0 and np.isfinite(ridge) for ridge in given):
        mean, rows, cols = ridges
        raise ValueError(
            "ridges must be None (no such offset), or finite and zero or more: at least one a number, at most"
            f" one zero; got mean={mean}, rows={rows} and cols={cols}"
        )


def at_hand_of(cost: Completion, Ls: Sequence[Array], Rs: Sequence[Array]) -> list[Any]:
    """Return the rows at hand of all L, and all rows of all R: NumPy's, or on a GPU where the entries are."""
    check_factors(cost.shape, Ls, Rs)
    if getattr(cost.store, "on_device", False):
        return [A.contiguous() if is_torch_array(A) else cost.store.asarray(A) for A in (*Ls, *Rs)]
    own = _own_rows(cost)
    return to_numpy(*(L.block if is_spread(L) else L[own] for L in Ls), *map(whole, Rs))


def _own_rows(cost: Completion) -> slice:
    places = cost.places
    return slice(None) if places is None else places[0].own


def _placed(cost: Completion, factors: tuple[Any, Any]) -> tuple[Any, Any]:
    """The rows at hand as those of a factor, and the other factor, which is whole, as it is."""
    left, right = factors
    return (left if cost.places is None else cost.places[0].array(left)), right


def with_offsets(A: Any, B: Any, rows: Any, cols: Any, constant: float = 1.0) -> tuple[Any, Any]:
    """[A, rows, 1] and [B, 1, cols], whose product has the offsets added; `constant` in place of 1."""
    xp = array_namespace(A)
    rows, cols = asarray_like(rows, A)[:, None], asarray_like(cols, A)[:, None]
    left = xp.concat([A, rows, xp.full_like(rows, constant)], axis=1)
    return left, xp.concat([B, xp.full_like(cols, constant), cols], axis=1)


def without_offsets(example: Array, f_L: Any, f_R: Any) -> tuple[Array, Array]:
    """Drop the columns of the offsets."""
    left, right = near(at_hand(f_L)[:, :-2], at_hand(f_R)[:, :-2])
    if is_spread(f_L):
        return in_place_of(f_L, left), in_place_of(f_R, right)
    return like(example, left), like(example, right)


class GivenOffsets(Cost):
    """f(W) = `cost` at W_ij + rows[i] + cols[j].

    Parameters
    ----------
    cost
        A completion cost, with any loss.
    rows, cols
        The offsets, one for each row and one for each column.
    """

    def __init__(self, cost: Completion, rows: ArrayLike, cols: ArrayLike):
        self.completion, self.shape = cost, cost.shape
        given = real_vector("rows", rows), real_vector("cols", cols)
        self.rows, self.cols = (np.array(offsets, dtype=np.float64) for offsets in given)
        if (self.rows.shape, self.cols.shape) != tuple((d,) for d in cost.shape):
            raise ValueError(
                f"rows and cols must have one offset for each of {cost.shape[0]} rows and {cost.shape[1]} "
                f"columns; got shapes {self.rows.shape} and {self.cols.shape}"
            )
        for name, offsets in (("rows", self.rows), ("cols", self.cols)):
            check_size(name, offsets)
        self.nonnegative, self.has_line_blocks = cost.nonnegative, cost.has_line_blocks

    @property
    def places(self) -> tuple[Any, Any] | None:
        """Those of the completion cost."""
        return self.completion.places

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ."""
        A, B = at_hand_of(self.completion, (L,), (R,))
        value, f_L, f_R = self.completion.evaluate(*self._with(A, B))
        return Evaluation(value, *without_offsets(L, f_L, f_R))

    def value(self, L: Array, R: Array) -> float:
        """Value alone."""
        A, B = at_hand_of(self.completion, (L,), (R,))
        return self.completion.value(*self._with(A, B))

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR)."""
        return without_offsets(L, *self.completion.derivative(*self._along(L, R, dL, dR)))

    def gauss_newton(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Ṡ R and ṠᵀL along (dL, dR), for positive ℓ″."""
        return without_offsets(L, *self.completion.gauss_newton(*self._along(L, R, dL, dR)))

    def _along(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Any, ...]:
        A, dA, B, dB = at_hand_of(self.completion, (L, dL), (R, dR))
        zeros = np.zeros(len(A)), np.zeros_like(self.cols)
        return *self._with(A, B), *_placed(self.completion, with_offsets(dA, dB, *zeros, 0.0))

    def _with(self, A: Any, B: Any) -> tuple[Any, Any]:
        rows = self.rows[_own_rows(self.completion)]
        return _placed(self.completion, with_offsets(A, B, rows, self.cols))

    def line_blocks(self, L: Array, R: Array) -> LineBlocks:
        """Return the blocks of completion at W with the offsets, less their rows and columns."""
        A, B = at_hand_of(self.completion, (L,), (R,))
        r = A.shape[1]
        blocks = self.completion.line_blocks(*self._with(A, B))
        return LineBlocks(*(1 * side[:, :r, :r] for side in blocks))

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return the start point of the completion cost without the offsets."""
        return self.completion.start(rank, seed)

    def fingerprint(self) -> dict[str, str | float]:
        """That of the completion cost, and values that depend on the offsets."""
        return {**self.completion.fingerprint(), **super().fingerprint()}

    @property
    def value_at_zero(self) -> float:
        """Value at W = 0."""
        return self.value(*(np.zeros((d, 1)) for d in self.shape))
