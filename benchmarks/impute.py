"""Beijing air with a tenth of its known entries hidden: LowRankImputer beside scikit-learn's imputers.

    python -m benchmarks.impute path/to/beijing_air/hourly.csv.gz [random] [blocks] [--skip-iterative]

The table has 35,064 hours and 120 columns (12 stations, 10 quantities) with gaps of its own. "random" hides a
tenth of the known entries, "blocks" days of 24 hours of single columns. All imputers have their defaults but
for IterativeImputer(max_iter=10). Errors are in units of each column's standard deviation. Seconds are the
process's CPU time, which other tenants of the machine do not change much, and the wall clock's in brackets.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer

import rankfold as rf

Floats = np.ndarray[Any, Any]
SCENARIOS = "random", "blocks"


def hidden(X: Floats, scenario: str, part: float = 0.1, seed: int = 0) -> Floats:
    """Return where known entries are hidden."""
    rng, known = np.random.default_rng(seed), ~np.isnan(X)
    if scenario == "random":
        return known & (rng.uniform(size=X.shape) < part)
    days = rng.uniform(size=(-(-len(X) // 24), X.shape[1])) < part
    return known & np.repeat(days, 24, axis=0)[: len(X)]


def measure(name: str, imputer: Any, X: Floats, hide: Floats) -> float:
    """Print a row of the table, and return the CPU seconds."""
    table = np.where(hide, np.nan, X)
    cpu, wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # ten rounds are what is asked for
        full = imputer.fit_transform(table)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    errors = ((full - X) / np.nanstd(table, axis=0))[hide]
    rmse, mae = np.sqrt(np.mean(errors**2)), np.mean(np.abs(errors))
    print(f"| {name} | {rmse:.4f} | {mae:.4f} | {cpu:.1f} ({wall:.0f}) |", flush=True)
    return cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("scenarios", nargs="*", default=SCENARIOS)
    parser.add_argument("--skip-iterative", action="store_true")
    options = parser.parse_args()
    X = pd.read_csv(options.path, index_col=0).to_numpy(dtype=float)
    rf.LowRankImputer(random_state=0).fit_transform(X[:200])  # compiles
    for scenario in options.scenarios:
        hide = hidden(X, scenario)
        print(f"\n| {scenario}, {hide.sum()} entries hidden | RMSE | mean absolute error | seconds |")
        print("|---|---|---|---|")
        measure("SimpleImputer", SimpleImputer(), X, hide)
        imputer = rf.LowRankImputer(random_state=0)
        ours = measure("LowRankImputer", imputer, X, hide)
        print(f"(rank {imputer.rank_}, {imputer.n_iter_} EM steps)")
        if not options.skip_iterative:
            theirs = measure("IterativeImputer(max_iter=10)", IterativeImputer(max_iter=10), X, hide)
            print(f"(LowRankImputer is {theirs / ours:.0f} times as fast)")


if __name__ == "__main__":
    main()
