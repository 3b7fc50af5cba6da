"""Iterations of the baselines to f ≤ 1e-20, beside those of the published codes.

    python -m benchmarks.baselines [--seeds 12] [--only NAME ...]

Instances: 4000 × 4000, rank 5, oversampling 8, Gaussian factors; start: the rank-5 SVD of the zero-filled
data as they are, without the factor d1 d2 / |Ω| of `Completion.start`.
Published counts are the authors' MATLAB codes' on one instance of this kind from the same kind of start,
outer iterations and, for trust regions, Hessian products. "–": no published count.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np

import rankfold as rf
from rankfold.baselines import RTRMC, SVP, LMaFit, OptSpace, lrgeom, mmmf

SHAPE, RANK = (4000, 4000), 5


class Case(NamedTuple):
    """A geometry and a method, with the published iterations and Hessian products."""

    geometry: Any
    method: Any
    published: int | None = None
    products: int | None = None


def cases() -> dict[str, Case]:
    embedded = rf.Embedded(SHAPE, RANK)
    return {
        "LMaFit": Case(rf.FullRank(SHAPE, RANK), LMaFit(), 127),
        "RTRMC-1": Case(rf.SubspaceProjection(SHAPE, RANK), RTRMC(1), 66),
        "RTRMC-2": Case(rf.SubspaceProjection(SHAPE, RANK), RTRMC(2), 6, 49),
        "LRGeomCG": Case(*lrgeom(SHAPE, RANK, "cg"), 37),
        "LRGeom trust region": Case(*lrgeom(SHAPE, RANK, "tr"), 8, 114),
        "LRGeom trust region, the paper's radius": Case(embedded, rf.TrustRegion(), 8, 114),
        "LRGeom gradient descent": Case(*lrgeom(SHAPE, RANK, "gd")),
        "GHᵀ gradient descent": Case(rf.FullRank(SHAPE, RANK), rf.GradientDescent(), 87),
        "MMMF": Case(*mmmf(SHAPE, RANK)),
        "OptSpace": Case(rf.Polar(SHAPE, RANK), OptSpace()),
        "SVP": Case(embedded, SVP()),
    }


def count(case: Case, cost: rf.Completion, start: Any) -> tuple[float, float]:
    """Iterations, infinite if 1e-20 was not reached, and Hessian products."""
    result = rf.minimize(
        rf.Problem(cost, case.geometry),
        case.method,
        x0=case.geometry.from_svd(*start),
        max_iterations=300,
        tolerance=0.0,
        stop=rf.stopping.ValueBelow(1e-20),
    )
    return result.iterations if result.converged else np.inf, float(result.trace["inner_iterations"].sum())


def row(name: str, case: Case, counts: list[tuple[float, float]]) -> str:
    iterations, products = np.array(counts).T
    middle, published = float(np.median(iterations)), case.published
    cells = [name, str(published or "–"), f"{middle:g}", f"{min(iterations):g} to {max(iterations):g}"]
    cells.append(f"{middle / published:.2f}" if published else "–")
    if case.products:
        inner = float(np.median(products))
        cells.append(f"{inner:g}, published {case.products}, {inner / case.products:.2f}")
    else:
        cells.append("–")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--only", nargs="*", choices=cases(), default=list(cases()))
    options = parser.parse_args()
    counts: dict[str, list[tuple[float, float]]] = {name: [] for name in options.only}
    for seed in range(options.seeds):
        data = rf.data.random_completion(SHAPE, RANK, oversampling=8, seed=seed)
        cost = rf.Completion.from_triples(data)
        U, s, V = cost.start(RANK)
        start = U, s * cost.observed.size / (SHAPE[0] * SHAPE[1]), V
        for name in options.only:
            counts[name].append(count(cases()[name], cost, start))
    print("| method | published | median | range | ratio | Hessian products, median |\n" + "|---" * 6 + "|")
    for name in options.only:
        print(row(name, cases()[name], counts[name]))


if __name__ == "__main__":
    main()
