"""A small example of every estimator, with what it is fitted to and what it is asked."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import rankfold as rf
from estimators.completion.rating_data import ratings
from rankfold.estimators.model_files import ESTIMATORS


class Example(NamedTuple):
    """`model.fit(X, y)`, and then the method `asks` of it."""

    model: Any
    X: Any
    y: Any
    asks: str = "predict"

    def fitted(self):
        return self.model.fit(self.X, self.y)

    def answer(self, model, X=None):
        return getattr(model, self.asks)(self.X if X is None else X)


def example(name: str, **settings: Any) -> Example:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    holes = rng.uniform(size=X.shape) < 0.2
    match name:
        case "MatrixCompletion":
            made = Example(rf.MatrixCompletion(2, regularization=1.0, random_state=0), *ratings()[:2])
        case "ImplicitFeedback":
            clicks, y = rng.integers(0, [30, 20], (250, 2)), rng.integers(1, 4, 250).astype(float)
            clicks[:, 1] = (clicks[:, 1] + 20 * (clicks[:, 0] % 2)) // 2
            made = Example(rf.ImplicitFeedback(2, regularization=1.0, random_state=0), clicks, y)
        case "LowRankImputer":
            table = np.where(holes, np.nan, X @ rng.standard_normal((6, 6)))
            made = Example(rf.LowRankImputer(2, tol=0.1), table, None, "transform")
        case "LowRankDistance":
            table, pairs = rng.standard_normal((12, 4)), np.argwhere(np.triu(np.ones((12, 12)), 1))
            y = np.sum((table[pairs[:, 0], :2] - table[pairs[:, 1], :2]) ** 2, axis=1)
            made = Example(rf.LowRankDistance(2, points=table, regularization=1.0), pairs, y)
        case "PairRegressor":
            left, right = rng.standard_normal((9, 3)), rng.standard_normal((7, 2))
            pairs = np.argwhere(np.ones((9, 7)))
            y = left[pairs[:, 0], 0] * right[pairs[:, 1], 1] + 2
            made = Example(rf.PairRegressor(2, left=left, right=sparse.csr_array(right)), pairs, y)
        case "PairClassifier":
            y = (X[:, 0] * X[:, 4] > 0.1 * X[:, 1]).astype(int)
            made = Example(rf.PairClassifier(2, regularization=1.0), X, y)
        case "PairRanker":
            left, right = rng.standard_normal((9, 3)), rng.standard_normal((7, 2))
            pairs = np.argwhere(np.ones((9, 7)))
            y = np.round(left[pairs[:, 0], 0] * right[pairs[:, 1], 1])
            model = rf.PairRanker(2, left=left, right=sparse.csr_array(right), regularization=1.0)
            made = Example(model, pairs, y)
        case "CategoricalCompletion":
            pairs = np.argwhere(rng.uniform(size=(30, 6)) < 0.7)
            above = X[:30, :2] @ rng.standard_normal((2, 6)) > 0
            y = above[tuple(pairs.T)] + 2 * (pairs[:, 1] >= 3)  # the last columns have classes of their own
            model = rf.CategoricalCompletion(2, tol=1e-8)
            made = Example(model, pairs, y, "predict_proba")
        case "ReducedRankRegression":
            Y = X @ rng.standard_normal((6, 1)) @ rng.standard_normal((1, 6)) + rng.standard_normal(X.shape)
            made = Example(
                rf.ReducedRankRegression(1, regularization=1.0, tol=1e-6), X, np.where(holes, np.nan, Y)
            )
    made.model.set_params(**settings)
    return made


NAMES = tuple(ESTIMATORS)
