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
        "PYTHONPATH": os.pathsep.join([str(TESTS), str(Path(rankfold.__file__).parents[1])]),
    }


def started(
    size: int, folder: Path, *arguments: str, module: str = "distributed.worker"
) -> list[subprocess.Popen[bytes]]:
    """Start `size` processes of a module, whose words go to files in `folder`."""
    folder.mkdir(exist_ok=True)
    given = variables(size)
    command = [sys.executable, "-m", module, *arguments]
    processes = []
    for rank in range(size):
        with (folder / f"words-{rank}").open("wb") as words:
            env = given | {"RANK": str(rank)}
            processes.append(subprocess.Popen(command, env=env, cwd=folder, stdout=words, stderr=words))
    return processes


def ended(processes: list[subprocess.Popen[bytes]], limit: float = LIMIT) -> list[int]:
    """Wait for all, and return how they ended; none is left behind."""
    try:
        return [process.wait(limit) for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def words(size: int, folder: Path) -> str:
    """Return what all have said."""
    return "\n".join((folder / f"words-{rank}").read_text() for rank in range(size))


def on_ranks(size: int, folder: Path, *tasks: str) -> list[dict[str, Any]]:
    """Return what each process found out of each task."""
    return in_turn(folder, (size, tasks))[0]


def in_turn(folder: Path, *groups: tuple[int, tuple[str, ...]]) -> list[list[dict[str, Any]]]:
    """Return what processes of one group after another found; all are forks of one, which imports for all."""
    command = [sys.executable, "-m", "distributed.worker", str(folder)]
    size = max(size for size, _ in groups)
    given = [{"size": size, "port": free_port(), "tasks": tasks} for size, tasks in groups]
    env = {name: text for name, text in variables(size).items() if name != "RANK"}
    env["GROUPS"] = json.dumps(given)
    folder.mkdir(exist_ok=True)
    parent = subprocess.Popen(command, env=env, cwd=folder, start_new_session=True)
    try:
        assert parent.wait(LIMIT) == 0, words(size, folder)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()
    return [[found(folder, rank, size) for rank in range(size)] for size, _ in groups]


def found(folder: Path, rank: int, size: int) -> Any:
    """Return what a process wrote down."""
    return pickle.loads((folder / f"found-{rank}-of-{size}").read_bytes())
