"""Every solver on every geometry: iterations and seconds to a relative value of 1e-20.

    python -m benchmarks.choose [--output docs/figures]

On P1 and P3 (4000², rank 5, oversampling 8 and 3), from the same start point, one seed each,
limits of 1000 iterations and 30 s. Prints the table of "How to choose" and writes how-to-choose.png, in which
work is counted in passes over the entries: the same on every machine.
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
NAMES = {"CG": "conjugate gradients", "TR": "trust region", "GD": "gradient descent"}
LINES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1)))  # a geometry each, also where colours are not seen
FLOOR = 1e-22  # of the first cost: a quadratic last step would stretch the axis
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


def passes(trace):
    """Return how often the entries were gone through until each iteration; a Hessian product takes two."""
    once = sum(trace[name] for name in ("values", "gradients", "polynomials", "blocks"))
    return np.cumsum(once + 2 * trace["hessians"])


def draw(found, axes, what):
    for ax, (s, name) in zip(axes, NAMES.items(), strict=True):
        for g, line in zip(GEOMETRIES, LINES, strict=True):
            trace = found[g, s][0].trace
            value = np.maximum(trace["value"], FLOOR * trace["value"][0])
            ax.loglog(passes(trace), value, linestyle=line, label=g, linewidth=1.6)
        ax.set_title(f"{name}\n{what}", fontsize=10)
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("cost f: mean square on Ω")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("docs/figures"))
    out = parser.parse_args().output
    figure = Figure(figsize=(11, 6.6), layout="constrained")
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    runs(P1)  # compiles
    for line, (name, instance) in zip(axes, {"P1": P1, "P3": P3}.items(), strict=True):
        found = runs(instance)
        table = Table(name, *SOLVERS)
        for g in GEOMETRIES:
            table.add_row(g, *(summary(found[g, s]) for s in SOLVERS))
        Console(width=100).print(table)
        draw(found, line, f"{name}: 4000 × 4000, rank 5, oversampling {instance.oversampling}")
    for ax in axes[-1]:
        ax.set_xlabel("passes over the entries")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "how-to-choose.png", dpi=110)


if __name__ == "__main__":
    main()
