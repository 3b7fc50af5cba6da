"""Any smooth function of a low-rank matrix that a user writes down."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import array_api_compat
import numpy as np

from rankfold.costs.base import Array, Cost, Evaluation
from rankfold.costs.start import downhill_start
from rankfold.linalg import asarray_like, eps, gram

Value = Callable[[Array, Array], Any]
Partials = Callable[[Array, Array], tuple[Any, Array, Array]]
Derivative = Callable[[Array, Array, Array, Array], tuple[Array, Array]]


class Custom(Cost):
    """f(L, R) written in torch, differentiated by torch: a smooth function of W = L Rᵀ in a few lines.

    Partial derivatives come from reverse mode, their changes from forward over reverse mode, or from reverse
    mode twice where an operation of f has no forward rule. Factors may be NumPy arrays or tensors on any
    device: f always gets tensors, and results come back as what was given. Data that f uses must be on the
    same device and of the same dtype: `W.new_tensor(data)` makes it so. Where it cannot, say `like=data`, and
    start from a point that lives there: `x0 = geometry.random_point(like=data)`.

    f must depend on L and R through L Rᵀ only, for geometries move freely among the factorisations of one W.
    This is checked at each evaluation, by Lᵀ f_L = f_Rᵀ R. On `FullRank(metric="euclidean")`, whose points
    are L and R themselves, f may have terms such as ‖L‖² and ‖R‖²: there only rotations must not matter,
    f(L O, R O) = f(L, R), which is checked by the symmetry of Lᵀ f_L + Rᵀ f_R.

    Parameters
    ----------
    f
        (L, R) -> a tensor with one element.
    shape
        The shape of W.
    like
        An array of the library, dtype and device in which `value_at_zero` is computed: NumPy's float64 if not
        given.

    Examples
    --------
    >>> import numpy as np, rankfold as rf
    >>> target = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])
    >>> cost = rf.Custom(lambda L, R: ((L @ R.T - L.new_tensor(target)) ** 2).sum(), shape=(3, 2))
    >>> result = rf.minimize(rf.Problem(cost, rf.FullRank(cost.shape, rank=1)), rf.TrustRegion())
    >>> bool(result.value < 1e-12)
    True
    """

    nonnegative = False  # for all we know
    factored = None

    def __init__(self, f: Value, shape: tuple[int, int], like: Array | None = None):
        if find_spec("torch") is None:
            words = (
                "rankfold.Custom differentiates by torch: pip install 'rankfold[torch]', or give derivatives"
            )
            raise ModuleNotFoundError(f"{words} by hand, rankfold.Custom.from_partials", name="torch")
        autodiff = _Autodiff(f)
        self._set(autodiff.partials, autodiff.derivative, shape, like)

    def _set(
        self, partials: Partials, derivative: Derivative, shape: tuple[int, int], like: Array | None
    ) -> None:
        self._partials, self._derivative = partials, derivative
        self.shape = int(shape[0]), int(shape[1])
        self._like = np.zeros(0) if like is None else like

    @classmethod
    def from_partials(
        cls,
        partials: Partials,
        shape: tuple[int, int],
        derivative: Derivative | None = None,
        like: Array | None = None,
    ) -> Custom:
        """Build a cost from its partial derivatives, without torch.

        Parameters
        ----------
        partials
            (L, R) -> (value, f_L, f_R), with f_L = S R and f_R = Sᵀ L for S = ∇f(W).
        shape
            The shape of W.
        derivative
            (L, R, dL, dR) -> (df_L, df_R), the change of f_L and f_R along (dL, dR); by default by central
            differences: two more evaluations per Hessian product, right to about 1e-9 relative, enough for
            trust regions to converge, but not quadratically to the last digits.
        like
            As above.

        Examples
        --------
        >>> import numpy as np
        >>> def partials(L, R):  # ‖W - 1‖²
        ...     E = L @ R.T - 1.0
        ...     return np.sum(E**2), 2 * E @ R, 2 * E.T @ L
        >>> Custom.from_partials(partials, shape=(3, 2)).value(np.ones((3, 1)), np.zeros((2, 1)))
        6.0
        """
        cost = object.__new__(cls)
        cost._set(partials, derivative or partial(_differences, partials), shape, like)
        return cost

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ; checks that f is a function of L Rᵀ."""
        found = self._checked(L, R)
        _check_invariance(L, R, found.f_L, found.f_R)
        return found

    def evaluate_factored(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at (L, R); checks that rotations of both do not matter."""
        found = self._checked(L, R)
        _check_rotations(L, R, found.f_L, found.f_R)
        return found

    def _checked(self, L: Array, R: Array) -> Evaluation:
        value, f_L, f_R = self._partials(L, R)
        if tuple(f_L.shape) != tuple(L.shape) or tuple(f_R.shape) != tuple(R.shape):
            raise ValueError(
                f"partials must have the shapes of L and R, {tuple(L.shape)} and {tuple(R.shape)}; "
                f"got {tuple(f_L.shape)} and {tuple(f_R.shape)}"
            )
        return Evaluation(float(value), f_L, f_R)

    def value(self, L: Array, R: Array) -> float:
        """Value alone, of which nothing is checked."""
        return float(self._partials(L, R)[0])

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR)."""
        return self._derivative(L, R, dL, dR)

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return one step down the gradient at W = 0, as a rank-r singular value decomposition."""
        return downhill_start(self, rank, seed)

    def as_factor(self, numbers: Array) -> Array:
        """Return a factor in the library, dtype and place of `like`."""
        return asarray_like(numbers, self._like)

    @property
    def value_at_zero(self) -> float:
        """Value at W = 0, computed for arrays like `like`."""
        L, R = (self.as_factor(np.zeros((d, 1))) for d in self.shape)
        try:
            return float(self._partials(L, R)[0])
        except RuntimeError as error:  # torch's, for data that live elsewhere
            error.add_note("f at W = 0 was asked for arrays like `like` of rankfold.Custom: give like=data")
            raise


class _Autodiff:
    """Partials and their derivatives of a function of tensors."""

    def __init__(self, f: Value):
        self.f = f
        self.forward = True  # until an operation without a forward rule is met

    def partials(self, L: Array, R: Array) -> tuple[Any, Array, Array]:
        from torch.func import grad_and_value

        try:
            (f_L, f_R), value = grad_and_value(self.f, argnums=(0, 1))(*_tensors(L, R))
        except Exception as error:
            error.add_note(
                "rankfold.Custom gives f two torch tensors, L and R: write it with functions of torch, and "
                "return one number; derivatives by hand, without torch, are for rankfold.Custom.from_partials"
            )
            raise
        return value.item(), *_like(L, f_L, f_R)

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        from torch.func import grad, jvp

        L_, R_, dL_, dR_ = _tensors(L, R, dL, dR)
        if self.forward:
            try:
                return _like(L, *jvp(grad(self.f, argnums=(0, 1)), (L_, R_), (dL_, dR_))[1])
            except (NotImplementedError, RuntimeError) as error:
                if "forward" not in str(error):
                    raise
                self.forward = False

        def along(L: Any, R: Any) -> Any:
            f_L, f_R = grad(self.f, argnums=(0, 1))(L, R)
            return (f_L * dL_).sum() + (f_R * dR_).sum()

        return _like(L, *grad(along, argnums=(0, 1))(L_, R_))


def _differences(partials: Partials, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
    """Central differences of the partials."""
    size = float(np.sqrt(_square(L) + _square(R)))
    step = float(np.sqrt(_square(dL) + _square(dR)))
    if step == 0.0:
        return dL, dR  # both are 0
    # eps^(1/3) balances truncation, of order h², against rounding, of order eps/h
    h = eps(L) ** (1 / 3) * max(size, 1e-8) / step
    _, *above = partials(L + h * dL, R + h * dR)
    _, *below = partials(L - h * dL, R - h * dR)
    return (above[0] - below[0]) / (2 * h), (above[1] - below[1]) / (2 * h)


def _square(A: Array) -> float:
    return float(array_api_compat.array_namespace(A).sum(A * A))


def _tensors(*arrays: Array) -> list[Any]:
    """Return the same numbers as tensors; tensors stay where they are."""
    import torch

    return [a if isinstance(a, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(a)) for a in arrays]


def _like(example: Array, first: Any, second: Any) -> tuple[Array, Array]:
    """Return two tensors as arrays of the library of `example`."""
    if array_api_compat.is_torch_array(example):
        return first.detach(), second.detach()
    xp = array_api_compat.array_namespace(example)
    return xp.asarray(first.detach().numpy()), xp.asarray(second.detach().numpy())


def _check_invariance(L: Array, R: Array, f_L: Array, f_R: Array) -> None:
    """Both sides are LᵀSR when f is a function of W; a cost of r² numbers."""
    excess, size = _sizes(gram(L, f_L) - gram(f_R, R), L, R, f_L, f_R)
    if excess > eps(L) ** 0.4 * size:
        raise ValueError(
            f"f depends on how W is factored, not on W = L Rᵀ alone: Lᵀ f_L and f_Rᵀ R differ by "
            f"{excess / size:.0e} relative. Write f in terms of L @ R.T; a penalty on the factors, "
            "‖L‖² + ‖R‖², becomes rankfold.Nuclear (twice the nuclear norm is its least value over all "
            "factorisations) or rankfold.Frobenius, added to the cost; or minimise over the factors "
            "themselves, on FullRank(metric='euclidean')"
        )


def _check_rotations(L: Array, R: Array, f_L: Array, f_R: Array) -> None:
    """Along (LΩ, RΩ) with skew Ω the slope is Tr(Ωᵀ(Lᵀf_L + Rᵀf_R)), which is 0 for a symmetric matrix."""
    A = gram(L, f_L) + gram(R, f_R)
    excess, size = _sizes(A - A.T, L, R, f_L, f_R)
    if excess > eps(L) ** 0.4 * size:
        raise ValueError(
            f"f depends on the basis of L and R: f(L O, R O) must be f(L, R) for orthogonal O, but "
            f"Lᵀ f_L + Rᵀ f_R is not symmetric, by {excess / size:.0e} relative"
        )


def _sizes(gap: Array, L: Array, R: Array, f_L: Array, f_R: Array) -> tuple[float, float]:
    size = (_square(L) * _square(f_L)) ** 0.5 + (_square(R) * _square(f_R)) ** 0.5
    return _square(gap) ** 0.5, size
