"""One of several processes: does the tasks that it is asked for, in order, and writes down what it found.

Without a RANK it becomes all of them, by forks, one group after another: what takes seconds to import, and
kernels of runs that most groups do, are there once.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import rankfold as rf
from distributed.cases import CASES, CROSSED, ON_THREE, ON_TWO
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


def one_of_them(folder: str, *tasks: str) -> None:
    group = start(timeout=200)
    found = {name: done(name, group, Path(folder)) for name in tasks}
    (Path(folder) / f"found-{group.rank}-of-{group.size}").write_bytes(pickle.dumps(found))
    group.leave()


def the_command(*words: str) -> None:
    """Be `rankfold` with these words."""
    sys.argv[:] = ["rankfold", *words]
    import_module("rankfold.cli").main()


def forked(rank: int, folder: str, group: dict[str, Any]) -> int:
    """Start a process with this rank, whose words go to a file; return its number."""
    folder = group.get("folder", folder)
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.environ["RANK"] = str(rank)
        with Path(folder, f"words-{rank}").open("ab") as words:
            os.dup2(words.fileno(), 1)
            os.dup2(words.fileno(), 2)
        if "command" in group:
            the_command(*group["command"])
        one_of_them(folder, *group["tasks"])
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main(folder: str, *tasks: str) -> int:
    if "RANK" in os.environ:
        one_of_them(folder, *tasks)
        return 0
    for name in ("torch.distributed", "numba", "rankfold.cli.app", "sklearn.base"):
        import_module(name)
    with mock.patch.dict(os.environ, RANKFOLD_NUM_THREADS="1"):  # a fork takes no threads along
        for name in (*ON_TWO, *ON_THREE):
            CASES[name](one_process)
    for number, group in enumerate(json.loads(os.environ["GROUPS"])):
        os.environ.update(WORLD_SIZE=str(group["size"]), MASTER_PORT=group["port"])
        children = [forked(rank, folder, group) for rank in range(group["size"])]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        Path(folder, f"ended-{number}").write_text("")
        if any(codes) and not group.get("may fail"):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
