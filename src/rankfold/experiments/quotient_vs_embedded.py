"""Figure quotient_vs_embedded: the three quotient geometries and the embedded one."""

from __future__ import annotations

from collections.abc import Callable

from rankfold.experiments.competitors import (
    GH_GD,
    GH_TR,
    LRGEOM_CG,
    LRGEOM_GD,
    LRGEOM_TR,
    UBV_GD,
    UBV_TR,
    UY_GD,
    UY_TR,
)
from rankfold.experiments.curves import Claim, Curves, Figure, count

DESCENTS, REGIONS = (GH_GD, UBV_GD, UY_GD, LRGEOM_GD), (GH_TR, UBV_TR, UY_TR, LRGEOM_TR)


def claims(curves: Curves) -> list[Claim]:
    """Compare the four geometries, solver by solver."""
    iterations = {c.label: curves.iterations(c.label) for c in DESCENTS}
    late = {c.label: curves.late_seconds(c.label) for c in REGIONS}
    early = {c.label: curves.early_seconds(c.label) for c in REGIONS}
    fastest = min(early, key=lambda label: early[label])
    products = {c.label: curves.late_products(c.label) for c in REGIONS}
    early_n = {c.label: curves.early_iterations(c.label) for c in REGIONS}
    return [
        Claim(
            "The gradient descents of all geometries are indistinguishable.",
            "median iterations to 1e-20: " + _listed(iterations, count),
            max(iterations.values()) <= 1.5 * min(iterations.values()),
        ),
        Claim(
            "The trust regions perform similarly asymptotically.",
            "median seconds from 1e-5 to 1e-20: "
            + _listed(late, "{:.2f}".format)
            + "; median Hessian products: "
            + _listed(products, count),
            max(late.values()) <= 2 * min(late.values()),
            "they differ in the number of Hessian products, and in seconds per product; in the run of all "
            "figures, curves shared with others are also minutes apart",
        ),
        Claim(
            "LRGeom's trust region is better during the first iterations.",
            "median seconds to 1e-3 of the first cost: "
            + _listed(early, "{:.2f}".format)
            + "; median iterations: "
            + _listed(early_n, count),
            fastest == LRGEOM_TR.label,
            "with the paper's rule for the first radius it takes about as many iterations as the others",
        ),
        Claim(
            "(Not in the paper: LRGeom's conjugate gradients.)",
            f"median iterations to 1e-20: {count(curves.iterations(LRGEOM_CG.label))}, "
            f"{curves.seconds(LRGEOM_CG.label):.1f} s",
            None,
        ),
    ]


def _listed(numbers: dict[str, float], shown: Callable[[float], str]) -> str:
    return ", ".join(f"{label.split()[0]} {shown(number)}" for label, number in numbers.items())


FIGURE = Figure(
    "quotient-vs-embedded",
    "Quotient and embedded geometries",
    "large",
    (*DESCENTS, *REGIONS, LRGEOM_CG),
    claims,
)
