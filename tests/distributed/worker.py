"""One of several processes: does the tasks that it is asked for, in order, and writes down what it found."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

import rankfold as rf
from distributed.cases import CASES, CROSSED
from distributed.tasks import Tasks
from rankfold.distributed import Group, spread_triples, start
from rankfold.fingerprint import fingerprint
from rankfold.linalg.rows import whole


def one_process(data, values=None, weights=None, loss="square", stripes=None):
    """Return the same cost in one process, where nothing comes in stripes."""
    values = data.values if values is None else values
    return rf.Completion(data.rows, data.cols, values, data.shape, weights, loss=loss)


def spread_cost(group: Group):
    """Return what makes a cost of triples, of which this process brings its share."""

    def make(data, values=None, weights=None, loss="square", stripes=None):
        values = data.values if values is None else values
        own = np.arange(len(values)) % group.size == group.rank
        weights = None if weights is None else weights[own]
        triples = data.rows[own], data.cols[own], values[own]
        store = spread_triples(*triples, data.shape, weights, group=group, stripes=stripes)
        return rf.Completion.from_observed(store, rf.Loss.named(loss))

    return make


def summary(result: rf.Result) -> dict[str, Any]:
    """What is compared of a run."""
    factors = [whole(factor) for factor in result.factors]
    return {
        "values": result.trace["value"],
        "norms": result.trace["gradient_norm"],
        "notes": [row.note for row in result.trace],
        "stop": result.stop.kind,
        "error": repr(result.error),
        "W": factors[0] @ factors[1].T,
        "bits": fingerprint(*factors, result.trace["value"], result.trace["step"]),
    }


def done(name: str, group: Group, folder: Path) -> Any:
    """Return what a task, or else a run, comes to."""
    if name.startswith("task:"):
        return getattr(Tasks(group, folder), name.removeprefix("task:").replace(" ", "_"))()
    return summary((CASES | CROSSED)[name](spread_cost(group)))


def main(folder: str, *tasks: str) -> None:
    group = start(timeout=200)
    found = {name: done(name, group, Path(folder)) for name in tasks}
    (Path(folder) / f"found-{group.rank}").write_bytes(pickle.dumps(found))
    group.leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
