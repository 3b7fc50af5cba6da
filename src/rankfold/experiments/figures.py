"""The figures of section 6: which methods each compares, and what the paper says about them."""

from __future__ import annotations

from math import inf

import numpy as np

from rankfold.experiments import competitors as methods
from rankfold.experiments.curves import GD_LIMIT, Claim, Competitor, Curves, Figure, Floats, Run, count

DESCENTS = {"GH": methods.GH_GD, "UBV": methods.UBV_GD, "UY": methods.UY_GD, "LRGeom": methods.LRGEOM_GD}
REGIONS = {"GH": methods.GH_TR, "UBV": methods.UBV_TR, "UY": methods.UY_TR, "LRGeom": methods.LRGEOM_TR}


def _counts(numbers: dict[str, float]) -> str:
    return ", ".join(f"{name} {count(number)}" for name, number in numbers.items())


def _seconds(numbers: dict[str, float]) -> str:
    return ", ".join(f"{name} {number:.2f}" for name, number in numbers.items())


def _total(curves: Curves, method: Competitor) -> str:
    iterations, seconds = (curves.median(method, Run.first, column) for column in ("iteration", "seconds"))
    return f"{count(iterations)}, {seconds:.1f} s"


def _similar(numbers: dict[str, float], ratio: float) -> bool:
    return max(numbers.values()) <= ratio * min(numbers.values())


def _step_issue(curves: Curves) -> list[Claim]:
    n = curves.medians(Run.first, "iteration", GD=methods.GH_GD, MMMF=methods.MMMF)
    slow = curves.median(methods.MMMF_2, Run.first, "iteration")
    pairs = zip(curves.of(methods.GH_GD), curves.of(methods.GH_GD_2), strict=True)
    difference = max(_difference(one.values, two.values) for one, two in pairs)
    return [
        Claim(
            "MMMF performs well when ‖G₀‖ ≈ ‖H₀‖.",
            f"median iterations to 1e-20: {_counts(n)}",
            n["MMMF"] <= 1.25 * n["GD"],
        ),
        Claim(
            "MMMF converges more slowly from ‖H₀‖ = 2‖G₀‖.",
            f"median iterations to 1e-20: {count(n['MMMF'])} balanced, {count(slow)} unbalanced; median "
            f"cost {curves.median(methods.MMMF_2, Run.final):.1e} then, after at most {GD_LIMIT} iterations",
            slow >= 1.2 * n["MMMF"],
        ),
        Claim(
            "The proposed metric is not affected by the balance of the factors.",
            "largest difference of the two curves of root mean square errors, all iterations: "
            f"{difference:.1e} (the data's is 2.2)",
            difference < 1e-12,
        ),
    ]


def _difference(one: Floats, two: Floats) -> float:
    return float(np.max(np.abs(np.sqrt(one) - np.sqrt(two)))) if len(one) == len(two) else inf


def _gh(curves: Curves) -> list[Claim]:
    iterations = curves.medians(Run.first, "iteration", GD=methods.GH_GD, MMMF=methods.MMMF)
    late = curves.medians(Run.late, "seconds", TR=methods.GH_TR, GD=methods.GH_GD, LMaFit=methods.LMAFIT)
    late_n = curves.medians(Run.late, "iteration", TR=methods.GH_TR, GD=methods.GH_GD, LMaFit=methods.LMAFIT)
    early = curves.medians(Run.first, "seconds", curves.early, TR=methods.GH_TR, GD=methods.GH_GD)
    products = curves.median(methods.GH_TR, Run.late_products)
    return [
        Claim(
            "MMMF and the gradient descent scheme perform similarly.",
            f"median iterations to 1e-20: {_counts(iterations)}",
            _similar(iterations, 1.25),
        ),
        Claim(
            "Asymptotically the trust region has the better rate in iterations.",
            f"median iterations from 1e-5 to 1e-20: {_counts(late_n)}",
            late_n["TR"] < min(late_n["GD"], late_n["LMaFit"]),
        ),
        Claim(
            "Asymptotically the trust region has the better rate in time.",
            f"median seconds from 1e-5 to 1e-20: {_seconds(late)}",
            late["TR"] < min(late["GD"], late["LMaFit"]),
            f"the trust region spends {products:g} Hessian products there, each of twice the work of a "
            "gradient, and descent about one gradient and two values per iteration",
        ),
        Claim(
            "The trust region starts slowly: gradient descent is ahead at first.",
            f"median seconds to 1e-3 of the first cost: {_seconds(early)}",
            early["GD"] < early["TR"],
        ),
        *_lmafit(curves),
    ]


