"""Images seen through two feature extractors: learn which vectors of the one go with which of the other.

A classifier is trained on features of a source domain. In the target domain the same classes look different
(another basis, another length), and only pairs "same class" or "not" are known for a few images. A bilinear
similarity of low rank, xᵀWz, carries the classifier over. Data are drawn.
"""

import numpy as np

import rankfold as rf


def main() -> tuple[float, float]:
    """Return the accuracy in the target domain of images whose classes were never given, and of guessing."""
    rng = np.random.default_rng(0)
    classes, hidden = 6, 4
    centres = 2 * rng.standard_normal((classes, hidden))
    views = rng.standard_normal((hidden, 30)), rng.standard_normal((hidden, 20))
    labels = rng.integers(0, classes, 200), rng.integers(0, classes, 200)
    X, Z = (
        (centres[label] + 0.5 * rng.standard_normal((200, hidden))) @ view / view.shape[1] ** 0.5
        for label, view in zip(labels, views, strict=True)
    )
    seen = np.arange(100)  # of the target domain; the other hundred is for testing
    pairs = np.stack(np.meshgrid(np.arange(200), seen, indexing="ij"), axis=-1).reshape(-1, 2)
    same = (labels[0][pairs[:, 0]] == labels[1][pairs[:, 1]]).astype(float)
    cost = rf.Pairs(X, Z, same, "logistic", pairs, linear=True)
    geometry = rf.Embedded(cost.shape, rank=hidden + 2)
    problem = rf.Problem(cost + rf.Frobenius(1e-5), geometry)
    stop = rf.stopping.RelativeChange(1e-5, window=3)
    result = rf.minimize(problem, rf.TrustRegion(), stop=stop, max_iterations=100)
    L, R, a, b, c = cost.linear_terms(*result.factors)
    scores = X @ L @ (Z[100:] @ R).T + (X @ a)[:, None] + Z[100:] @ b + c
    votes = np.stack([scores[labels[0] == k].mean(axis=0) for k in range(classes)])
    return float(np.mean(votes.argmax(axis=0) == labels[1][100:])), 1 / classes


if __name__ == "__main__":
    accuracy, guess = main()
    print(f"accuracy in the target domain {accuracy:.2f}, by guessing {guess:.2f}")
