"""Iterations of the baselines to f ≤ 1e-20; `benchmarks.originals` sets them beside their authors' codes.

    python -m benchmarks.baselines [--seeds 12] [--only NAME ...]

Instances: 4000 × 4000, rank 5, oversampling 8, Gaussian factors; start: the rank-5 SVD of the zero-filled
data as they are, without the factor d1 d2 / |Ω| of `Completion.start`.
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
    """A geometry, and a method on it."""

    geometry: Any
    method: Any


def cases(shape: tuple[int, int], rank: int) -> dict[str, Case]:
    """The baselines at this size, and two methods of the paper."""
    embedded = rf.Embedded(shape, rank)
    descent, region = rf.GradientDescent(metric="geometry"), rf.TrustRegion(metric="geometry")
    return {
        "LMaFit": Case(rf.FullRank(shape, rank), LMaFit()),
        "RTRMC-1": Case(rf.SubspaceProjection(shape, rank), RTRMC(1)),
        "RTRMC-2": Case(rf.SubspaceProjection(shape, rank), RTRMC(2)),
        "LRGeomCG": Case(*lrgeom(shape, rank, "cg")),
        "LRGeom trust region": Case(*lrgeom(shape, rank, "tr")),
        "LRGeom trust region, the paper's radius": Case(embedded, region),
        "LRGeom gradient descent": Case(*lrgeom(shape, rank, "gd")),
        "GHᵀ gradient descent": Case(rf.FullRank(shape, rank), descent),
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


def span(numbers: Any) -> str:
    return f"{np.median(numbers):g} ({min(numbers):g} to {max(numbers):g})"


def row(name: str, counts: list[tuple[float, float, float]]) -> str:
    iterations, products, _ = np.array(counts).T
    by_seed = ", ".join(f"{n:g}" for n in iterations)
    return f"| {name} | {span(iterations)} | {span(products) if max(products) else '–'} | {by_seed} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12)
    names = list(cases(SHAPE, RANK))
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    options = parser.parse_args()
    counts: dict[str, list[tuple[float, float, float]]] = {name: [] for name in options.only}
    for seed in range(options.seeds):
        cost = rf.Completion.from_triples(rf.data.random_completion(SHAPE, RANK, oversampling=8, seed=seed))
        start = plain_start(cost, RANK)
        for name in options.only:
            counts[name].append(count(cases(SHAPE, RANK)[name], cost, start))
    print("| method | iterations | Hessian products | iterations by seed |\n|---|---|---|---|")
    for name in options.only:
        print(row(name, counts[name]))


if __name__ == "__main__":
    main()
