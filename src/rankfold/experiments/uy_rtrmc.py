"""Figure uz_vs_rtrmc: W = UYᵀ and RTRMC."""

from __future__ import annotations

from rankfold.experiments.competitors import RTRMC_1, RTRMC_2, UY_GD, UY_TR
from rankfold.experiments.curves import Claim, Curves, Figure, count


def claims(curves: Curves) -> list[Claim]:
    """Compare each pair of methods, early and late."""
    gd, tr, one, two = (c.label for c in (UY_GD, UY_TR, RTRMC_1, RTRMC_2))
    early, late, seconds = curves.early_seconds, curves.late_seconds, curves.seconds
    ratio = late(two) / late(tr)
    return [
        Claim(
            "During the first iterations RTRMC-2 is better than our trust region.",
            f"median seconds to 1e-3 of the first cost: RTRMC-2 {early(two):.2f}, TR {early(tr):.2f}",
            early(two) < early(tr),
        ),
        Claim(
            "Asymptotically both perform similarly.",
            f"median seconds from 1e-5 to 1e-20: RTRMC-2 {late(two):.2f}, TR {late(tr):.2f}",
            0.5 <= ratio <= 2,
            "a Hessian product through the elimination is two one-sided passes over Ω and small triangular "
            "solves, no dearer than ours, and the reduced problem needs fewer of them",
        ),
        Claim(
            "Both trust regions need similar numbers of iterations.",
            f"median iterations to 1e-20: RTRMC-2 {count(curves.iterations(two))}, "
            f"TR {count(curves.iterations(tr))}",
            curves.iterations(tr) <= 2 * curves.iterations(two),
            "RTRMC-2 needs no steps to find Y, and takes its large first radius at once",
        ),
        Claim(
            "Our gradient descent has the better timing than RTRMC-1.",
            f"median seconds to 1e-20: RTRMC-1 {seconds(one):.2f}, GD {seconds(gd):.2f}; median iterations "
            f"{count(curves.iterations(one))} and {count(curves.iterations(gd))}",
            seconds(gd) < seconds(one),
            "compiled, the normal equations of a column cost no more than the trial values of a line search",
        ),
    ]


FIGURE = Figure("uy-rtrmc", "W = UYᵀ and RTRMC", "large", (UY_GD, UY_TR, RTRMC_1, RTRMC_2), claims)
