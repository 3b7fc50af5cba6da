"""What conjugate gradients written out in Grams know of a point and a direction."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

Smalls = NDArray[Any]  # two r×r matrices, of the left side and of the right


class Known(NamedTuple):
    """Grams of a point x and a direction d, the inverse of xᵀx, and what the bases of a metric see of both.

    Those of d follow from those of the vectors that it is a sum of, and have not to be asked for.
    """

    squares: Smalls
    inverses: Smalls
    x_d: Smalls
    d_d: Smalls
    seen: Smalls | None
    ahead: Smalls | None

    def squares_at(self, t: float) -> Smalls:
        """Return the Grams of x + t d."""
        more: Smalls = self.x_d + self.x_d.swapaxes(1, 2) + t * self.d_d
        return self.squares + t * more

    def seen_at(self, t: float) -> Smalls | None:
        """Return what the bases see of x + t d."""
        return None if self.seen is None or self.ahead is None else self.seen + t * self.ahead
