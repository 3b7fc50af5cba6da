"""Completion on a GPU: `python -m benchmarks.gpu [--large] [--huge] [--floors] [--cpu] [--peers] ...`.

Needs CUDA, torch and Triton. Small instances take as long as the host does, whose speed may change from one
minute to the next: that of inverting a 5×5 matrix in NumPy is printed beside them.
"""

from __future__ import annotations

import argparse
import time
from timeit import timeit
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

import rankfold as rf
from benchmarks import gpu_peers
from rankfold.entries.gpu import GpuObserved
from rankfold.entries.gpu_streamed import StreamedObserved, at_home

WARM_UP = 10  # runs of a small instance, before any is measured
_SMALL = np.array([[1 / (i + j + 1) + (i == j) for j in range(5)] for i in range(5)])
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


ROUGH = 1e-12  # what single precision reaches of the value at W = 0


class Case(NamedTuple):
    """A square random matrix of low rank, and how it is solved."""

    name: str
    size: int
    rank: int
    single: bool = False
    oversampling: int = 8
    #: in single precision first
    refined: bool = False

    @property
    def type(self) -> str:
        """What it is computed in."""
        return "float32" if self.single else "float32, then float64" if self.refined else "float64"

    @property
    def goal(self) -> float:
        """The value at the end, beside that at W = 0."""
        return ROUGH if self.single else 1e-20


SMALL = Case("P1", 4000, 5), Case("P2", 32_000, 5)
LARGE = (
    Case("10⁶ × 10⁶", 1_000_000, 10),
    Case("10⁶ × 10⁶", 1_000_000, 10, single=True),
    Case("10⁶ × 10⁶", 1_000_000, 10, refined=True),
    Case("200,000²", 200_000, 64),
)
HUGE = (Case("10⁹ entries", 3_906_258, 16, single=True),)
# Milliseconds of one pass over the rows, by a prototype tuned for that instance alone, on one H200.
FLOORS = {
    Case("P2", 32_000, 5): 0.078,
    Case("10⁶ × 10⁶", 1_000_000, 10): 5.3,
    Case("10⁶ × 10⁶", 1_000_000, 10, single=True): 2.5,
    Case("10⁶ × 10⁶", 1_000_000, 32): 31,
    Case("10⁶ × 10⁶", 1_000_000, 32, single=True): 13,
    Case("200,000²", 200_000, 64): 16,
    Case("200,000²", 200_000, 64, single=True): 6.4,
}


def instance(size: int, rank: int, oversampling: int, dtype: Any) -> tuple[Any, ...]:
    """Entries of a random matrix of low rank, drawn on the GPU."""
    draw = torch.Generator(device="cuda").manual_seed(0)
    A, B = (torch.randn((size, rank), dtype=torch.float64, device="cuda", generator=draw) for _ in range(2))
    count = int(oversampling * (2 * size - rank) * rank)
    where = torch.unique(torch.randint(0, size * size, (count,), device="cuda", generator=draw))
    rows, cols = where // size, where % size
    del where
    values = torch.empty(len(rows), dtype=dtype, device="cuda")
    for first in range(0, len(rows), 1 << 25):
        part = slice(first, first + (1 << 25))
        values[part] = (A[rows[part]] * B[cols[part]]).sum(1)
    return rows, cols, values, (size, size)


