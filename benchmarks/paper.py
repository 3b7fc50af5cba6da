"""The paper's two algorithms as it runs them, on P1 (4000², rank 5, oversampling 8), five seeds.

    python -m benchmarks.paper

From the paper's start point to f ≤ 1e-20: iterations of gradient descent and its backtracks per iteration,
outer and inner iterations of the trust region, and the exponents of its last gradient norms, whose steps
should double.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

import rankfold as rf
from benchmarks.instances import P1

SEEDS = range(5)
GEOMETRIES = {
    "GH": rf.FullRank,
    "UBV": rf.Polar,
    "UY": rf.SubspaceProjection,
    "embedded": rf.Embedded,
}
BELOW = rf.stopping.ValueBelow(1e-20)


def solve(cost, geometry, solver, limit):
    problem = rf.Problem(cost, geometry(P1.shape, P1.rank))
    result = rf.minimize(problem, solver, max_iterations=limit, tolerance=0.0, stop=BELOW)
    assert result.value <= 1e-20, result
    return result


def span(numbers):
    return f"{min(numbers):g} – {max(numbers):g}"


def main():
    data = [P1.draw(seed) for seed in SEEDS]
    costs = [rf.Completion.from_triples(d) for d in data]
    table = Table(
        "geometry", "GD iterations", "backtracks", "TR outer", "TR inner", "last log10 ‖grad‖, seed 0"
    )
    for name, geometry in GEOMETRIES.items():
        gd = [solve(cost, geometry, rf.GradientDescent(metric="geometry"), 200) for cost in costs]
        tr = [solve(cost, geometry, rf.TrustRegion(), 100) for cost in costs]
        table.add_row(
            name,
            span([r.iterations for r in gd]),
            span([round(float(np.mean(r.trace["backtracks"][1:])), 2) for r in gd]),
            span([r.iterations for r in tr]),
            span([int(np.sum(r.trace["inner_iterations"])) for r in tr]),
            ", ".join(f"{np.log10(norm):.1f}" for norm in tr[0].trace["gradient_norm"][-4:]),
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
