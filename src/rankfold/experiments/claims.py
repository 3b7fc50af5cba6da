"""What the paper says about each figure of section 6, measured and judged by the rules of `verdicts`.

Where a rule compares, the method that the paper puts ahead is measured first.
"""

from __future__ import annotations

from math import inf

import numpy as np

from rankfold.experiments.competitors import (
    DIAGONAL,
    EUCLIDEAN_UY,
    GH_GD,
    GH_GD_2,
    GH_TR,
    LMAFIT,
    LRGEOM_CG,
    LRGEOM_GD,
    LRGEOM_TR,
    MMMF,
    MMMF_2,
    OPTSPACE,
    RTRMC_1,
    RTRMC_2,
    SVP_,
    UBV_GD,
    UBV_TR,
    UY_GD,
    UY_TR,
)
from rankfold.experiments.curves import GD_LIMIT, TARGET, Competitor, Curves, Floats, Run
from rankfold.experiments.verdicts import FLAT, SAME, Claim, Measured, judged, medians, recorded


def step_issue(curves: Curves) -> list[Claim]:
    """Figure step-issue: balanced and unbalanced factors of GHᵀ."""
    pairs = zip(curves.of(GH_GD), curves.of(GH_GD_2), strict=True)
    difference = max(_difference(one.values, two.values) for one, two in pairs)
    final = Measured("cost at the end", curves.by_instance(Run.final, balanced=MMMF, unbalanced=MMMF_2))
    return [
        judged("competitive", "MMMF performs well when ‖G₀‖ ≈ ‖H₀‖.", curves.iterations(MMMF=MMMF, GD=GH_GD)),
        judged(
            "faster",
            "MMMF converges more slowly from ‖H₀‖ = 2‖G₀‖.",
            curves.iterations(balanced=MMMF, unbalanced=MMMF_2),
            beside=(final,),
        ),
        Claim(
            "The proposed metric is not affected by the balance of the factors.",
            f"largest difference of two curves, as a part of the first root mean square: {difference:.1e}",
            "unaffected",
            difference <= SAME,
        ),
    ]


def _difference(one: Floats, two: Floats) -> float:
    if len(one) != len(two):
        return inf
    return float(np.max(np.abs(np.sqrt(one) - np.sqrt(two))) / np.sqrt(one[0]))


def full_rank(curves: Curves) -> list[Claim]:
    """Figure gd_vs_tr_gh: GHᵀ, MMMF and LMaFit."""
    three = {"TR": GH_TR, "GD": GH_GD, "LMaFit": LMAFIT}
    likeness = "MMMF and the gradient descent scheme perform similarly"
    ahead = "Asymptotically the trust region has the better rate of convergence"
    return [
        judged("similar", f"{likeness}: iterations.", curves.iterations(GD=GH_GD, MMMF=MMMF)),
        judged("similar", f"{likeness}: time.", curves.seconds(GD=GH_GD, MMMF=MMMF)),
        judged("faster", f"{ahead}: iterations.", curves.late_iterations(**three)),
        judged(
            "faster",
            f"{ahead}: time.",
            curves.late_seconds(**three),
            beside=(curves.late_products(TR=GH_TR),),
            why="a Hessian product is twice the work of a gradient; an iteration of descent is about one "
            "gradient and two values",
        ),
        judged(
            "faster",
            "The trust region starts slowly, gradient descent is effective at first.",
            curves.early_seconds(GD=GH_GD, TR=GH_TR),
            beside=(curves.early_products(TR=GH_TR),),
        ),
        *_lmafit(curves),
    ]


def _lmafit(curves: Curves) -> list[Claim]:
    cost = curves.by_instance(Run.per_iteration, LMaFit=LMAFIT, GD=GH_GD)
    pace = {name: [1e3 * seconds for seconds in of] for name, of in cost.items()}
    return [
        judged(
            "faster",
            "LMaFit has a smaller cost per iteration.",
            Measured("milliseconds per iteration", pace),
            why="it writes the residual in both orders and multiplies by each, four passes over Ω and "
            "memory; descent makes two fused passes for a gradient and one for a trial value",
        ),
        judged(
            "reaches the limit",
            f"LMaFit reached {GD_LIMIT} iterations: its convergence suffers for large matrices.",
            curves.iterations(LMaFit=LMAFIT, GD=GH_GD),
            why="ours takes the same steps as the authors' code wherever both were run: baselines.md",
        ),
    ]


