"""The kernels against a C loop with OpenMP and against plain NumPy and SciPy, side by side.

    python -m benchmarks.kernels [--quick]

All routes take turns within one run, so that a busy machine disturbs them alike; medians are compared. Prints
a table of ratios and writes benchmarks/results/kernels.json. Without a C compiler the floor stays empty. Next
to what two threads gain over one stands what two independent callers on one thread each gain: the most that
the machine's two cores, which share memory and caches with each other and with others, have to give.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse
from scipy.sparse.linalg import svds
from threadpoolctl import threadpool_limits

from benchmarks.instances import P1, P2, P3, P5, Instance
from rankfold.costs import Completion
from rankfold.kernels.pool import threads

HERE = Path(__file__).parent
# without P4: it has the positions of P1, and values do not change the time
INSTANCES = {
    "P1": P1,
    "P2": P2,
    "P3": P3,
    "P5": P5,
    "r=10": Instance((32000, 32000), 10, 4),
    "r=20": Instance((32000, 32000), 20, 4),
    "r=50": Instance((32000, 32000), 50, 4),
}
MAX_SVDS_RANK = 20  # beyond, svds takes minutes
QUICK = ("P1", "P2", "P5", "r=10")
FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC")


def c_floor(cost: Completion, L: Any, R: Any, folder: Path) -> Callable[[], float] | None:
    """Compile the C loop for this rank and bind it to the data of the cost."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    library = folder / f"floor{L.shape[1]}.so"
    source = HERE / "kernels.c"
    subprocess.run([compiler, *FLAGS, f"-DRANK={L.shape[1]}", str(source), "-o", str(library)], check=True)
    evaluate = ctypes.CDLL(str(library)).evaluate
    evaluate.restype = ctypes.c_double
    f_L, f_R = np.empty_like(L), np.empty_like(R)
    arguments: list[Any] = []
    for size, side in zip(
        cost.shape, (cost.observed.plain.by_row, cost.observed.plain.by_column), strict=True
    ):
        arguments += [ctypes.c_int64(size), *map(_pointer, (side.indptr, side.indices, side.data))]
    scale = ctypes.c_double(2 / cost.observed.size)

    def call() -> float:
        results = _pointer(f_L), _pointer(f_R)
        value = evaluate(*arguments, _pointer(L), _pointer(R), scale, *results)
        return float(value) / cost.observed.size

    return call


def _pointer(array: Any) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)  # which keeps the array: columns in 32 bits are a copy


def c_on_one_thread(floor: Callable[[], float]) -> Callable[[], None]:
    """The C loop on one thread; it holds the OpenMP library that its own calls use."""
    openmp = ctypes.CDLL("libgomp.so.1")

    def call() -> None:
        openmp.omp_set_num_threads(1)
        floor()
        openmp.omp_set_num_threads(threads())

    return call


def scipy_route(cost: Completion, L: Any, R: Any) -> Callable[[], float]:
    """Gather, einsum and two CSR products: what one writes without compiled kernels."""
    side = cost.observed.plain.by_row
    rows, cols = side.keys.astype(np.int64), side.indices.astype(np.int64)
    values = side.data[:, 0]
    S = sparse.csr_array(
        (values.copy(), side.indices.astype(np.int32), side.indptr.astype(np.int32)), cost.shape
    )

    def call() -> float:
        e = np.einsum("pk,pk->p", L[rows], R[cols]) - values
        S.data = 2 / e.size * e
        S @ R, S.T @ L
        return float(e @ e) / e.size

    return call


def svds_route(cost: Completion, rank: int) -> Callable[[], Any]:
    """SciPy's svds with the loosest tolerance at which its residuals are as small as those of our start."""
    side = cost.observed.plain.by_row
    A = sparse.csr_array(
        (side.data[:, 0], side.indices.astype(np.int32), side.indptr.astype(np.int32)), cost.shape
    )
    scale = cost.shape[0] * cost.shape[1] / cost.observed.size

    def residual(U: Any, s: Any, V: Any) -> float:
        sides = A @ V - U * s, A.T @ U - V * s
        return float(max(np.linalg.norm(side, axis=0).max() for side in sides) / s.max())

    U, s, V = cost.start(rank)
    ours = residual(U, s / scale, V)
    for tolerance in (0.5, 0.2, 0.1, 3e-2, 1e-2, 1e-3, 0.0):
        U, s, Vt = svds(A, rank, tol=tolerance, random_state=0)
        if residual(U, s, Vt.T) <= ours:
            break
    return lambda: svds(A, rank, tol=tolerance, random_state=0)


