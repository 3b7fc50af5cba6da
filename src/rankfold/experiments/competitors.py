"""The methods of section 6 under the names of its legends; a colour is one geometry in every figure."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from rankfold.baselines import RTRMC, SVP, LMaFit, OptSpace
from rankfold.experiments.curves import TR_LIMIT, Competitor
from rankfold.geometry import Embedded, FullRank, Polar, SubspaceProjection
from rankfold.solvers import ConjugateGradient, GradientDescent, TrustRegion

# Paul Tol's bright palette: told apart by most eyes, and in print.
BLUE, RED, GREEN, YELLOW, CYAN, PURPLE = "#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377"
BLACK = "#222222"

GH_GD = Competitor("GH gradient descent", FullRank, GradientDescent(metric="geometry"), BLUE, "--")
GH_TR = Competitor("GH trust region", FullRank, TrustRegion(metric="geometry"), BLUE, limit=TR_LIMIT)
MMMF = Competitor(
    "MMMF", partial(FullRank, metric="euclidean"), GradientDescent(metric="geometry"), RED, "--"
)
# from factors with ‖H₀‖ = 2‖G₀‖ and the same W₀
GH_GD_2, MMMF_2 = (
    replace(method, label=f"{method.label}, ‖H₀‖ = 2‖G₀‖", imbalance=2.0, color=color, line=":")
    for method, color in ((GH_GD, BLACK), (MMMF, YELLOW))
)
LMAFIT = Competitor("LMaFit", FullRank, LMaFit(), GREEN, "-.")

UBV_GD = Competitor("UBV gradient descent", Polar, GradientDescent(metric="geometry"), PURPLE, "--")
UBV_TR = Competitor("UBV trust region", Polar, TrustRegion(metric="geometry"), PURPLE, limit=TR_LIMIT)
DIAGONAL = Competitor(
    "diagonal B", partial(Polar, middle="diagonal"), GradientDescent(metric="geometry"), RED, "--"
)
SVP_ = Competitor("SVP", Embedded, SVP(), GREEN, "-.")
OPTSPACE = Competitor("OptSpace", Polar, OptSpace(), YELLOW, "-.")

UY_GD = Competitor("UY gradient descent", SubspaceProjection, GradientDescent(metric="geometry"), CYAN, "--")
UY_TR = Competitor(
    "UY trust region", SubspaceProjection, TrustRegion(metric="geometry"), CYAN, limit=TR_LIMIT
)
EUCLIDEAN_UY = Competitor(
    "UY, Euclidean metric",
    partial(SubspaceProjection, metric="euclidean"),
    GradientDescent(metric="geometry"),
    RED,
    "--",
)
RTRMC_1 = Competitor("RTRMC-1", SubspaceProjection, RTRMC(order=1), GREEN, "--")
RTRMC_2 = Competitor("RTRMC-2", SubspaceProjection, RTRMC(order=2), GREEN, limit=TR_LIMIT)

LRGEOM_GD = Competitor("LRGeom gradient descent", Embedded, GradientDescent(metric="geometry"), BLACK, "--")
LRGEOM_CG = Competitor(
    "LRGeom conjugate gradients", Embedded, ConjugateGradient(metric="geometry"), BLACK, ":"
)
LRGEOM_TR = Competitor("LRGeom trust region", Embedded, TrustRegion(metric="geometry"), BLACK, limit=TR_LIMIT)
