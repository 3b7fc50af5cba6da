"""Losses of one entry: how far W_ij is from its datum."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rankfold.kernels import formulas

_MAX_EXPONENT = float(np.log(np.finfo(np.float64).max))
Scalar = Callable[[float, float], float]


@dataclass(frozen=True)
class Loss:
    """A smooth function ℓ(w, y) of an entry w = W_ij and its datum y.

    `formula(w, y, parameter)` gives (ℓ, ∂ℓ/∂w, ∂²ℓ/∂w²). It is compiled by numba for the kernels, so it
    should use plain arithmetic and NumPy functions; it should work on arrays too.

    The built-in ones are named: "square", (w-y)²; "logistic", for y in {0, 1}, log(1+exp(w)) - yw; "poisson",
    for counts y, exp(w) - yw; "squared_hinge", for y in {0, 1}, max(0, 1 - (2y-1)w)²; and "huber", (w-y)² as
    far as |w-y| <= 1 and its tangent beyond, which `Loss.huber(delta)` gives with another limit than 1.

    Examples
    --------
    >>> value, first, second = Loss.named("square")(3.0, 1.0)
    >>> value, first, second
    (4.0, 4.0, 2.0)
    """

    formula: Callable[[Any, Any, float], tuple[Any, Any, Any]]
    parameter: float = 0.0

    def __call__(self, w: Any, y: Any) -> tuple[Any, Any, Any]:
        """Value, first and second derivative in w, entry by entry."""
        triple: tuple[Any, Any, Any] = self.formula(w, y, self.parameter)
        return triple

    @staticmethod
    def named(name: str) -> Loss:
        """Return the built-in loss of that name."""
        names = {formula.__name__: formula for formula in formulas.BUILT_IN}
        if name not in names:
            raise ValueError(f"loss must be one of {', '.join(map(repr, names))} or a Loss; got {name!r}")
        return Loss(names[name], 1.0 if name == "huber" else 0.0)

    @staticmethod
    def huber(delta: float) -> Loss:
        """(w-y)² as far as |w-y| <= delta, and its tangent beyond: outliers pull no harder than delta."""
        if not (np.isfinite(delta) and delta > 0):
            raise ValueError(f"delta must be positive and finite; got {delta!r}")
        return Loss(formulas.huber, float(delta))

    @staticmethod
    def from_functions(value: Scalar, first: Scalar, second: Scalar) -> Loss:
        """Build a loss from three scalar functions of (w, y) that numba can compile.

        Examples
        --------
        >>> quartic = Loss.from_functions(
        ...     lambda w, y: (w - y) ** 4, lambda w, y: 4 * (w - y) ** 3, lambda w, y: 12 * (w - y) ** 2
        ... )
        >>> quartic(2.0, 1.0)
        (1.0, 4.0, 12.0)
        """
        from numba.extending import register_jitable

        value, first, second = register_jitable(value), register_jitable(first), register_jitable(second)

        def formula(w: Any, y: Any, _: float) -> tuple[Any, Any, Any]:
            return value(w, y), first(w, y), second(w, y)

        return Loss(formula)

    @property
    def is_square(self) -> bool:
        """Whether this is (w-y)², the loss that makes a cost quadratic in W."""
        return self.formula is formulas.square

    @property
    def nonnegative(self) -> bool:
        """Whether it is known never to be negative."""
        return self.formula in formulas.BUILT_IN and self.formula is not formulas.poisson

    @property
    def kernel_key(self) -> Any:
        """What the kernels know this loss by: a number if it is built in, a compiled function if not."""
        if self.formula in formulas.BUILT_IN:
            return formulas.BUILT_IN.index(self.formula)
        return _compiled(self.formula)

    def expected(self, w: Any) -> Any:
        """Return what to expect at w: a probability for "logistic", a mean count for "poisson", else w."""
        if self.formula is formulas.logistic:
            return special.expit(w)
        # A mean that no float can hold is the largest one, not infinity: sums and products go on from there.
        return np.exp(np.minimum(w, _MAX_EXPONENT)) if self.formula is formulas.poisson else w

    def check_values(self, values: NDArray[Any]) -> None:
        """Raise ValueError at the first datum this loss is not made for."""
        if self.formula in (formulas.logistic, formulas.squared_hinge):
            wrong, want = (values != 0) & (values != 1), "0 or 1 (map -1 and 1 by (y + 1) / 2)"
        elif self.formula is formulas.poisson:
            wrong, want = values < 0, "counts, zero or more"
        else:
            return
        if wrong.any():
            at = int((wrong * 1).argmax())
            raise ValueError(
                f"values[{at}] is {float(values[at])}, but the {self.formula.__name__} loss wants {want}"
            )


@functools.cache
def _compiled(formula: Any) -> Any:
    """Return the formula compiled, or say why it cannot be: numba's own words are about our kernels."""
    from numba import njit
    from numba.core.errors import NumbaError, UnsupportedBytecodeError

    name = getattr(formula, "__name__", repr(formula))
    if not callable(formula):
        raise TypeError(f"a Loss is made of a function, formula(w, y, parameter), not of {name}")
    compiled = njit(formula, error_model="numpy")
    try:
        compiled.compile("(float64, float64, float64)")
    except (NumbaError, UnsupportedBytecodeError, TypeError) as error:  # TypeError: of other arguments
        first = next((line for line in str(error).splitlines()[1:] if line.strip()), str(error))
        raise TypeError(
            f"the loss formula {name} cannot be compiled by numba, which the kernels need ({first.strip()}): "
            "use plain arithmetic, `if`, and functions of math or NumPy on three numbers, w, y and parameter"
        ) from error
    found = compiled.nopython_signatures[0].return_type
    if getattr(found, "count", 0) != 3:
        raise TypeError(
            f"the loss formula {name} must return the tuple (loss, first derivative, second derivative) in "
            f"w; it returns {found}"
        )
    return compiled
