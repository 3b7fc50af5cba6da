"""Runs over entries on GPUs, in one process or several; where there is none, something stands in for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch

import rankfold as rf
from rankfold.distributed import Group, SpreadTriples, spread_triples
from rankfold.linalg.rows import whole

HAS_GPU = torch.cuda.is_available()
SHAPE, STEPS = ((60, 45), 8) if HAS_GPU else ((9, 6), 2)
RUNS = {"cg": rf.ConjugateGradient()}
if HAS_GPU:  # in the interpreter a pass takes a tenth of a second
    RUNS |= {"geometry's metric": rf.ConjugateGradient(metric="geometry"), "tr": rf.TrustRegion()}
    RUNS |= {"gn": rf.GaussNewton(), "continuation": rf.RankContinuation()}


@contextmanager
def standing_in() -> Iterator[None]:
    """Take torch on the CPU for a GPU, and Triton's interpreter for its compiler, if there is none."""
    if HAS_GPU:
        yield
        return
    here = "rankfold.distributed.entries"
    with (
        mock.patch(f"{here}.usable_device", lambda device: device),
        mock.patch(f"{here}.own_gpu", return_value="cpu"),
    ):
        yield


def data_of(shape: tuple[int, int] = SHAPE, rank: int = 2) -> Any:
    return rf.data.random_completion(shape, rank, 1.6, seed=1, noise=0.1)


def share(data: Any, group: Group, device: str = "cuda") -> Any:
    """The entries that a process of several brings, spread."""
    own = np.arange(len(data.values)) % group.size == group.rank
    return spread_triples(
        data.rows[own], data.cols[own], data.values[own], data.shape, group=group, device=device
    )


def ran(cost: rf.Completion, solver: Any) -> dict[str, Any]:
    """What is compared of a run."""
    result = rf.minimize(rf.Problem.of(cost, rank=2), solver, tolerance=0, max_iterations=STEPS)
    factors = [whole(factor) for factor in result.factors]
    return {"values": result.trace["value"], "tensors": [type(each) is torch.Tensor for each in factors]}


def model_of(group: Group, device: str) -> Any:
    """W as an estimator finds it, on the CPU or on GPUs."""
    data = data_of()
    triples = SpreadTriples(share(data, group, "cpu"), *map(np.arange, data.shape))
    model = rf.MatrixCompletion(
        rank=2, bias=False, regularization=0.5, tol=1e-4, device=device, random_state=0
    )
    L, R = model.fit(triples).factors_
    return L @ R.T


def in_memory() -> dict[str, Any]:
    """Values of the runs in one process, without a GPU."""
    cost = rf.Completion.from_triples(data_of())
    return {name: ran(cost, solver)["values"] for name, solver in RUNS.items()}


def same_runs(found: dict[str, Any], alone: dict[str, Any]) -> None:
    """Assert that runs on GPUs, whose factors are there, have the values of those in memory."""
    for name, values in alone.items():
        assert all(found[name]["tensors"]), name
        limit = 1e-10 * values[0]
        np.testing.assert_allclose(found[name]["values"], values, rtol=0, atol=limit, err_msg=name)


def together(group: Group) -> dict[str, Any]:
    """What each process finds out."""
    with standing_in():
        cost = rf.Completion.from_observed(share(data_of(), group))
        found = {name: ran(cost, solver) for name, solver in RUNS.items()}
        return found | {"model": model_of(group, "cuda") if HAS_GPU else None, "place": str(cost.store.place)}


def with_nccl(backend: str = "nccl", device: str = "cuda:0") -> dict[str, Any]:
    """The same by NCCL, which has one process to a GPU: one that sends to itself."""
    import torch.distributed as dist

    class Lonely(Group):
        alone = False

    store = dist.HashStore()
    dist.init_process_group(backend, store=store, rank=0, world_size=1)
    try:
        return together(Lonely(store=dist.PrefixStore("notes", store), device=device))
    finally:
        dist.destroy_process_group()
