"""Several processes on this machine, as torchrun would start them: each does the same tasks, and tells."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rankfold

TESTS = Path(__file__).parents[1]
LIMIT = 300  # seconds: for a machine that is busy, not for a hang


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def variables(size: int) -> dict[str, str]:
    """Return what torchrun would set, but for the rank."""
    return {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "WORLD_SIZE": str(size),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "PYTHONPATH": os.pathsep.join(
            [
                str(TESTS),
                str(Path(rankfold.__file__).parents[1]),
                *filter(None, [os.environ.get("PYTHONPATH")]),
            ]
        ),
    }


def words(size: int, folder: Path) -> str:
    """Return what all have said."""
    return "\n".join((folder / f"words-{rank}").read_text() for rank in range(size))


def on_ranks(size: int, folder: Path, *tasks: str) -> list[dict[str, Any]]:
    """Return what each process found out of each task."""
    in_turn(folder, {"size": size, "tasks": tasks})
    return found(folder, size)


def in_turn(folder: Path, *groups: dict[str, Any]) -> None:
    """Let processes of one group after another do what they are to."""
    with forks(folder, *groups) as parent:
        assert parent.wait(LIMIT) == 0, words(max(group["size"] for group in groups), folder)


@contextlib.contextmanager
def forks(folder: Path, *groups: dict[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that imports for all, and becomes one group after another; none is left behind.

    A group has a `size`, and does `tasks`, or is a `command`, whose words go to a `folder` of their own; one
    that `may fail` does not end it.
    """
    env = {name: text for name, text in variables(groups[0]["size"]).items() if name != "RANK"}
    env["GROUPS"] = json.dumps([{"port": free_port(), **group} for group in groups])
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "distributed.worker", str(folder)]
    parent = subprocess.Popen(command, env=env, cwd=folder, start_new_session=True)
    try:
        yield parent
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()


def found(folder: Path, size: int) -> list[Any]:
    """Return what each process of a group wrote down."""
    return [pickle.loads((folder / f"found-{rank}-of-{size}").read_bytes()) for rank in range(size)]
