"""Small fits of every estimator, and short runs of every solver, and the numbers that each comes to.

    PYTHONPATH=src:tests python -m golden.fits

writes `fits.json` again, for whoever changed what a fit comes to, and meant it. The numbers hold on every
processor: runs are short, fits converged, choices clear.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rankfold as rf
from estimators.completion.rating_data import ratings
from estimators.every_estimator import NAMES, example
from golden.runs import LABELLED, LOSSES, RUN_CASES

TABLE = Path(__file__).parent / "fits.json"
Case = Callable[[], dict[str, Any]]


def small(loss: str = "square", **options: Any):
    """Ratings that few users gave to few films, as a loss wants them."""
    pairs, y, _ = ratings((24, 18), 2, 240, **options)
    if loss in LABELLED:
        y = (y > np.median(y)).astype(float)
    elif loss == "poisson":
        y = np.round(np.exp(0.3 * y))
    return pairs, y


def told(model: Any, answer: Any, **more: Any) -> dict[str, Any]:
    """What was chosen, and some answers."""
    chosen = {name: getattr(model, name) for name in ("rank_", "regularization_") if hasattr(model, name)}
    return {**chosen, "answer": np.ravel(answer)[:: max(1, np.size(answer) // 8)], **more}


def completion(loss: str = "square", **options: Any) -> dict[str, Any]:
    pairs, y = small(loss)
    settings = {"rank": 2, "loss": loss, "random_state": 0, "regularization": 1.0, "bayesian": False}
    model = rf.MatrixCompletion(**settings | options).fit(pairs, y)
    return told(model, model.predict(pairs))


def uncertain(**options: Any) -> dict[str, Any]:
    pairs, y = small()
    model = rf.MatrixCompletion(**{"rank": 2, "bayesian": True, "random_state": 0} | options).fit(pairs, y)
    mean, std = model.predict(pairs, return_std=True)
    low, high = model.predict_interval(pairs[:6], 0.8)
    return told(model, mean, std=std[::30], low=low, high=high)


def featured(**options: Any) -> dict[str, Any]:
    pairs, y = small()
    rng = np.random.default_rng(1)
    rows, cols = rng.standard_normal((24, 2)), rng.standard_normal((18, 3))
    y = y + 2.0 * rows[pairs[:, 0], 0] * cols[pairs[:, 1], 1]
    settings = {"rank": 2, "random_state": 0, "row_features": rows, "col_features": cols} | options
    model = rf.MatrixCompletion(**settings).fit(pairs, y)
    return told(model, model.predict(pairs))


def streamed() -> dict[str, Any]:
    """What is asked of a model beside predictions, after more data have come."""
    pairs, y = small()
    model = rf.MatrixCompletion(2, regularization=1.0, random_state=0, bayesian=False)
    model.fit(pairs[:160], y[:160]).partial_fit(pairs[160:], y[160:])
    new = model.fold_in([(100 + k % 3, column) for k, column in enumerate(pairs[:12, 1])], y[:12])
    best, near = model.recommend(pairs[:3, 0], 4), model.similar(pairs[:2, 1], 3)
    more = {"best": best.cols, "scores": best.scores, "near": near.neighbours, "cosines": near.cosines}
    return told(model, model.predict(pairs), folded=new.predict([(100, 3), (101, 5), (102, 7)]), **more)


def of_example(name: str, weighted: bool = False, **settings: Any) -> dict[str, Any]:
    made = example(name, random_state=0, **settings)
    weights = [np.random.default_rng(3).uniform(0.1, 2, len(made.X))] if weighted else []
    model = made.model.fit(made.X, made.y, *weights)
    return told(model, made.answer(model))


def asked_of_clicks() -> dict[str, Any]:
    made = example("ImplicitFeedback", random_state=0, alpha=1.5)
    model = made.fitted()
    new = model.fold_in([(100, 3), (100, 5), (101, 7)], [1.0, 2.0, 1.0])
    best, near = model.recommend([0, 3], 4), model.similar([1, 2], 3, side="row")
    more = {"best": best.cols, "scores": best.scores, "near": near.neighbours, "cosines": near.cosines}
    return told(model, made.answer(model), folded=new.predict([(100, 3), (101, 5)]), **more)


def triplets(**options: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    points, first = rng.standard_normal((10, 3)), rng.integers(0, 10, (60, 3))
    first = first[(first[:, 0] != first[:, 1]) & (first[:, 0] != first[:, 2]) & (first[:, 1] != first[:, 2])]
    far = [np.sum((points[first[:, 0], :2] - points[first[:, k], :2]) ** 2, axis=1) for k in (1, 2)]
    given = np.where((far[0] < far[1])[:, None], first, first[:, [0, 2, 1]])
    model = rf.LowRankDistance(2, random_state=0, **options).fit(given)
    return told(model, model.factor_ @ model.factor_.T)


def again(**options: Any) -> dict[str, Any]:
    """A model that goes on from its last fit."""
    pairs, y = small()
    settings = {"warm_start": True, "max_iter": 2, "regularization": 0.3, "bias": False, "bayesian": False}
    model = rf.MatrixCompletion(2, random_state=0, **settings | options).fit(pairs, y)
    model.fit(pairs, y)
    unknown = model.predict(np.array([(0, 3), (99, 3), (2, 99), (98, 99)]))
    return told(model, model.predict(pairs), unknown=unknown)


def regression(**options: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5))
    Y = X @ rng.standard_normal((5, 2)) @ rng.standard_normal((2, 6)) + rng.standard_normal((40, 6))
    if options.get("loss") == "logistic":
        Y = (Y > 0).astype(float)
    model = rf.ReducedRankRegression(random_state=0, **options).fit(X, Y)
    return told(model, model.predict(X))


def imputed(**options: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    table = np.cumsum(rng.standard_normal((50, 2)), axis=0) @ rng.standard_normal((2, 5))
    holes = rng.uniform(size=table.shape) < 0.2
    model = rf.LowRankImputer(random_state=0, **options).fit(np.where(holes, np.nan, table))
    return told(model, model.transform(np.where(holes, np.nan, table))[holes])


def chosen_rank() -> dict[str, Any]:
    data = rf.data.random_completion((30, 25), 2, 3.0, 0, noise=0.1, min_per_line=True)
    path = rf.choose_rank(rf.Completion.from_triples(data), max_rank=3)
    return {"rank": path.chosen, "errors": path.errors, "deviations": path.standard_errors}


OTHERS = [name for name in NAMES if name != "MatrixCompletion"]
WEIGHTED = ["CategoricalCompletion", "LowRankDistance", "PairRegressor", "PairClassifier"]
CASES: dict[str, Case] = {
    **RUN_CASES,
    **{f"{loss} loss": lambda loss=loss: completion(loss, bias=False) for loss in LOSSES},
    **{f"{name} of a chosen rank": lambda name=name: of_example(name, rank="auto") for name in OTHERS},
    **{name: lambda name=name: of_example(name) for name in OTHERS},
    **{f"regression by {c}": lambda c=c: regression(criterion=c) for c in ("cv", "aic", "bic", "gcv")},
    **{f"{name}, weighted": lambda name=name: of_example(name, True) for name in WEIGHTED},
    "again, robust": lambda: again(loss="huber", regularization=0.1),
    "plain": completion,
    "again": again,
    "again, clipped": lambda: again(clip=True, regularization=0.01),
    "geometry and solver": lambda: completion(geometry="embedded", solver="cg", regularization=0, bias=False),
    "clicks asked": asked_of_clicks,
    "triplets": triplets,
    "triplets, hinged": lambda: triplets(loss="squared_hinge", regularization=1.0),
    "regression without intercept": lambda: regression(fit_intercept=False, rank=2, regularization=0.5),
    "regression in three folds": lambda: regression(cv=3, regularization=0.5),
    "robust pairs": lambda: of_example("PairRegressor", rank=1, regularization=5.0),
    "imputed of rank one": lambda: imputed(rank=1, max_iter=3),
    "imputed in order, of rank one": lambda: imputed(rank=1, order="rows", max_iter=5),
    "without offsets": lambda: completion(bias=False),
    "chosen weight of counts": lambda: completion("poisson", regularization="auto", bias=False),
    "no weight": lambda: completion(regularization=0.0, bias=False, rank=1),
    "by the trust region": lambda: completion(solver="tr"),
    "everything chosen": lambda: uncertain(rank="auto", bayesian="auto"),
    "posterior": uncertain,
    "posterior without offsets": lambda: uncertain(bias=False, regularization=1.0),
    "features": featured,
    "stream": streamed,
    "clicks chosen": lambda: of_example("ImplicitFeedback", rank="auto", regularization="auto"),
    "categories shared": lambda: of_example("CategoricalCompletion", shared=False, regularization=3.0),
    "regression of labels": lambda: regression(loss="logistic", rank=1, regularization=1.0),
    "regression, robust": lambda: regression(loss="huber", rank=1, regularization=1.0),
    "imputed in order": lambda: imputed(order="rows"),
    "imputed": imputed,
    "rank by held-out entries": chosen_rank,
}


def found(name: str) -> dict[str, list[float]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of lines without entries, of limits reached
        return {key: np.ravel(np.asarray(value, float)).tolist() for key, value in CASES[name]().items()}


def table() -> Iterator[tuple[str, dict[str, list[float]]]]:
    for name in CASES:
        rounded = {key: [float(f"{x:.9g}") for x in numbers] for key, numbers in found(name).items()}
        yield name, rounded


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in table())
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
