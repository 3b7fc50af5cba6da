"""The figures of section 6: which methods each compares."""

from __future__ import annotations

from rankfold.experiments import claims
from rankfold.experiments import competitors as methods
from rankfold.experiments.curves import Figure

_STEP_ISSUE = methods.GH_GD, methods.GH_GD_2, methods.MMMF, methods.MMMF_2
_GH = methods.GH_GD, methods.GH_TR, methods.MMMF, methods.LMAFIT
_POLAR = methods.UBV_GD, methods.DIAGONAL
_UBV = methods.UBV_GD, methods.UBV_TR, methods.SVP_, methods.OPTSPACE
_METRICS = methods.UY_GD, methods.EUCLIDEAN_UY
_UY = methods.UY_GD, methods.UY_TR, methods.RTRMC_1, methods.RTRMC_2
_ALL = *claims.DESCENTS.values(), *claims.REGIONS.values(), methods.LRGEOM_CG

FIGURES = (
    Figure(
        "step-issue", "W = GHᵀ from balanced and unbalanced factors", "middle", _STEP_ISSUE, claims.step_issue
    ),
    Figure("gh", "W = GHᵀ, MMMF and LMaFit", "large", _GH, claims.full_rank),
    Figure(
        "polar-vs-svd", "W = UBVᵀ, B positive definite or diagonal", "middle", _POLAR, claims.polar_vs_svd
    ),
    Figure("ubv-svp", "W = UBVᵀ, SVP and OptSpace", "large", _UBV, claims.polar),
    Figure("uy-metric", "W = UYᵀ, two metrics", "middle", _METRICS, claims.subspace_metrics),
    Figure("uy-rtrmc", "W = UYᵀ and RTRMC", "large", _UY, claims.subspace),
    Figure("quotient-vs-embedded", "Quotient and embedded geometries", "large", _ALL, claims.geometries),
)
