"""Figure affine_vs_flat: W = UYᵀ with the invariant and with the Euclidean metric."""

from __future__ import annotations

from rankfold.experiments.competitors import EUCLIDEAN_UY, UY_GD
from rankfold.experiments.curves import Claim, Curves, Figure


def claims(curves: Curves) -> list[Claim]:
    """Compare where the two metrics end."""
    ours, flat = curves.final(UY_GD.label), curves.final(EUCLIDEAN_UY.label)
    start = float(curves.runs[0].values[0])
    return [
        Claim(
            "With the Euclidean metric the algorithm flattens out, very slow to converge.",
            f"median cost at the end, from {start:.1e}: Euclidean {flat:.1e} after "
            f"{curves.median(EUCLIDEAN_UY.label, lambda run: run.iterations):g} iterations, invariant "
            f"{ours:.1e} after {curves.median(UY_GD.label, lambda run: run.iterations):g}",
            flat > 1e-3 * start and ours <= 1e-15,
        )
    ]


FIGURE = Figure("uy-metric", "W = UYᵀ, two metrics", "middle", (UY_GD, EUCLIDEAN_UY), claims)