def polar_vs_svd(curves: Curves) -> list[Claim]:
    """Figure polar_vs_svd: B positive definite or diagonal."""
    iterations = curves.iterations(SPD=UBV_GD, diagonal=DIAGONAL)
    final = Measured("cost at the end", curves.by_instance(Run.final, SPD=UBV_GD, diagonal=DIAGONAL))
    return [
        judged(
            "faster",
            "Convergence of gradient descent suffers from a diagonal B.",
            iterations,
            beside=(final,),
        ),
        judged(
            "reaches the limit",
            f"The runs with a diagonal B reached {GD_LIMIT} iterations.",
            curves.iterations(diagonal=DIAGONAL),
        ),
    ]


def polar(curves: Curves) -> list[Claim]:
    """Figure ubv_svp: UBVᵀ, SVP and OptSpace."""
    pair, three = {"GD": UBV_GD, "SVP": SVP_}, {"TR": UBV_TR, "GD": UBV_GD, "SVP": SVP_}
    ahead = "Asymptotically the trust region shows a better performance"
    return [
        judged("competitive", "The proposed framework is competitive with SVP.", curves.seconds(**pair)),
        judged(
            "similar on some",
            "The numbers of iterations of SVP and gradient descent are similar for some instances.",
            curves.iterations(**pair),
            why="the fixed step is near 2 over the curvature of the densest rows and columns, where errors "
            "change sign and hardly shrink; how near depends on the instance",
        ),
        judged(
            "very different",
            "Their timings are very different, for SVP computes a dominant SVD per iteration.",
            curves.seconds(**pair),
            why="block Lanczos is started at the last singular vectors and stopped at 1% of the step's "
            "length, so that an SVD costs a few products with the sparse matrix",
        ),
        judged("faster", f"{ahead}: iterations.", curves.late_iterations(**three)),
        judged(
            "faster",
            f"{ahead}: time.",
            curves.late_seconds(**three),
            beside=(curves.late_products(TR=UBV_TR),),
            why="a Hessian product is twice the work of a gradient",
        ),
        recorded(
            "(Not in the paper, whose authors could not run OptSpace at this size.)",
            curves.iterations(OptSpace=OPTSPACE, GD=UBV_GD),
            curves.seconds(OptSpace=OPTSPACE, GD=UBV_GD),
        ),
    ]


def subspace_metrics(curves: Curves) -> list[Claim]:
    """Figure affine_vs_flat: two metrics of UYᵀ."""
    end = curves.by_instance(Run.final, invariant=UY_GD, Euclidean=EUCLIDEAN_UY)
    first = [float(run.values[0]) for run in curves.of(EUCLIDEAN_UY)]
    flat = all(last > FLAT * begin for last, begin in zip(end["Euclidean"], first, strict=True))
    iterations = curves.iterations(invariant=UY_GD, Euclidean=EUCLIDEAN_UY)
    return [
        Claim(
            "With the Euclidean metric the algorithm flattens out due to a very slow rate of convergence.",
            f"{Measured('cost at the end', {'start': first, **end})}; {iterations}",
            "flattens out",
            flat and max(end["invariant"]) <= TARGET,
        ),
        judged(
            "very different", "The choice of the metric dramatically affects the performance.", iterations
        ),
    ]


