"""Figure ubv_svp: W = UBVᵀ and SVP, and OptSpace, which the paper could not run at this size."""

from __future__ import annotations

from rankfold.experiments.competitors import OPTSPACE, SVP_, UBV_GD, UBV_TR
from rankfold.experiments.curves import Claim, Curves, Figure, count


def claims(curves: Curves) -> list[Claim]:
    """Compare iterations and seconds of SVP and gradient descent, and the trust region's late phase."""
    gd, tr, svp, optspace = (c.label for c in (UBV_GD, UBV_TR, SVP_, OPTSPACE))
    pairs = zip(curves.of(gd), curves.of(svp), strict=True)
    ratios = [b.iterations / a.iterations for a, b in pairs]
    time = curves.per_iteration(svp) / curves.per_iteration(gd)
    late = {label: curves.late_seconds(label) for label in (gd, tr, svp)}
    late_n = {label: curves.late_iterations(label) for label in (gd, tr, svp)}
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
            f"median milliseconds per iteration: SVP {1e3 * curves.per_iteration(svp):.0f}, "
            f"GD {1e3 * curves.per_iteration(gd):.0f}: {time:.1f} times",
            time >= 3,
            "block Lanczos is started at the last singular vectors and stopped at 1% of the step's length, "
            "so that an SVD costs a few products with the sparse matrix",
        ),
        Claim(
            "The trust region asymptotically shows a better performance.",
            f"from 1e-5 to 1e-20: TR {count(late_n[tr])} iterations, {late[tr]:.2f} s; "
            f"GD {count(late_n[gd])}, {late[gd]:.2f} s; SVP {count(late_n[svp])}, {late[svp]:.2f} s",
            late_n[tr] < late_n[gd] and late[tr] < late[gd],
            f"in iterations it does; its {curves.late_products(tr):g} Hessian products there cost more than "
            "the gradients of the descent",
        ),
        Claim(
            "(Not in the paper, whose authors could not run OptSpace at this size.)",
            f"OptSpace: median iterations to 1e-20 {count(curves.iterations(optspace))}, "
            f"{curves.seconds(optspace):.1f} s; GD {count(curves.iterations(gd))}, "
            f"{curves.seconds(gd):.1f} s",
            None,
        ),
    ]


FIGURE = Figure("ubv-svp", "W = UBVᵀ, SVP and OptSpace", "large", (UBV_GD, UBV_TR, SVP_, OPTSPACE), claims)
