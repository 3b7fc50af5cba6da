"""1-bit completion: entries are known as yes or no only, with P(yes) = 1 / (1 + exp(-W_ij)).

python docs/examples/one_bit.py [size] [share]
"""

import sys

import numpy as np

import rankfold as rf


def main(size: int = 200, share: float = 0.5) -> dict[str, float]:
    """Return the log-loss on held-out entries of the fit, of the planted model and of the majority."""
    rng = np.random.default_rng(0)
    W = 2 * rng.standard_normal((size, 2)) @ rng.standard_normal((2, size)) / 2**0.5
    answers = rng.uniform(size=W.shape) < 1 / (1 + np.exp(-W))
    known = rng.uniform(size=W.shape) < share
    cost = rf.Completion(*np.nonzero(known), answers[known].astype(float), W.shape, loss="logistic")
    geometry = rf.FullRank(W.shape, rank=2)
    # a ridge, or the most certain entries would grow without bound
    problem = rf.Problem(cost + rf.Nuclear.by_counts(2e-3, cost), geometry)
    stop = rf.stopping.RelativeChange(1e-7, window=3)
    L, R = rf.minimize(problem, rf.TrustRegion(), tolerance=0.0, stop=stop).factors

    def log_loss(V: np.ndarray) -> float:
        return float(np.mean(np.logaddexp(0, V) - answers * V, where=~known))

    rate = answers[known].mean()
    return {
        "fit": log_loss(L @ R.T),
        "planted": log_loss(W),
        "majority": log_loss(np.full(W.shape, np.log(rate / (1 - rate)))),
    }


if __name__ == "__main__":
    for name, loss in main(
        *(kind(word) for kind, word in zip((int, float), sys.argv[1:], strict=False))
    ).items():
        print(f"{name}: log-loss {loss:.4f}")
