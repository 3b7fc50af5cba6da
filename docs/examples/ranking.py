"""Films in the order of each user's taste: learned from comparisons, by a regression, and by popularity.

Some users give five stars to everything, some to nothing. A regression spends what it has on how users use
the scale; comparisons within a user do not see it. Data are drawn; the films that are ranked are new.
"""

import numpy as np

import rankfold as rf


def main() -> dict[str, float]:
    """Return the part of the comparisons between films new to all that each method puts in order."""
    rng = np.random.default_rng(0)
    users, films = rng.standard_normal((150, 8)), rng.standard_normal((80, 6))
    taste = users @ rng.standard_normal((8, 2)) @ rng.standard_normal((2, 6)) @ films.T
    strictness = 6 * rng.standard_normal((150, 1))
    stars = np.digitize(taste + strictness + 2 * rng.standard_normal(taste.shape), [-6, -3, 0, 3, 6])
    rated = np.argwhere(rng.uniform(size=taste.shape) < 0.15)
    seen, new = rated[rated[:, 1] < 60], np.argwhere(np.arange(80) >= np.full((150, 1), 60))
    grades = stars[tuple(seen.T)].astype(float)

    ranker = rf.PairRanker(2, left=users, right=films, regularization=1.0, tol=1e-6).fit(seen, grades)
    regression = rf.PairRegressor(3, left=users, right=films, regularization=1.0, tol=1e-6).fit(seen, grades)
    means = np.array([grades[seen[:, 1] == film].mean() for film in range(60)])
    design = np.column_stack([films, np.ones(80)])  # how popular a new film will be, by its features
    popularity = design @ np.linalg.lstsq(design[:60], means, rcond=None)[0]

    def in_order(scores: np.ndarray) -> float:
        """Compare films that are new, by what each user would like better."""
        liked, scores = taste[tuple(new.T)].reshape(150, -1), scores.reshape(150, -1)
        better = liked[:, :, None] > liked[:, None, :]
        return float(np.mean(scores[:, :, None] > scores[:, None, :], where=better))

    return {
        "ranker": in_order(ranker.predict(new)),
        "regression": in_order(regression.predict(new)),
        "popularity": in_order(popularity[new[:, 1]]),
    }


if __name__ == "__main__":
    for name, part in main().items():
        print(f"{name}: {part:.3f} of the comparisons in order")
