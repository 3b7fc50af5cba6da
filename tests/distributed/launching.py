"""Several processes on this machine, as torchrun would start them: each does the same tasks, and tells."""

from __future__ import annotations

import contextlib
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


def variables(size: int) -> dict[str, str]:
    """Return what torchrun would set, but for the rank."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
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
    """Return what each process found out of each task; they are forks of one, which imports for all."""
    command = [sys.executable, "-m", "distributed.worker", str(folder), *tasks]
    env = {name: text for name, text in variables(size).items() if name != "RANK"}
    folder.mkdir(exist_ok=True)
    parent = subprocess.Popen(command, env=env, cwd=folder, start_new_session=True)
    try:
        assert parent.wait(LIMIT) == 0, words(size, folder)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()
    return [pickle.loads((folder / f"found-{rank}").read_bytes()) for rank in range(size)]
