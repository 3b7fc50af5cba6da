"""Time to solution of the default method, beside the software a Python user would pick, in one run.

    python -m benchmarks.solvers [--only P1 P2] [--peers] [--repeats 5]

For each instance of docs/benchmarks.md: seconds from the triples sorted to f ≤ 1e-20 · f(0), start point
included, as a multiple of one NumPy/SciPy gradient evaluation (gather, einsum, two CSR products) timed in the
same run. With `--peers` (the `bench` extra): cmfrec's ALS-Cholesky (float64, λ = 1e-12, no bias, fewest
iterations that reach 1e-20) and Pymanopt's conjugate gradients on the same factors with NumPy kernels.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse

import rankfold as rf
from benchmarks.instances import P1, P2, P3, P5, Instance

# each with the noise on its entries
INSTANCES = {
    "P1": (P1, 0.0),
    "P2": (P2, 0.0),
    "P3": (P3, 0.0),
    "P5": (P5, 0.0),
    "1000 × 30000": (Instance((1000, 30000), 5, 6), 0.0),
    "P1, noise 1e-3": (P1, 1e-3),
    "300 × 200": (Instance((300, 200), 5, 6), 0.0),
}
TOLERANCE = 1e-20


def scipy_gradient(data, L, R):
    """Return value, f_L and f_R by gather, einsum and two sparse products; what NumPy users write."""
    order = np.lexsort((data.cols, data.rows))
    rows, cols, values = data.rows[order], data.cols[order], data.values[order]
    S = sparse.csr_array((values, (rows, cols)), shape=data.shape)
    n = len(values)

    def evaluate():
        residual = np.einsum("nk,nk->n", L[rows], R[cols]) - values
        S.data = (2 / n) * residual
        return residual @ residual / n, S @ R, S.T @ L

    return evaluate


def interleaved(tasks, repeats):
    """Median seconds of each task, all of them timed in turn, so that a busy machine hits them alike."""
    times = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            began = perf_counter()
            task()
            times[name].append(perf_counter() - began)
    return {name: float(np.median(t)) for name, t in times.items()}


def ours(data, rank):
    cost = rf.Completion.from_triples(data)
    problem = rf.Problem.of(cost, rank)
    return lambda: rf.minimize(problem, tolerance=TOLERANCE), problem


def pymanopt_cg(data, rank, start):
    """Seconds of Pymanopt's conjugate gradients on (G, H) with NumPy kernels; None if it fails."""
    import pymanopt
    from pymanopt.manifolds import Euclidean, Product
    from pymanopt.optimizers import ConjugateGradient

    manifold = Product([Euclidean(d, rank) for d in data.shape])
    order = np.lexsort((data.cols, data.rows))
    rows, cols, values = data.rows[order], data.cols[order], data.values[order]
    S, n = sparse.csr_array((values, (rows, cols)), shape=data.shape), len(values)

    def residual(G, H):
        return np.einsum("nk,nk->n", G[rows], H[cols]) - values

    @pymanopt.function.numpy(manifold)
    def cost(G, H):
        e = residual(G, H)
        value = e @ e / n
        if value <= target:
            raise Solved
        return value

    @pymanopt.function.numpy(manifold)
    def gradient(G, H):
        S.data = (2 / n) * residual(G, H)
        return S @ H, S.T @ G

    target = TOLERANCE * float(np.mean(values**2))
    problem = pymanopt.Problem(manifold, cost, euclidean_gradient=gradient)
    limits = {"max_iterations": 2000, "max_time": 60, "min_gradient_norm": 0, "min_step_size": 0}
    solver = ConjugateGradient(**limits, verbosity=0)
    began = perf_counter()
    try:
        solver.run(problem, initial_point=start)
    except Solved:
        return perf_counter() - began
    return None


class Solved(Exception):  # noqa: N818
    """Raised by the cost when it is low enough: Pymanopt has no such stopping rule."""


def cmfrec_als(data, rank):
    """Alternating least squares of cmfrec, with the fewest iterations that reach the tolerance."""
    from cmfrec import CMF

    triples = sparse.coo_array((data.values, (data.rows, data.cols)), shape=data.shape)
    target = TOLERANCE * float(np.mean(data.values**2))

    def trained(iterations):
        options = {"user_bias": False, "item_bias": False, "center": False, "use_cg": False}
        model = CMF(k=rank, lambda_=1e-12, niter=iterations, use_float=False, random_state=1, **options)
        return model.fit(triples)

    for iterations in range(5, 61, 3):
        model = trained(iterations)
        error = np.einsum("nk,nk->n", model.A_[data.rows], model.B_[data.cols]) - data.values
        if np.mean(error**2) <= target:
            return partial(trained, iterations), iterations
    return None, None


def measure(name, peers, repeats):
    instance, noise = INSTANCES[name]
    data = instance.draw(seed=0, noise=noise)
    rank = instance.rank
    fit, problem = ours(data, rank)
    result = fit()  # compiles
    L, R = problem.geometry.factors(problem.start())
    evaluate = scipy_gradient(data, L, R)
    row = {
        "instance": name,
        "iterations": result.iterations,
        "value": result.value / problem.cost.value_at_zero,
    }
    row["stop_reason"] = result.stop_reason
    tasks = {"seconds": fit, "scipy_gradient": evaluate}
    if peers:
        row["pymanopt"] = pymanopt_cg(data, rank, [np.array(A) for A in (L, R)])
        als, row["cmfrec_iterations"] = cmfrec_als(data, rank)
        tasks |= {"cmfrec": als} if als else {}
    return row | interleaved(tasks, repeats)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=INSTANCES, default=list(INSTANCES))
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    table = Table(
        "instance",
        "iterations",
        "rel. value",
        "seconds",
        "in SciPy gradients",
        "pymanopt / ours",
        "cmfrec / ours",
    )
    rows = []
    for name in options.only:
        row = measure(name, options.peers, options.repeats)
        rows.append(row)
        ratios = [f"{row[p] / row['seconds']:.1f}" if row.get(p) else "–" for p in ("pymanopt", "cmfrec")]
        table.add_row(
            name,
            str(row["iterations"]),
            f"{row['value']:.0e}",
            f"{row['seconds']:.3f}",
            f"{row['seconds'] / row['scipy_gradient']:.1f}",
            *ratios,
        )
    Console(width=130).print(table)
    out = Path(__file__).parent / "results" / "solvers.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
