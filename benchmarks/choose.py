"""Every solver on every geometry: iterations and seconds to a relative value of 1e-20.

    python -m benchmarks.choose [--output docs/figures]

On P1 and P3 (4000², rank 5, oversampling 8 and 3), from the same start point, one seed each,
limits of 1000 iterations and 30 s. Prints the table of "How to choose" and writes how-to-choose.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import rankfold as rf
from benchmarks.instances import P1, P3

GEOMETRIES = {
    "GH preconditioned": lambda s, r: rf.FullRank(s, r, metric="preconditioned"),
    "GH invariant": lambda s, r: rf.FullRank(s, r),
    "UBV": lambda s, r: rf.Polar(s, r),
    "UY": lambda s, r: rf.SubspaceProjection(s, r),
    "embedded": lambda s, r: rf.Embedded(s, r),
}
SOLVERS = {"CG": rf.ConjugateGradient(), "TR": rf.TrustRegion(), "GD": rf.GradientDescent()}
LINES = {"CG": "-", "TR": "--", "GD": ":"}
SEEDS = 1


def runs(instance):
    """Return the results of each solver on each geometry, by name, over the seeds."""
    found = {}
    for seed in range(SEEDS):
        data = instance.draw(seed)
        cost = rf.Completion.from_triples(data)
        start = cost.start(5)
        for g, make in GEOMETRIES.items():
            problem = rf.Problem(cost, make(data.shape, 5))
            for s, solver in SOLVERS.items():
                x0, limit = problem.geometry.from_svd(*start), rf.stopping.Seconds(30)
                result = rf.minimize(problem, solver, x0, tolerance=1e-20, max_iterations=1000, stop=limit)
                found.setdefault((g, s), []).append(result)
    return found


def summary(results):
    if not all(r.converged for r in results):
        return "not reached"
    iterations, seconds = (np.median([getattr(r, n) for r in results]) for n in ("iterations", "seconds"))
    inner = np.median([r.trace["inner_iterations"].sum() for r in results])
    return f"{iterations:.0f}{f'/{inner:.0f}' if inner else ''}, {seconds:.2f} s"


def draw(found, ax, title):
    for colour, g in enumerate(GEOMETRIES):
        for s in SOLVERS:
            trace = found[g, s][0].trace
            label = g if s == "CG" else None
            ax.semilogy(trace["seconds"], trace["value"], LINES[s], color=f"C{colour}", label=label, lw=1.4)
    ax.set(xlabel="seconds", ylabel="f", title=title)
    ax.grid(alpha=0.3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("docs/figures"))
    out = parser.parse_args().output
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    axes = figure.subplots(1, 2)
    runs(P1)  # compiles
    for ax, (name, instance) in zip(axes, {"P1": P1, "P3": P3}.items(), strict=True):
        found = runs(instance)
        table = Table(name, *SOLVERS)
        for g in GEOMETRIES:
            table.add_row(g, *(summary(found[g, s]) for s in SOLVERS))
        Console(width=100).print(table)
        draw(found, ax, f"{name}: 4000 × 4000, rank 5, oversampling {instance.oversampling}")
    axes[0].legend(fontsize=8, title="solid CG, dashed TR, dotted GD", title_fontsize=8)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "how-to-choose.png", dpi=120)


if __name__ == "__main__":
    main()
