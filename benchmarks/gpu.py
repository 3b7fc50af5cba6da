"""Completion on a GPU: `python -m benchmarks.gpu [--large]`. Needs CUDA, torch and Triton."""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

import rankfold as rf

P1, P2 = ("P1", 4000, 5, 8), ("P2", 32_000, 5, 8)
LARGE = ("1e6 x 1e6", 1_000_000, 10, 8), ("2e5 x 2e5", 200_000, 64, 8)


def instance(size: int, rank: int, oversampling: int, dtype: Any) -> tuple[Any, ...]:
    """Entries of a random matrix of low rank, drawn on the GPU."""
    draw = torch.Generator(device="cuda").manual_seed(0)
    A, B = (torch.randn((size, rank), dtype=torch.float64, device="cuda", generator=draw) for _ in range(2))
    count = int(oversampling * (2 * size - rank) * rank)
    where = torch.unique(torch.randint(0, size * size, (count,), device="cuda", generator=draw))
    rows, cols = where // size, where % size
    parts = (slice(k, k + (1 << 25)) for k in range(0, len(where), 1 << 25))
    values = torch.cat([(A[rows[part]] * B[cols[part]]).sum(1) for part in parts])
    return rows, cols, values.to(dtype), (size, size)


def seconds(work: Any, repeats: int) -> float:
    """Median time of some work on the GPU."""
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times)[repeats // 2]


def measure(name: str, size: int, rank: int, oversampling: int, dtype: Any, goal: float) -> None:
    costs, entries = [], instance(size, rank, oversampling, dtype)
    build = seconds(lambda: costs.append(rf.Completion(*entries)), 3)
    cost = costs.pop()
    costs.clear()
    problem = rf.Problem(cost, rf.FullRank(cost.shape, rank, metric="preconditioned"))
    results = []
    start = seconds(lambda: problem.start(), 5)
    x0 = problem.start()
    solve = seconds(lambda: results.append(rf.minimize(problem, "cg", x0=x0, tolerance=goal)), 5)
    L, R = problem.geometry.factors(results[-1].x)
    evaluate = seconds(lambda: cost.evaluate(L, R), 20)
    polynomial = seconds(lambda: cost.polynomial((L, L), (R, R)), 20)
    derivative = seconds(lambda: cost.derivative(L, R, L, R), 20)
    print(
        f"{name:10s} {str(dtype)[6:]} entries {cost.store.size:.2e} "
        f"build {1e3 * build:7.1f} start {1e3 * start:7.1f} "
        f"solve {1e3 * solve:8.1f} ms  iterations {results[-1].trace[-1].iteration:3d} "
        f"f/f0 {results[-1].value / cost.value_at_zero:.1e}  evaluate {1e3 * evaluate:6.3f} "
        f"polynomial {1e3 * polynomial:6.3f} derivative {1e3 * derivative:6.3f} ms",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also 1.6e8 and 2e8 entries")
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for case in (P1, P2, *(LARGE if options.large else ())):
        measure(*case, torch.float64, 1e-20)
    if options.large:
        measure(*LARGE[0], torch.float32, 1e-12)


if __name__ == "__main__":
    main()
