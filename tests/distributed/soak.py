"""Processes killed at random moments: `PYTHONPATH=tests:src python -m distributed.soak --kills 20`.

After each kill the others must end with an error within a minute, no half file may be left, and the run must
go on to the same bits as one that was never killed. With --torchrun, torchrun starts it again by itself.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed.launching import LIMIT, forks, found, variables, words
from distributed.tasks import Tasks
from distributed.threads import on_threads

SIZE, TASK, AGAIN = 2, "task:endless", "task:at once"


@dataclass(frozen=True)
class Report:
    """What a killed run left, how long the others took to end, and what it came to in the end."""

    found: Any
    waited: float
    said: str
    half_files: list[str]


def uninterrupted(folder: Path) -> Any:
    """Return what the run comes to if nobody disturbs it, in threads: the same bits."""
    folder.mkdir()
    return on_threads(SIZE, lambda group: Tasks(group, folder).at_once())[0]


def killed_and_resumed(folder: Path, victim: int, moment: float) -> Report:
    """Kill one process so long after the first checkpoint, and start the run again."""
    groups = {"size": SIZE, "tasks": [TASK], "may fail": True}, {"size": SIZE, "tasks": [AGAIN]}
    with forks(folder, *groups) as parent:
        _until(lambda: (folder / "run" / "manifest.json").exists(), [parent])
        time.sleep(moment)
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        os.kill(int(children[victim]), signal.SIGKILL)
        began = time.monotonic()
        _until(lambda: (folder / "ended-0").exists(), [parent])
        waited = time.monotonic() - began
        assert parent.wait(LIMIT) == 0, words(SIZE, folder)
    half = [path.name for path in (folder / "run").rglob("*.tmp")]
    return Report(found(folder, SIZE)[0][AGAIN], waited, words(SIZE, folder), half)


def restarted(folder: Path, moment: float) -> Any:
    """Kill a worker of torchrun, which starts all of them again; return what the run comes to."""
    folder.mkdir()
    env = {name: text for name, text in variables(SIZE).items() if name not in ("WORLD_SIZE", "MASTER_PORT")}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(SIZE)]
    command += ["--max-restarts", "2", "-m", "distributed.worker", str(folder), TASK]
    with (folder / "words").open("wb") as file:
        agent = subprocess.Popen(command, env=env, cwd=folder, stdout=file, stderr=file)
    try:
        _until(lambda: (folder / "run" / "manifest.json").exists(), [agent])
        time.sleep(moment)
        children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
        os.kill(int(children[-1]), signal.SIGKILL)
        code = agent.wait(LIMIT)
    finally:
        if agent.poll() is None:
            agent.kill()
    assert code == 0, (folder / "words").read_text()
    return found(folder, SIZE)[0][TASK]


def _until(condition: Any, processes: list[Any]) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "no checkpoint was written"
        assert all(process.poll() is None for process in processes), "a process has ended"
        time.sleep(0.01)


def main() -> None:
    """Kill and resume, as often as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--torchrun", action="store_true")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        whole = uninterrupted(Path(folder) / "whole")
        for k in range(options.kills):
            place, moment = Path(folder) / str(k), rng.uniform(0, 2.5)
            if options.torchrun:
                assert restarted(place, moment) == whole
                print(
                    f"{k + 1}: killed after {moment:.2f} s, started again by torchrun: same bits", flush=True
                )
                continue
            report = killed_and_resumed(place, rng.randrange(SIZE), moment)
            assert report.found == whole, report
            assert report.waited < 60, report
            assert not report.half_files, report
            print(
                f"{k + 1}: killed after {moment:.2f} s, ended {report.waited:.1f} s later: same bits",
                flush=True,
            )


if __name__ == "__main__":
    main()