def subspace(curves: Curves) -> list[Claim]:
    """Figure uz_vs_rtrmc: UYᵀ and RTRMC."""
    regions, descents = {"RTRMC-2": RTRMC_2, "TR": UY_TR}, {"RTRMC-1": RTRMC_1, "GD": UY_GD}
    ours_first = {"TR": UY_TR, "RTRMC-2": RTRMC_2}, {"GD": UY_GD, "RTRMC-1": RTRMC_1}
    alike = "The numbers of iterations are similar"
    return [
        judged(
            "competitive",
            "The framework is competitive with RTRMC when d₁ ≈ d₂.",
            *(curves.seconds(**pair) for pair in ours_first),
        ),
        judged(
            "faster",
            "During the first iterations RTRMC-2 shows a better performance than our trust region.",
            curves.early_seconds(**regions),
            beside=(curves.early_products(**regions),),
        ),
        judged(
            "similar",
            "Asymptotically both trust regions perform similarly.",
            curves.late_seconds(**regions),
            beside=(curves.late_products(**regions),),
        ),
        judged(
            "similar",
            f"{alike}: trust regions.",
            curves.iterations(**regions),
            why="RTRMC-2 needs no steps to find Y, and takes its large first radius at once",
        ),
        judged("similar", f"{alike}: gradient descents.", curves.iterations(**descents)),
        judged(
            "faster",
            "Our gradient descent shows a better timing than RTRMC-1.",
            curves.seconds(**ours_first[1]),
            why="compiled, the normal equations of a column cost no more than the trials of a line search",
        ),
    ]


DESCENTS = {"GH": GH_GD, "UBV": UBV_GD, "UY": UY_GD, "LRGeom": LRGEOM_GD}
REGIONS = {"LRGeom": LRGEOM_TR, "GH": GH_TR, "UBV": UBV_TR, "UY": UY_TR}


def geometries(curves: Curves) -> list[Claim]:
    """Figure quotient_vs_embedded."""
    alike = "The behaviours of the gradient descents of all geometries are indistinguishable"
    backtracks = Measured("refused trials per iteration", curves.by_instance(Run.backtracks, **DESCENTS))
    kinds = _quotients(DESCENTS), _quotients(REGIONS)
    return [
        judged("indistinguishable", f"{alike}: iterations.", curves.iterations(**DESCENTS)),
        judged("indistinguishable", f"{alike}: time.", curves.seconds(**DESCENTS)),
        _competitive(curves, "gradient descents", DESCENTS),
        _competitive(curves, "trust regions", REGIONS),
        *_regions(curves),
        judged(
            "similar",
            "The three geometries show a comparable numerical performance (section 7).",
            *(curves.seconds(**kind) for kind in kinds),
        ),
        judged(
            "about 1",
            "The predicted step-size keeps the number of line-searches close to 1 on average (section 5.1).",
            backtracks,
        ),
        recorded(
            "(Not in the paper: LRGeom's conjugate gradients.)",
            curves.iterations(LRGeomCG=LRGEOM_CG),
            curves.seconds(LRGeomCG=LRGEOM_CG),
        ),
    ]


def _quotients(methods: dict[str, Competitor]) -> dict[str, Competitor]:
    return {name: method for name, method in methods.items() if name != "LRGeom"}


def _competitive(curves: Curves, kind: str, methods: dict[str, Competitor]) -> Claim:
    pairs = ({name: method, "LRGeom": methods["LRGeom"]} for name, method in _quotients(methods).items())
    says = f"The quotient algorithms are competitive with LRGeom: {kind}."
    return judged("competitive", says, *(curves.seconds(**pair) for pair in pairs))


def _regions(curves: Curves) -> list[Claim]:
    early = curves.early_products(**REGIONS)
    middle = medians(early.numbers)
    rest = ", ".join(f"{middle[name]:g}" for name in _quotients(REGIONS))
    return [
        judged(
            "similar",
            "Asymptotically the trust regions perform the same.",
            curves.late_seconds(**REGIONS),
            beside=(curves.late_products(**REGIONS),),
            why="they differ in the number of Hessian products, and in seconds per product",
        ),
        judged(
            "faster",
            "LRGeom's trust region shows a better performance during the first iterations; the others spend "
            "more time in transition to the region of rapid convergence.",
            curves.early_seconds(**REGIONS),
            beside=(early,),
            why=f"it spends {middle['LRGeom']:g} Hessian products there, the others {rest}",
        ),
    ]