def take_turns(routes: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Median seconds of each route, called in turn; a route much slower than the others skips rounds."""
    first = {name: _time(route) for name, route in routes.items()}  # compiles, warms up
    first = {name: _time(route) for name, route in routes.items()}
    fastest = min(first.values())
    every = {name: max(1, round(t / fastest / 4)) for name, t in first.items()}
    rounds = int(np.clip(seconds / sum(t / every[name] for name, t in first.items()), 8, 200))
    times: dict[str, list[float]] = {name: [] for name in routes}
    for k in range(rounds):
        for name, route in routes.items():
            if k % every[name] == 0:
                times[name].append(_time(route))
    return {name: float(np.median(t)) for name, t in times.items()}


def _time(route: Callable[[], Any]) -> float:
    start = time.perf_counter()
    route()
    return time.perf_counter() - start


def one_thread(route: Callable[[], Any]) -> Callable[[], Any]:
    def call() -> None:
        before = os.environ.get("RANKFOLD_NUM_THREADS")
        os.environ["RANKFOLD_NUM_THREADS"] = "1"
        try:
            route()
        finally:
            del os.environ["RANKFOLD_NUM_THREADS"]
            if before is not None:
                os.environ["RANKFOLD_NUM_THREADS"] = before

    return call


def two_at_once(route: Callable[[], Any]) -> Callable[[], Any]:
    """The route on one thread, by two callers at the same time: what two cores have to give."""
    callers = ThreadPoolExecutor(2)

    def call() -> None:
        for future in [callers.submit(route) for _ in range(2)]:
            future.result()

    return one_thread(call)


def measure(name: str, seconds: float, folder: Path) -> dict[str, Any]:
    (size, _), rank = INSTANCES[name].shape, INSTANCES[name].rank
    data = INSTANCES[name].draw(seed=0)
    cost = Completion.from_triples(data)
    rng = np.random.default_rng(1)
    L, R, dL, dR = rng.standard_normal((4, size, rank))
    single = cost.astype(np.float32)
    L32, R32 = L.astype(np.float32), R.astype(np.float32)
    routes: dict[str, Callable[[], Any]] = {
        "evaluate": lambda: cost.evaluate(L, R),
        "one thread": one_thread(lambda: cost.evaluate(L, R)),
        "two at once": two_at_once(lambda: cost.evaluate(L, R)),
        "float32": lambda: single.evaluate(L32, R32),
        "value": lambda: cost.value(L, R),
        "derivative": lambda: cost.derivative(L, R, dL, dR),
        "polynomial": lambda: cost.polynomial([L, dL], [R, dR]),
        "scipy": scipy_route(cost, L, R),
        "start": lambda: cost.start(rank),
    }
    if rank <= MAX_SVDS_RANK:
        routes["svds"] = svds_route(cost, rank)
    floor = c_floor(cost, L, R, folder)
    if floor is not None:
        routes["c"] = floor
        routes["c, one thread"] = c_on_one_thread(floor)
        assert abs(floor() / cost.value(L, R) - 1) < 1e-10
    return {
        "instance": name,
        "rank": rank,
        "entries": cost.observed.size,
        "seconds": take_turns(routes, seconds),
    }


def show(results: list[dict[str, Any]]) -> None:
    table = Table(title=f"{threads()} threads; ms, and ratios to evaluate")
    heads = (
        "evaluate ms",
        "C ms",
        "ours / C",
        "scipy / ours",
        "1 / 2 threads",
        "2 callers",
        "C: 1 / 2",
        "float32",
        "value",
        "deriv.",
        "poly.",
        "start",
        "svds / start",
    )
    for head in ("instance", "rank", "entries", *heads):
        table.add_column(head, justify="right")
    for result in results:
        t = result["seconds"]
        ours, c = t["evaluate"], t.get("c")
        keys = ("scipy", "one thread", "float32", "value", "derivative", "polynomial", "start")
        scipy, alone, *ratios = (f"{t[key] / ours:.2f}" for key in keys)
        floor = [f"{1e3 * c:.2f}", f"{ours / c:.2f}"] if c else ["", ""]
        c_alone = f"{t['c, one thread'] / c:.2f}" if c else ""
        svds = f"{t['svds'] / t['start']:.2f}" if "svds" in t else ""
        at_once = f"{2 * t['one thread'] / t['two at once']:.2f}"
        numbers = [f"{1e3 * ours:.2f}", *floor, scipy, alone, at_once, c_alone, *ratios, svds]
        table.add_row(result["instance"], str(result["rank"]), f"{result['entries']:,}", *numbers)
    Console(width=150).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the smaller instances, briefly")
    parser.add_argument("--only", nargs="*", choices=INSTANCES, help="these instances")
    options = parser.parse_args()
    names = options.only or (QUICK if options.quick else tuple(INSTANCES))
    # BLAS threads spin for a while after each call, on cores that the next route needs.
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1, user_api="blas"):
        results = [measure(name, 3.0 if options.quick else 6.0, Path(folder)) for name in names]
    show(results)
    out = HERE / "results" / "kernels.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"threads": threads(), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