def _lmafit(curves: Curves) -> list[Claim]:
    cost = curves.medians(Run.per_iteration, LMaFit=methods.LMAFIT, GD=methods.GH_GD)
    iterations = curves.medians(Run.first, "iteration", LMaFit=methods.LMAFIT, GD=methods.GH_GD)
    return [
        Claim(
            "LMaFit has a smaller cost per iteration.",
            f"median milliseconds per iteration: LMaFit {1e3 * cost['LMaFit']:.1f}, "
            f"GD {1e3 * cost['GD']:.1f}",
            cost["LMaFit"] < cost["GD"],
            "it writes the residual in both orders and multiplies by each, four passes over Ω and memory; "
            "descent makes two fused passes for a gradient and one for a trial value",
        ),
        Claim(
            f"LMaFit reached {GD_LIMIT} iterations: its convergence suffers for large matrices.",
            f"median iterations to 1e-20: {_counts(iterations)}",
            iterations["LMaFit"] >= GD_LIMIT,
            "the published adaptation of ω, from the same spectral start, gets there in fewer iterations",
        ),
    ]


def _polar_vs_svd(curves: Curves) -> list[Claim]:
    iterations = curves.medians(Run.first, "iteration", SPD=methods.UBV_GD, diagonal=methods.DIAGONAL)
    final = curves.medians(Run.final, SPD=methods.UBV_GD, diagonal=methods.DIAGONAL)
    runs = curves.of(methods.DIAGONAL)
    ends = sum(run.first("iteration", 1e-20) > GD_LIMIT for run in runs)
    return [
        Claim(
            "Convergence of gradient descent suffers from a diagonal B.",
            f"median iterations to 1e-20: {_counts(iterations)}; median cost at the end: "
            f"SPD {final['SPD']:.1e}, diagonal {final['diagonal']:.1e}",
            iterations["diagonal"] >= 1.2 * iterations["SPD"],
        ),
        Claim(
            f"The runs with a diagonal B reached {GD_LIMIT} iterations.",
            f"{ends} of {len(runs)} runs did",
            ends == len(runs),
        ),
    ]


def _ubv_svp(curves: Curves) -> list[Claim]:
    pairs = zip(curves.of(methods.UBV_GD), curves.of(methods.SVP_), strict=True)
    ratios = [b.iterations() / a.iterations() for a, b in pairs]
    products = curves.median(methods.UBV_TR, Run.late_products)
    pace = curves.medians(Run.per_iteration, SVP=methods.SVP_, GD=methods.UBV_GD)
    time = pace["SVP"] / pace["GD"]
    late = curves.medians(Run.late, "seconds", TR=methods.UBV_TR, GD=methods.UBV_GD, SVP=methods.SVP_)
    late_n = curves.medians(Run.late, "iteration", TR=methods.UBV_TR, GD=methods.UBV_GD, SVP=methods.SVP_)
    return [
        Claim(
            "Iterations of SVP and gradient descent are similar for some instances.",
            "iterations of SVP over those of GD, by instance: " + ", ".join(f"{r:.2f}" for r in ratios),
            min(ratios) <= 1.25,
            "the fixed step is near 2 over the curvature of the densest rows and columns, where errors "
            "change sign and hardly shrink; how near depends on the instance",
        ),
        Claim(
            "Their timings are very different, for SVP computes a dominant SVD per iteration.",
            f"median milliseconds per iteration: SVP {1e3 * pace['SVP']:.0f}, GD {1e3 * pace['GD']:.0f}: "
            f"{time:.1f} times",
            time >= 3,
            "block Lanczos is started at the last singular vectors and stopped at 1% of the step's length, "
            "so that an SVD costs a few products with the sparse matrix",
        ),
        Claim(
            "The trust region asymptotically shows a better performance.",
            f"from 1e-5 to 1e-20: TR {count(late_n['TR'])} iterations, {late['TR']:.2f} s; GD "
            f"{count(late_n['GD'])}, {late['GD']:.2f} s; SVP {count(late_n['SVP'])}, {late['SVP']:.2f} s",
            late_n["TR"] < late_n["GD"] and late["TR"] < late["GD"],
            f"in iterations it does; its {products:g} Hessian products there cost more than "
            "the gradients of the descent",
        ),
        Claim(
            "(Not in the paper, whose authors could not run OptSpace at this size.)",
            f"OptSpace: median iterations to 1e-20 {_total(curves, methods.OPTSPACE)}; "
            f"GD {_total(curves, methods.UBV_GD)}",
            None,
        ),
    ]


def _uy_metric(curves: Curves) -> list[Claim]:
    start = float(curves.runs[0].values[0])
    end = curves.medians(Run.final, ours=methods.UY_GD, flat=methods.EUCLIDEAN_UY)
    after = curves.medians(Run.iterations, ours=methods.UY_GD, flat=methods.EUCLIDEAN_UY)
    return [
        Claim(
            "With the Euclidean metric the algorithm flattens out, very slow to converge.",
            f"median cost at the end, from {start:.1e}: Euclidean {end['flat']:.1e} after {after['flat']:g} "
            f"iterations, invariant {end['ours']:.1e} after {after['ours']:g}",
            end["flat"] > 1e-3 * start and end["ours"] <= 1e-15,
        )
    ]


