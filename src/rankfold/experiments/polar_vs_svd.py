"""Figure polar_vs_svd: B positive definite against B diagonal."""

from __future__ import annotations

from rankfold.experiments.competitors import DIAGONAL, UBV_GD
from rankfold.experiments.curves import GD_LIMIT, Claim, Curves, Figure, count


def claims(curves: Curves) -> list[Claim]:
    """Compare the two middles."""
    spd, diagonal = curves.iterations(UBV_GD.label), curves.iterations(DIAGONAL.label)
    ends = sum(run.first("iteration", 1e-20) > GD_LIMIT for run in curves.of(DIAGONAL.label))
    return [
        Claim(
            "Convergence of gradient descent suffers from a diagonal B.",
            f"median iterations to 1e-20: SPD {count(spd)}, diagonal {count(diagonal)}; median cost at the "
            f"end: SPD {curves.final(UBV_GD.label):.1e}, diagonal {curves.final(DIAGONAL.label):.1e}",
            diagonal >= 1.2 * spd,
        ),
        Claim(
            f"The runs with a diagonal B reached {GD_LIMIT} iterations.",
            f"{ends} of {len(curves.of(DIAGONAL.label))} runs did",
            ends == len(curves.of(DIAGONAL.label)),
        ),
    ]


FIGURE = Figure(
    "polar-vs-svd", "W = UBVᵀ, B positive definite or diagonal", "middle", (UBV_GD, DIAGONAL), claims
)
