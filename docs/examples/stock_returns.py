"""Weekly stock returns predicted from those of the week before, with coefficients of low rank.

    python docs/examples/stock_returns.py [stock04.csv]

The data of Yuan, Ekici, Lu and Monteiro (2007) are a table of returns, a column per stock; without a file,
the example draws a table with the same structure.
"""

import sys

import numpy as np

import rankfold as rf


def drawn() -> np.ndarray:
    """Return 200 weeks of nine stocks that follow one market factor with a delay."""
    rng = np.random.default_rng(0)
    A = 0.4 * np.outer(rng.uniform(0.5, 1, 9), rng.uniform(0.5, 1, 9)) / 9**0.5
    weeks = [rng.standard_normal(9)]
    for _ in range(199):
        weeks.append(weeks[-1] @ A + 0.3 * rng.standard_normal(9))
    return np.array(weeks)


def main(path: str | None = None) -> tuple[float, float]:
    """Return the test mean square error of the low-rank fit and of the training mean."""
    returns = drawn() if path is None else np.loadtxt(path, delimiter=",", skiprows=1)
    X, Y = returns[:-1], returns[1:]
    half = (len(X) + 1) // 2
    mean, scale, centre = X[:half].mean(axis=0), X[:half].std(axis=0), Y[:half].mean(axis=0)
    cost = rf.Regression((X[:half] - mean) / scale, Y[:half] - centre)
    ridge = 1.0 / Y.shape[1]
    geometry = rf.SubspaceProjection(cost.shape, rank=1)
    result = rf.minimize(rf.Problem(cost + rf.Frobenius(ridge), geometry), rf.TrustRegion())
    L, R = result.factors
    predicted = ((X[half:] - mean) / scale) @ L @ R.T + centre
    return float(np.mean((Y[half:] - predicted) ** 2)), float(np.mean((Y[half:] - centre) ** 2))


if __name__ == "__main__":
    fit, mean = main(*sys.argv[1:])
    print(f"test mean square error: rank 1 {fit:.4e}, training mean {mean:.4e}")