def _uy_rtrmc(curves: Curves) -> list[Claim]:
    regions = {"RTRMC-2": methods.RTRMC_2, "TR": methods.UY_TR}
    early, late = (
        curves.medians(Run.first, "seconds", curves.early, **regions),
        curves.medians(Run.late, "seconds", **regions),
    )
    iterations = curves.medians(Run.first, "iteration", **regions)
    descents = {"RTRMC-1": methods.RTRMC_1, "GD": methods.UY_GD}
    seconds, descents_n = (
        curves.medians(Run.first, "seconds", **descents),
        curves.medians(Run.first, "iteration", **descents),
    )
    return [
        Claim(
            "During the first iterations RTRMC-2 is better than our trust region.",
            f"median seconds to 1e-3 of the first cost: {_seconds(early)}",
            early["RTRMC-2"] < early["TR"],
        ),
        Claim(
            "Asymptotically both perform similarly.",
            f"median seconds from 1e-5 to 1e-20: {_seconds(late)}",
            0.5 <= late["RTRMC-2"] / late["TR"] <= 2,
            "a Hessian product through the elimination is two one-sided passes over Ω and small triangular "
            "solves, no dearer than ours, and the reduced problem needs fewer of them",
        ),
        Claim(
            "Both trust regions need similar numbers of iterations.",
            f"median iterations to 1e-20: {_counts(iterations)}",
            iterations["TR"] <= 2 * iterations["RTRMC-2"],
            "RTRMC-2 needs no steps to find Y, and takes its large first radius at once",
        ),
        Claim(
            "Our gradient descent has the better timing than RTRMC-1.",
            f"median seconds to 1e-20: {_seconds(seconds)}; median iterations "
            f"{count(descents_n['RTRMC-1'])} and {count(descents_n['GD'])}",
            seconds["GD"] < seconds["RTRMC-1"],
            "compiled, the normal equations of a column cost no more than the trial values of a line search",
        ),
    ]


def _geometries(curves: Curves) -> list[Claim]:
    iterations = curves.medians(Run.first, "iteration", **DESCENTS)
    late, early = (
        curves.medians(Run.late, "seconds", **REGIONS),
        curves.medians(Run.first, "seconds", curves.early, **REGIONS),
    )
    products, early_n = (
        curves.medians(Run.late_products, **REGIONS),
        curves.medians(Run.first, "iteration", curves.early, **REGIONS),
    )
    return [
        Claim(
            "The gradient descents of all geometries are indistinguishable.",
            f"median iterations to 1e-20: {_counts(iterations)}",
            _similar(iterations, 1.5),
        ),
        Claim(
            "The trust regions perform similarly asymptotically.",
            f"median seconds from 1e-5 to 1e-20: {_seconds(late)}; "
            f"median Hessian products: {_counts(products)}",
            _similar(late, 2),
            "they differ in the number of Hessian products, and in seconds per product; in the run of all "
            "figures, curves shared with others are also minutes apart",
        ),
        Claim(
            "LRGeom's trust region is better during the first iterations.",
            f"median seconds to 1e-3 of the first cost: {_seconds(early)}; "
            f"median iterations: {_counts(early_n)}",
            min(early, key=early.__getitem__) == "LRGeom",
            "with the paper's rule for the first radius it takes about as many iterations as the others",
        ),
        Claim(
            "(Not in the paper: LRGeom's conjugate gradients.)",
            f"median iterations to 1e-20: {_total(curves, methods.LRGEOM_CG)}",
            None,
        ),
    ]


_STEP_ISSUE = methods.GH_GD, methods.GH_GD_2, methods.MMMF, methods.MMMF_2
_GH = methods.GH_GD, methods.GH_TR, methods.MMMF, methods.LMAFIT
_POLAR = methods.UBV_GD, methods.DIAGONAL
_UBV = methods.UBV_GD, methods.UBV_TR, methods.SVP_, methods.OPTSPACE
_METRICS = methods.UY_GD, methods.EUCLIDEAN_UY
_UY = methods.UY_GD, methods.UY_TR, methods.RTRMC_1, methods.RTRMC_2
_ALL = *DESCENTS.values(), *REGIONS.values(), methods.LRGEOM_CG
FIGURES = (
    Figure("step-issue", "W = GHᵀ from balanced and unbalanced factors", "middle", _STEP_ISSUE, _step_issue),
    Figure("gh", "W = GHᵀ, MMMF and LMaFit", "large", _GH, _gh),
    Figure("polar-vs-svd", "W = UBVᵀ, B positive definite or diagonal", "middle", _POLAR, _polar_vs_svd),
    Figure("ubv-svp", "W = UBVᵀ, SVP and OptSpace", "large", _UBV, _ubv_svp),
    Figure("uy-metric", "W = UYᵀ, two metrics", "middle", _METRICS, _uy_metric),
    Figure("uy-rtrmc", "W = UYᵀ and RTRMC", "large", _UY, _uy_rtrmc),
    Figure("quotient-vs-embedded", "Quotient and embedded geometries", "large", _ALL, _geometries),
)
