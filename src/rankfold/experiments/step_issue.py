"""Figure step-issue: descent on (G, H) from balanced and from unbalanced factors."""

from __future__ import annotations

import numpy as np

from rankfold.experiments.competitors import BLACK, GH_GD, MMMF, YELLOW, unbalanced
from rankfold.experiments.curves import GD_LIMIT, Claim, Curves, Figure, count

GD_2, MMMF_2 = unbalanced(GH_GD, BLACK), unbalanced(MMMF, YELLOW)


def claims(curves: Curves) -> list[Claim]:
    """Compare iterations of the two metrics, from the two starts."""
    gd, mmmf = curves.iterations(GH_GD.label), curves.iterations(MMMF.label)
    mmmf_2 = curves.iterations(MMMF_2.label)
    difference = max(_difference(curves, instance) for instance in {run.instance for run in curves.runs})
    return [
        Claim(
            "MMMF performs well when ‖G₀‖ ≈ ‖H₀‖.",
            f"median iterations to 1e-20: GD {count(gd)}, MMMF {count(mmmf)}",
            mmmf <= 1.25 * gd,
        ),
        Claim(
            "MMMF converges more slowly from ‖H₀‖ = 2‖G₀‖.",
            f"median iterations to 1e-20: {count(mmmf)} balanced, {count(mmmf_2)} unbalanced; median cost "
            f"{curves.final(MMMF_2.label):.1e} then, after at most {GD_LIMIT} iterations",
            mmmf_2 >= 1.2 * mmmf,
        ),
        Claim(
            "The proposed metric is not affected by the balance of the factors.",
            "largest difference of the two curves of root mean square errors, all iterations: "
            f"{difference:.1e} (the data's is 2.2)",
            difference < 1e-12,
        ),
    ]


def _difference(curves: Curves, instance: int) -> float:
    one, two = curves.of(GH_GD.label)[instance].values, curves.of(GD_2.label)[instance].values
    if len(one) != len(two):
        return float("inf")
    return float(np.max(np.abs(np.sqrt(one) - np.sqrt(two))))


FIGURE = Figure(
    "step-issue",
    "W = GHᵀ from balanced and unbalanced factors",
    "middle",
    (GH_GD, GD_2, MMMF, MMMF_2),
    claims,
)
