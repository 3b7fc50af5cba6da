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
LIMIT = 300


class Case(NamedTuple):
    """A geometry and a method, with the published iterations and Hessian products."""

    geometry: Any
    method: Any
    published: int | None = None
    products: int | None = None


def cases(shape: tuple[int, int] = SHAPE, rank: int = RANK) -> dict[str, Case]:
    """The baselines at this size; published counts are for the size of the module."""
    embedded = rf.Embedded(shape, rank)
    descent, region = rf.GradientDescent(metric="geometry"), rf.TrustRegion(metric="geometry")
    return {
        "LMaFit": Case(rf.FullRank(shape, rank), LMaFit(), 127),
        "RTRMC-1": Case(rf.SubspaceProjection(shape, rank), RTRMC(1), 66),
        "RTRMC-2": Case(rf.SubspaceProjection(shape, rank), RTRMC(2), 6, 49),
        "LRGeomCG": Case(*lrgeom(shape, rank, "cg"), 37),
        "LRGeom trust region": Case(*lrgeom(shape, rank, "tr"), 8, 114),
        "LRGeom trust region, the paper's radius": Case(embedded, region, 8, 114),
        "LRGeom gradient descent": Case(*lrgeom(shape, rank, "gd")),
        "GHᵀ gradient descent": Case(rf.FullRank(shape, rank), descent, 87),
        "MMMF": Case(*mmmf(shape, rank)),
        "OptSpace": Case(rf.Polar(shape, rank), OptSpace()),
        "SVP": Case(embedded, SVP()),
    }


def plain_start(cost: rf.Completion, rank: int) -> Any:
    """Return the dominant SVD of the zero-filled data as they are: `Completion.start` scales it up."""
    U, s, V = cost.start(rank)
    return U, s * (cost.observed.size / (cost.shape[0] * cost.shape[1])), V


def count(case: Case, cost: rf.Completion, start: Any, limit: int = LIMIT) -> tuple[float, float, float]:
    """Iterations, infinite if 1e-20 was not reached, Hessian products, and the last value."""
    result = rf.minimize(
        rf.Problem(cost, case.geometry),
        case.method,
        x0=case.geometry.from_svd(*start),
        max_iterations=limit,
        tolerance=0.0,
        stop=rf.stopping.ValueBelow(1e-20),
    )
    products = float(result.trace["inner_iterations"].sum())
    return result.iterations if result.converged else np.inf, products, result.value


def row(name: str, case: Case, counts: list[tuple[float, float, float]]) -> str:
    iterations, products, _ = np.array(counts).T
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
    counts: dict[str, list[tuple[float, float, float]]] = {name: [] for name in options.only}
    for seed in range(options.seeds):
        data = rf.data.random_completion(SHAPE, RANK, oversampling=8, seed=seed)
        cost = rf.Completion.from_triples(data)
        start = plain_start(cost, RANK)
        for name in options.only:
            counts[name].append(count(cases()[name], cost, start))
    print("| method | published | median | range | ratio | Hessian products, median |\n" + "|---" * 6 + "|")
    for name in options.only:
        print(row(name, cases()[name], counts[name]))


if __name__ == "__main__":
    main()
