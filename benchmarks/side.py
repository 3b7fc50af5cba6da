"""Side information on MovieLens: new films by their genres, and features that say nothing.

    python -m benchmarks.side path/to/ml-latest-small [--seeds 5] [--rank 10]

The folder holds ratings.csv.gz (user, movie, rating, time) and movies.csv (movieId, title, genres); a film
has a feature for each genre, 1 where the film has it, and with `--year` the year in its title. "new films":
the films of seed s are `numpy.random.default_rng(s).permutation` of all; a tenth of them is held out with all
their ratings. "ratings": a tenth of the ratings is held out, as in `benchmarks.ratings`; random features are
20 Gaussian numbers for each user and each film. All else has its defaults, so that implicit features, which
say who rated a film at all, are tried where there are no others; "nor implicit ones" is without these.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import rankfold as rf


def genres(folder: Path, year: bool) -> pd.DataFrame:
    films = pd.read_csv(folder / "movies.csv", index_col="movieId")
    table = films["genres"].str.get_dummies("|")
    if year:
        table["year"] = films["title"].str.extract(r"\((\d{4})\)\s*$")[0].astype(float)
    return table


def error(train: Any, test: Any, rank: int, **features: Any) -> float:
    model = rf.MatrixCompletion(rank, random_state=0).fit(*train, **features)
    return rmse(model.predict(test[0]), test[1])


def rmse(predicted: Any, values: Any) -> float:
    return float(np.sqrt(np.mean((predicted - values) ** 2)))


def new_films(X: Any, y: Any, table: pd.DataFrame, seed: int, rank: int) -> dict[str, float]:
    films = np.random.default_rng(seed).permutation(np.unique(X[:, 1]))
    new = np.isin(X[:, 1], films[: len(films) // 10])
    train, test = (X[~new], y[~new]), (X[new], y[new])
    return {
        "mean": rmse(train[1].mean(), test[1]),
        "without features": error(train, test, rank),
        "with genres": error(train, test, rank, col_features=table),
    }


def ratings(X: Any, y: Any, table: pd.DataFrame, seed: int, rank: int) -> dict[str, float]:
    order = np.random.default_rng(seed).permutation(len(y))
    cut = len(y) - round(0.1 * len(y))
    train, test = ((X[part], y[part]) for part in (order[:cut], order[cut:]))
    rng = np.random.default_rng(100 + seed)
    noise = {}
    for name, column in (("row_features", X[:, 0]), ("col_features", X[:, 1])):
        labels = np.unique(column)
        noise[name] = labels, rng.standard_normal((len(labels), 20))
    return {
        "without features": error(train, test, rank),
        "with random features": error(train, test, rank, **noise),
        "with genres": error(train, test, rank, col_features=table),
        "nor implicit ones": error(train, test, rank, row_features=False, col_features=False),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--year", action="store_true")
    options = parser.parse_args()
    data = pd.read_csv(options.folder / "ratings.csv.gz")
    X, y = data.iloc[:, :2].to_numpy(), data.iloc[:, 2].to_numpy(dtype=float)
    table = genres(options.folder, options.year)
    for name, measure in (("new films", new_films), ("ratings", ratings)):
        runs = []
        for seed in range(options.seeds):
            runs.append(measure(X, y, table, seed, options.rank))
            print(
                f"  seed {seed}: " + ", ".join(f"{key} {found:.4f}" for key, found in runs[-1].items()),
                flush=True,
            )
        print(f"{name}, test RMSE, mean of {options.seeds} seeds", flush=True)
        for key in runs[0]:
            values = [run[key] for run in runs]
            print(
                f"  {key:>22}  {np.mean(values):.4f}  from {min(values):.4f} to {max(values):.4f}", flush=True
            )


if __name__ == "__main__":
    main()
