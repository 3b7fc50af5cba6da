"""Figure ubv_svp: W = UBVᵀ and SVP, and OptSpace, which the paper could not run at this size."""

from __future__ import annotations

from rankfold.experiments.competitors import OPTSPACE, SVP_, UBV_GD, UBV_TR
from rankfold.experiments.curves import TARGET, Claim, Curves, Figure


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
            f"from 1e-5 to 1e-20: TR {late_n[tr]:g} iterations, {late[tr]:.2f} s; GD {late_n[gd]:g}, "
            f"{late[gd]:.2f} s; SVP {late_n[svp]:g}, {late[svp]:.2f} s",
            late_n[tr] < late_n[gd] and late[tr] < late[gd],
        ),
        Claim(
            "(Not in the paper, whose authors could not run OptSpace at this size.)",
            f"OptSpace: median iterations to 1e-20 {curves.iterations(optspace, TARGET):g}, "
            f"{curves.seconds(optspace):.1f} s; GD {curves.iterations(gd):g}, {curves.seconds(gd):.1f} s",
            None,
        ),
    ]


FIGURE = Figure("ubv-svp", "W = UBVᵀ, SVP and OptSpace", "large", (UBV_GD, UBV_TR, SVP_, OPTSPACE), claims)