def seconds(work: Any, repeats: int) -> float:
    """Median time of some work on the GPU."""
    return sorted(times_of(work, repeats))[repeats // 2]


def times_of(work: Any, repeats: int) -> list[float]:
    """Times of some work on the GPU."""
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return times


def counted(work: Any) -> tuple[int, int]:
    """Kernels that are launched, and times that the host waits."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        work()
        torch.cuda.synchronize()
    names = [event.name for event in seen.events()]
    launches = sum("Launch" in name and name.startswith(("cuda", "cu")) for name in names)
    return launches, sum(name in WAITS for name in names)


def built(case: Case) -> tuple[float, rf.Completion]:
    dtype = torch.float32 if case.single else torch.float64
    costs, entries = [], instance(case.size, case.rank, case.oversampling, dtype)
    took = seconds(lambda: (costs.clear(), costs.append(rf.Completion(*entries))), 1 if case in HUGE else 3)
    return took, costs.pop()


def measure(case: Case, repeats: int) -> None:
    build, cost = built(case)
    torch.cuda.empty_cache()
    problem = rf.Problem(cost, rf.FullRank(cost.shape, case.rank, metric="preconditioned"))
    rough = rf.Problem(cost.astype("float32"), problem.geometry) if case.refined else None
    results: list[Any] = []

    def solve() -> None:
        results.clear()
        if rough is not None:
            results.append(rf.minimize(rough, "cg", tolerance=ROUGH))
        x0 = type(results[0].x)(*(part.double() for part in results[0].x)) if results else None
        results.append(rf.minimize(problem, "cg", x0, tolerance=case.goal))

    cost.value_at_zero, solve()  # compiles what is needed
    for _ in range(WARM_UP if case in SMALL else 0):
        solve()
    start, totals = seconds(problem.start, 3), sorted(times_of(solve, repeats))
    inverse = timeit(lambda: np.linalg.inv(_SMALL), number=1000)
    iterations = sum(result.iterations for result in results)
    launches, waits = (count / iterations for count in counted(solve))
    L, R = problem.geometry.factors(results[-1].x)
    evaluate = seconds(lambda: cost.evaluate(L, R), 20)
    polynomial = seconds(lambda: cost.polynomial((L, L), (R, R)), 20)
    derivative = seconds(lambda: cost.derivative(L, R, L, R), 20)
    print(
        f"| {case.name}, rank {case.rank}, {case.type} | {cost.store.size:.2e} "
        f"| {1e3 * build:.1f} | {1e3 * start:.1f} | {1e3 * totals[repeats // 2]:.1f} | {1e3 * totals[0]:.1f} "
        f"| {iterations} "
        f"| {results[-1].value / cost.value_at_zero:.0e} | {launches:.0f} | {waits:.1f} "
        f"| {1e3 * evaluate:.3f} | {1e3 * polynomial:.3f} | {1e3 * derivative:.3f} "
        f"| {torch.cuda.max_memory_allocated() / 2**30:.1f} | {1e3 * inverse:.1f} |",
        flush=True,
    )
    torch.cuda.reset_peak_memory_stats()


def beside_floor(case: Case) -> None:
    """One evaluation, of many in a row that nobody waits for, beside two passes over the rows."""
    _, cost = built(case)
    torch.cuda.empty_cache()
    kind = torch.float32 if case.single else torch.float64
    L, R = (torch.randn((case.size, case.rank), dtype=kind, device="cuda") for _ in range(2))
    cost.evaluate(L, R)
    took = seconds(lambda: [cost.evaluate_ahead(L, R) for _ in range(10)], 3) / 10
    print(
        f"{case.name}, rank {case.rank}, {case.type}: evaluate "
        f"{1e3 * took:.3f} ms, {1e3 * took / (2 * FLOORS[case]):.2f} of two passes tuned alone",
        flush=True,
    )


def on_cores(case: Case) -> None:
    """The same on this machine's cores, after kernels of that rank were compiled for a small matrix."""

    def problem(size: int) -> rf.Problem:
        entries = instance(size, case.rank, case.oversampling, torch.float64)
        cost = rf.Completion(*(part.cpu().numpy() for part in entries[:3]), entries[3])
        return rf.Problem(cost, rf.FullRank(cost.shape, case.rank, metric="preconditioned"))

    rf.minimize(problem(4000), "cg", tolerance=case.goal)
    whole, results = problem(case.size), []
    took = seconds(
        lambda: results.append(rf.minimize(whole, "cg", tolerance=case.goal)), 3 if case in SMALL else 1
    )
    print(f"{case.name} on the CPU: {1e3 * took:.0f} ms, {results[0].iterations} iterations", flush=True)


def beside_implicit(case: Case) -> None:
    """An iteration, beside a sweep of implicit's alternating least squares over the same positions."""
    rows, cols, values, shape = instance(case.size, case.rank, case.oversampling, torch.float64)
    there = rows.cpu().numpy(), cols.cpu().numpy(), 1 + values.abs().float().cpu().numpy()
    cost = rf.Completion(rows, cols, values, shape)
    del rows, cols, values
    problem = rf.Problem(cost, rf.FullRank(cost.shape, case.rank, metric="preconditioned"))
    x0 = problem.start()
    iterations = rf.minimize(problem, "cg", x0, tolerance=case.goal).iterations
    ours = seconds(lambda: rf.minimize(problem, "cg", x0, tolerance=case.goal), 3) / iterations
    theirs, factors = gpu_peers.sweep(*there, shape, case.rank)
    print(
        f"{case.name}, {cost.store.size:.2e} entries: an iteration at rank {case.rank} in float64 "
        f"{1e3 * ours:.2f} ms; a sweep of both sides by implicit's ALS for clicks, {factors} factors in "
        f"float32, {1e3 * theirs:.2f} ms",
        flush=True,
    )


def streamed(slabs: int, rank: int = 16) -> None:
    """3·10⁹ entries in the host's memory: what a run takes, beside the rate of the link."""
    size, per_slab = slabs * 976_562, 250_000_000
    draw = torch.Generator(device="cuda").manual_seed(0)
    A, B = (torch.randn((size, rank), device="cuda", generator=draw) for _ in range(2))
    found, rows = [], size // slabs
    began = time.perf_counter()
    for k in range(slabs):
        where = torch.unique(torch.randint(0, rows * size, (per_slab,), device="cuda", generator=draw))
        i, j = where // size, where % size
        values = torch.empty(len(i), device="cuda")
        for first in range(0, len(i), 1 << 25):
            part = slice(first, first + (1 << 25))
            values[part] = (A[i[part] + k * rows] * B[j[part]]).sum(1)
        del where
        found.append(at_home(GpuObserved.from_triples(i, j, values, (rows, size), duplicates="keep")))
        del i, j, values
        torch.cuda.empty_cache()
    store = StreamedObserved((size, size), tuple(found), torch.device("cuda"))
    cost = rf.Completion.from_observed(store)
    build = time.perf_counter() - began
    host, there = (
        torch.empty(1 << 30, dtype=torch.uint8).pin_memory(),
        torch.empty(1 << 30, dtype=torch.uint8, device="cuda"),
    )
    link = 2**30 / seconds(lambda: there.copy_(host, non_blocking=True), 5) / 1e9
    problem = rf.Problem(cost, rf.FullRank(cost.shape, rank, metric="preconditioned"))
    results: list[Any] = []
    x0: list[Any] = []
    start = seconds(lambda: x0.append(problem.start()), 1)
    method = rf.ConjugateGradient(metric="geometry")
    solve = seconds(
        lambda: results.append(rf.minimize(problem, method, x0[0], max_iterations=6, tolerance=1e-12)), 1
    )
    L, R = problem.geometry.factors(results[0].x)
    evaluate = seconds(lambda: cost.evaluate(L, R), 2)
    rate, left = 16 * store.size / evaluate / 1e9, results[0].value / cost.value_at_zero
    print(
        f"{store.size:.2e} entries streamed: drawn and sorted {build:.1f} s, start {start:.1f} s, "
        f"{results[0].iterations} iterations {solve:.1f} s, f/f0 {left:.0e}, "
        f"evaluate {evaluate:.2f} s = {rate:.0f} GB/s of {link:.0f} GB/s that the link has",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also 1.6e8 and 2e8 entries")
    parser.add_argument("--huge", action="store_true", help="also 1e9 entries")
    parser.add_argument("--floors", action="store_true", help="evaluations beside tuned passes")
    parser.add_argument(
        "--cpu",
        action="store_true",
        help="the same machine's cores, beside (with --large, 1.6e8 entries too)",
    )
    parser.add_argument("--peers", action="store_true", help="sweeps of implicit's ALS, P2 and 1.6e8 entries")
    parser.add_argument(
        "--streamed", type=int, default=0, metavar="N", help="N times 2.5e8 entries, from the host"
    )
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="runs of which it is the median")
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    print("| instance | entries | build | start | start and solve, ms | best | iterations | f/f0 ", end="")
    print("| launches | waits | evaluate | polynomial | derivative | GiB | 5×5 inverse, µs |")
    for case in (*SMALL, *(LARGE if options.large else ()), *(HUGE if options.huge else ())):
        measure(case, options.repeats)
        torch.cuda.empty_cache()
    for case in FLOORS if options.floors else ():
        beside_floor(case)
        torch.cuda.empty_cache()
    for case in (*SMALL, *(LARGE[:1] if options.large else ())) if options.cpu else ():
        on_cores(case)
    for case in (SMALL[1], LARGE[0]) if options.peers else ():
        beside_implicit(case)
        torch.cuda.empty_cache()
    if options.streamed:
        streamed(options.streamed)


if __name__ == "__main__":
    main()
