"""The methods of section 6 under the names of its legends; a colour is one geometry in every figure."""

from __future__ import annotations

from dataclasses import replace

from rankfold.baselines import RTRMC, SVP, LMaFit, OptSpace
from rankfold.experiments.curves import TR_LIMIT, Competitor
from rankfold.geometry import Embedded, FullRank, Geometry, Polar, SubspaceProjection
from rankfold.solvers import ConjugateGradient, GradientDescent, TrustRegion

# Paul Tol's bright palette: told apart by most eyes, and in print.
BLUE, RED, GREEN, YELLOW, CYAN, PURPLE = "#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377"
BLACK = "#222222"


def _euclidean_gh(shape: tuple[int, int], rank: int) -> Geometry:
    return FullRank(shape, rank, metric="euclidean")


def _diagonal(shape: tuple[int, int], rank: int) -> Geometry:
    return Polar(shape, rank, middle="diagonal")


def _euclidean_uy(shape: tuple[int, int], rank: int) -> Geometry:
    return SubspaceProjection(shape, rank, metric="euclidean")


GH_GD = Competitor("GH gradient descent", FullRank, GradientDescent(), BLUE, "--")
GH_TR = Competitor("GH trust region", FullRank, TrustRegion(), BLUE, limit=TR_LIMIT)
MMMF = Competitor("MMMF", _euclidean_gh, GradientDescent(), RED, "--")
LMAFIT = Competitor("LMaFit", FullRank, LMaFit(), GREEN, "-.")

UBV_GD = Competitor("UBV gradient descent", Polar, GradientDescent(), PURPLE, "--")
UBV_TR = Competitor("UBV trust region", Polar, TrustRegion(), PURPLE, limit=TR_LIMIT)
DIAGONAL = Competitor("diagonal B", _diagonal, GradientDescent(), RED, "--")
SVP_ = Competitor("SVP", Embedded, SVP(), GREEN, "-.")
OPTSPACE = Competitor("OptSpace", Polar, OptSpace(), YELLOW, "-.")

UY_GD = Competitor("UY gradient descent", SubspaceProjection, GradientDescent(), CYAN, "--")
UY_TR = Competitor("UY trust region", SubspaceProjection, TrustRegion(), CYAN, limit=TR_LIMIT)
EUCLIDEAN_UY = Competitor("UY, Euclidean metric", _euclidean_uy, GradientDescent(), RED, "--")
RTRMC_1 = Competitor("RTRMC-1", SubspaceProjection, RTRMC(order=1), GREEN, "--")
RTRMC_2 = Competitor("RTRMC-2", SubspaceProjection, RTRMC(order=2), GREEN, limit=TR_LIMIT)

LRGEOM_GD = Competitor("LRGeom gradient descent", Embedded, GradientDescent(), BLACK, "--")
LRGEOM_CG = Competitor("LRGeom conjugate gradients", Embedded, ConjugateGradient(), BLACK, ":")
LRGEOM_TR = Competitor("LRGeom trust region", Embedded, TrustRegion(), BLACK, limit=TR_LIMIT)


def unbalanced(competitor: Competitor, color: str) -> Competitor:
    """Return the same method from factors with ‖H₀‖ = 2‖G₀‖ and the same W₀."""
    label = f"{competitor.label}, ‖H₀‖ = 2‖G₀‖"
    return replace(competitor, label=label, imbalance=2.0, color=color, line=":")
