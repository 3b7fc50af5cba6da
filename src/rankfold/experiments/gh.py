"""Figure gd_vs_tr_gh: W = GHᵀ, MMMF and LMaFit."""

from __future__ import annotations

from rankfold.experiments.competitors import GH_GD, GH_TR, LMAFIT, MMMF
from rankfold.experiments.curves import GD_LIMIT, Claim, Curves, Figure, count


def claims(curves: Curves) -> list[Claim]:
    """Compare the trust region's late phase with that of the first-order methods."""
    gd, tr, mmmf, lmafit = (c.label for c in (GH_GD, GH_TR, MMMF, LMAFIT))
    iterations = {label: curves.iterations(label) for label in (gd, mmmf)}
    late = {label: curves.late_seconds(label) for label in (gd, tr, lmafit)}
    late_n = {label: curves.late_iterations(label) for label in (gd, tr, lmafit)}
    early = curves.early_seconds
    return [
        Claim(
            "MMMF and the gradient descent scheme perform similarly.",
            f"median iterations to 1e-20: GD {count(iterations[gd])}, MMMF {count(iterations[mmmf])}",
            max(iterations[gd], iterations[mmmf]) <= 1.25 * min(iterations[gd], iterations[mmmf]),
        ),
        Claim(
            "Asymptotically the trust region has the better rate in iterations.",
            f"median iterations from 1e-5 to 1e-20: TR {count(late_n[tr])}, GD {count(late_n[gd])}, "
            f"LMaFit {count(late_n[lmafit])}",
            late_n[tr] < min(late_n[gd], late_n[lmafit]),
        ),
        Claim(
            "Asymptotically the trust region has the better rate in time.",
            f"median seconds from 1e-5 to 1e-20: TR {late[tr]:.2f}, GD {late[gd]:.2f}, "
            f"LMaFit {late[lmafit]:.2f}",
            late[tr] < min(late[gd], late[lmafit]),
            f"the trust region spends {curves.late_products(tr):g} Hessian products there, each of twice the "
            "work of a gradient, and descent about one gradient and two values per iteration",
        ),
        Claim(
            "The trust region starts slowly: gradient descent is ahead at first.",
            f"median seconds to 1e-3 of the first cost: TR {early(tr):.2f}, GD {early(gd):.2f}",
            early(gd) < early(tr),
        ),
        *_claims_of_lmafit(curves),
    ]


def _claims_of_lmafit(curves: Curves) -> list[Claim]:
    gd, lmafit, cost = GH_GD.label, LMAFIT.label, curves.per_iteration
    iterations = {label: curves.iterations(label) for label in (gd, lmafit)}
    return [
        Claim(
            "LMaFit has a smaller cost per iteration.",
            f"median milliseconds per iteration: LMaFit {1e3 * cost(lmafit):.1f}, GD {1e3 * cost(gd):.1f}",
            cost(lmafit) < cost(gd),
            "it writes the residual in both orders and multiplies by each, four passes over Ω and memory; "
            "descent makes two fused passes for a gradient and one for a trial value",
        ),
        Claim(
            f"LMaFit reached {GD_LIMIT} iterations: its convergence suffers for large matrices.",
            f"median iterations to 1e-20: LMaFit {count(iterations[lmafit])}, GD {count(iterations[gd])}",
            iterations[lmafit] >= GD_LIMIT,
            "the published adaptation of ω, from the same spectral start, gets there in fewer iterations",
        ),
    ]


FIGURE = Figure("gh", "W = GHᵀ, MMMF and LMaFit", "large", (GH_GD, GH_TR, MMMF, LMAFIT), claims)
