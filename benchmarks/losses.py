"""What the losses and `Pairs` promise on planted data: time of one-hot pairs, outliers, 1-bit data.

    python -m benchmarks.losses [one-hot] [robust] [one-bit]

one-hot: `Pairs` with one-hot features beside `Completion` on the same entries, evaluations in turn. robust: a
tenth of the entries of P1 replaced by outliers of ten times the data's scale. one-bit: signs drawn from a
planted W, log-loss on entries held out beside the planted model's own and the majority's, as data grow.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy import sparse

import rankfold as rf
from benchmarks.instances import P1

Floats = np.ndarray[Any, Any]


def one_hot(repeats: int = 40) -> None:
    data = P1.draw(seed=0)
    eyes = [sparse.eye_array(d, format="csr") for d in data.shape]
    pairs = np.stack([data.rows, data.cols], axis=1)
    costs = {
        "Completion": rf.Completion.from_triples(data),
        "Pairs": rf.Pairs(*eyes, data.values, pairs=pairs),
    }
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((d, 5)) for d in (*data.shape, *data.shape)]
    print("| | Completion, ms | one-hot Pairs, ms | ratio | largest difference |\n" + "|---" * 5 + "|")
    for name, count in (("evaluate", 2), ("derivative", 4)):
        seconds: dict[str, list[float]] = {key: [] for key in costs}
        results = {}
        for _ in range(repeats):
            for key, cost in costs.items():
                began = time.perf_counter()
                results[key] = getattr(cost, name)(*arrays[:count])
                seconds[key].append(time.perf_counter() - began)
        plain, mapped = (1e3 * min(seconds[key]) for key in costs)
        gap = max(
            float(np.max(np.abs(one - two)) / np.max(np.abs(one)))
            for one, two in zip(results["Completion"], results["Pairs"], strict=True)
        )
        print(f"| {name} | {plain:.2f} | {mapped:.2f} | {mapped / plain:.2f} | {gap:.1e} |", flush=True)


def robust(seeds: int = 3) -> None:
    print("| seed | square | Huber | seconds, Huber |\n" + "|---" * 4 + "|")
    for seed in range(seeds):
        data = P1.draw(seed)
        rng = np.random.default_rng(seed)
        values, scale = data.values.copy(), float(data.values.std())
        bad = rng.permutation(values.size)[: values.size // 10]
        values[bad] = 10 * scale * rng.standard_normal(bad.size)
        geometry = rf.FullRank(data.shape, rank=5, metric="preconditioned")
        solver, errors, x, began = rf.ConjugateGradient(), [], None, 0.0
        # A narrow Huber loss hardly feels outliers, but is hard to minimise from afar: come from wider ones.
        for delta in (None, 1.0, 0.1, 0.01, 0.001):
            loss = rf.Loss.huber(delta * scale) if delta else "square"
            cost = rf.Completion(data.rows, data.cols, values, data.shape, loss=loss)
            stop = rf.stopping.RelativeChange(1e-5, window=5)
            problem = rf.Problem(cost, geometry)
            result = rf.minimize(problem, solver, x, max_iterations=60, tolerance=0.0, stop=stop)
            errors.append(data.relative_error(*result.factors))
            x = result.x if delta else None
            began = began if delta else time.perf_counter()
        seconds = time.perf_counter() - began
        print(f"| {seed} | {errors[0]:.2f} | {errors[-1]:.1e} | {seconds:.1f} |", flush=True)


def one_bit() -> None:
    print("| entries per row | fit | planted | fit / planted | majority |\n" + "|---" * 5 + "|")
    size, rng = 1000, np.random.default_rng(0)
    W = 2 * rng.standard_normal((size, 2)) @ rng.standard_normal((2, size)) / 2**0.5
    answers = rng.uniform(size=W.shape) < 1 / (1 + np.exp(-W))
    order = rng.uniform(size=W.shape)
    test = order > 0.8  # the same entries for every amount of data

    def log_loss(V: Floats) -> float:
        return float(np.mean(np.logaddexp(0, V[test]) - answers[test] * V[test]))

    for share in (0.025, 0.05, 0.1, 0.2, 0.4, 0.8):
        known = order < share
        cost = rf.Completion(*np.nonzero(known), answers[known].astype(float), W.shape, loss="logistic")
        geometry = rf.FullRank(W.shape, rank=2)
        # a weight that grows with no amount of data, as that of a prior; without it certain entries diverge
        problem = rf.Problem(cost + rf.Nuclear(1 / known.sum()), geometry)
        stop = rf.stopping.RelativeChange(1e-6, window=3)
        result = rf.minimize(problem, rf.ConjugateGradient(), tolerance=0.0, stop=stop, max_iterations=300)
        L, R = result.factors
        rate = float(answers[known].mean())
        fit, planted = log_loss(L @ R.T), log_loss(W)
        majority = log_loss(np.full(W.shape, np.log(rate / (1 - rate))))
        row = f"{known.sum() / size:.0f} | {fit:.4f} | {planted:.4f} | {fit / planted:.3f} | {majority:.4f}"
        print(f"| {row} |", flush=True)


PARTS = {"one-hot": one_hot, "robust": robust, "one-bit": one_bit}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    for name in parser.parse_args().parts:
        print(f"\n### {name}\n")
        PARTS[name]()


if __name__ == "__main__":
    main()
