"""How processes that were started together find each other."""

from __future__ import annotations

import atexit
import os
from datetime import timedelta
from typing import Any

import numpy as np

from rankfold.distributed.collectives import ROOM, TIMEOUT, RanksError
from rankfold.distributed.group import Group
from rankfold.distributed.wire import the_torch


def start(
    timeout: float = TIMEOUT, backend: str | None = None, wire: Any = None, room: float | None = None
) -> Group:
    """Join the processes that torchrun, Slurm or whoever has started; without any, be the only one.

    Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (or Slurm's SLURM_PROCID and SLURM_NTASKS).

    Parameters
    ----------
    timeout
        Seconds to wait for the others in one exchange, after which the run ends with an error.
    backend
        "gloo" or "nccl"; if None, NCCL where every process has a GPU, else gloo.
    wire
        "float32" to send half the bytes, see `Group`.
    room
        Bytes of R that each process may keep from one pass to the next, see `Group`. If None, a quarter of
        what a process has of its machine's memory, where that is least, and at least 1 GB.

    Examples
    --------
    >>> from rankfold.distributed import start
    >>> group = start()  # of a process that nobody else was started with
    >>> group.rank, group.size
    (0, 1)
    """
    variables = os.environ
    rank = int(variables.get("RANK", variables.get("SLURM_PROCID", "0")))
    size = int(variables.get("WORLD_SIZE", variables.get("SLURM_NTASKS", "1")))
    wire = None if wire is None else np.dtype(wire)
    if size == 1:
        return Group(wire=wire, timeout=timeout, room=ROOM if room is None else room)
    if "MASTER_ADDR" not in variables or "MASTER_PORT" not in variables:
        raise RanksError(
            f"there are {size} processes, and MASTER_ADDR and MASTER_PORT do not say where they meet: set "
            "both, or let torchrun start them"
        )
    torch = the_torch()
    import torch.distributed as dist

    backend = backend or ("nccl" if torch.cuda.device_count() >= _neighbours(size) else "gloo")
    device = "cpu"
    if backend == "nccl":
        device = own_gpu()
        torch.cuda.set_device(device)
    store = _meeting_place(rank, size, timeout)
    limit = timedelta(seconds=timeout)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=limit)
    notes = dist.PrefixStore("rankfold", store)
    group = Group(rank, size, notes, device, wire, timeout, ROOM if room is None else room)
    if backend == "gloo":
        group.downward = dist.new_group(timeout=limit)
    if room is None:
        group.room = -group.most(-_roomy(_neighbours(size)))
    atexit.register(group.leave)  # threads of gloo that live on would abort a process that ends
    return group


def own_gpu() -> str:
    """Return torch's name of the GPU of this process: those of a machine in turn, by its number there."""
    number = int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0")))
    return f"cuda:{number % max(the_torch().cuda.device_count(), 1)}"


def _roomy(neighbours: int) -> float:
    """Return a quarter of what each of so many processes has of this machine's memory, if that is known."""
    if not hasattr(os, "sysconf"):
        return ROOM
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(memory / (4 * neighbours), ROOM)


def _neighbours(size: int) -> int:
    """Return how many processes a machine has, as torchrun or Slurm ("2(x4)") say; else all of them."""
    told = os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("SLURM_TASKS_PER_NODE", str(size)))
    return int(told.partition("(")[0].partition(",")[0])


def _meeting_place(rank: int, size: int, timeout: float) -> Any:
    """Where processes find each other: torchrun's own store, or one that the first of them keeps.

    Under a name of its own after each restart: what torchrun keeps has the addresses of processes that died.
    """
    import torch.distributed as dist

    kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = dist.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        size,
        is_master=rank == 0 and not kept,
        timeout=timedelta(seconds=timeout),
    )
    return dist.PrefixStore(f"restart {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
