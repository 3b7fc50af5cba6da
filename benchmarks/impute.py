"""Beijing air with a tenth of its known entries hidden: LowRankImputer beside scikit-learn's imputers.

    python -m benchmarks.impute path/to/beijing_air/hourly.csv.gz [random] [blocks] [stations]
        [--skip-iterative] [--hours 35064]

The table has 35,064 hours and 120 columns (12 stations, 10 quantities) with gaps of its own. "random" hides a
tenth of the known entries, "blocks" days of 24 hours of single columns, "stations" days of all columns of a
station. All imputers have their defaults but for IterativeImputer(max_iter=10); `order="index"` tells
LowRankImputer that rows are in time. KNNImputer sees columns divided by their deviations, for it compares
rows by distances. "interpolation" is linear in time, for each column alone. Errors are in units of each
column's standard deviation. Seconds are the process's CPU time, which other tenants of the machine do not
change much, and the wall clock's in brackets.
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
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

import rankfold as rf

Floats = np.ndarray[Any, Any]
SCENARIOS = "random", "blocks", "stations"
QUANTITIES = 10  # of each station


def hidden(X: Floats, scenario: str, part: float = 0.1, seed: int = 0) -> Floats:
    """Return where known entries are hidden."""
    rng, known = np.random.default_rng(seed), ~np.isnan(X)
    if scenario == "random":
        return known & (rng.uniform(size=X.shape) < part)
    repeats = QUANTITIES if scenario == "stations" else 1
    days = rng.uniform(size=(-(-len(X) // 24), X.shape[1] // repeats)) < part
    days = np.repeat(days, repeats, axis=1)
    return known & np.repeat(days, 24, axis=0)[: len(X)]


def measure(name: str, imputer: Any, X: Any, hide: Floats) -> float:
    """Print a row of the table, and return the CPU seconds."""
    table = X.mask(hide)
    cpu, wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # ten rounds are what is asked for
        full = imputer.fit_transform(table)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    errors = ((np.asarray(full) - X.to_numpy()) / np.nanstd(table.to_numpy(), axis=0))[hide]
    rmse, mae = np.sqrt(np.mean(errors**2)), np.mean(np.abs(errors))
    print(f"| {name} | {rmse:.4f} | {mae:.4f} | {cpu:.1f} ({wall:.0f}) |", flush=True)
    return cpu


class Interpolation:
    """Linear in time, for each column alone."""

    def fit_transform(self, table: Any) -> Any:
        """Fill the holes."""
        return table.interpolate("time", limit_direction="both")


class Scaled:
    """An imputer that sees columns in units of their deviations."""

    def __init__(self, imputer: Any) -> None:
        self.imputer = imputer

    def fit_transform(self, table: Any) -> Any:
        """Fill the holes."""
        means, deviations = table.mean(), table.std()
        return (
            self.imputer.fit_transform((table - means) / deviations) * deviations.to_numpy()
            + means.to_numpy()
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("scenarios", nargs="*", default=SCENARIOS)
    parser.add_argument("--skip-iterative", action="store_true")
    parser.add_argument("--hours", type=int, default=35_064, help="how many of them, from the first on")
    options = parser.parse_args()
    X = pd.read_csv(options.path, index_col=0, parse_dates=True).astype(float)[: options.hours]
    rf.LowRankImputer(random_state=0).fit_transform(X[:200])  # compiles
    for scenario in options.scenarios:
        hide = hidden(X.to_numpy(), scenario)
        print(f"\n| {scenario}, {hide.sum()} entries hidden | RMSE | mean absolute error | seconds |")
        print("|---|---|---|---|")
        measure("SimpleImputer", SimpleImputer(), X, hide)
        imputer = rf.LowRankImputer(random_state=0)
        ours = measure("LowRankImputer", imputer, X, hide)
        print(f"(rank {imputer.rank_}, {imputer.n_iter_} EM steps)")
        if scenario != "random":
            in_time = rf.LowRankImputer(order="index", random_state=0)
            measure('LowRankImputer(order="index")', in_time, X, hide)
            measure("interpolation", Interpolation(), X, hide)
            measure("KNNImputer", Scaled(KNNImputer()), X, hide)
        if not options.skip_iterative:
            theirs = measure("IterativeImputer(max_iter=10)", IterativeImputer(max_iter=10), X, hide)
            print(f"(LowRankImputer is {theirs / ours:.0f} times as fast)")


if __name__ == "__main__":
    main()
