"""Completion when a tenth of the entries is nonsense: the Huber loss finds W, the square loss does not.

python docs/examples/robust_completion.py [size]
"""

import sys

import numpy as np

import rankfold as rf


def main(size: int = 400) -> dict[str, float]:
    """Return the relative error of W by loss."""
    data = rf.data.random_completion((size, size), rank=5, oversampling=8, seed=0)
    rng = np.random.default_rng(0)
    values = data.values.copy()
    bad = rng.uniform(size=values.size) < 0.1
    values[bad] = 10 * values.std() * rng.standard_normal(bad.sum())
    geometry = rf.FullRank(data.shape, rank=5, metric="preconditioned")
    stop = rf.stopping.RelativeChange(1e-5, window=5)
    errors, x0 = {}, None
    # A narrow Huber loss hardly feels outliers, but is hard to minimise from afar: come from wider ones.
    for delta in (None, 2.0, 0.5, 0.05, 0.005):
        loss = rf.Loss.huber(delta) if delta else "square"
        cost = rf.Completion(data.rows, data.cols, values, data.shape, loss=loss)
        result = rf.minimize(
            rf.Problem(cost, geometry),
            rf.ConjugateGradient(),
            x0,
            max_iterations=60,
            tolerance=0.0,
            stop=stop,
        )
        x0 = result.x if delta else None
        errors[f"huber {delta}" if delta else "square"] = data.relative_error(*result.factors)
    return errors


if __name__ == "__main__":
    for name, error in main(*map(int, sys.argv[1:])).items():
        print(f"{name}: relative error of W {error:.1e}")
