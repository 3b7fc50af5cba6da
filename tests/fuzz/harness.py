"""Reading mutated files in child processes with limits: only documented errors, no crash, no hang.

A `Fuzzer` says what is read, and which errors are documented. `run_cases` reads case after case in a forked
child, where each has 2 s of processor time and 300 MB beyond the size of its file. The kernel keeps the
time: it ends a child whose case takes more, so that code which never comes back to Python is ended too. A
child that dies, by this or by a crash, costs one case; the next child goes on behind it.

To add a fuzzer, write a module `fuzz_*.py` in this folder with a list `FUZZERS`. Case k of a seed is the
same on every machine. Files of its corpus (`corpus/<name>/`) are read first: put there, or into a test, each
case that was mended.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from fuzz.mutator import Mutator

SECONDS = 2.0  # of processor time, of all threads together: a busy machine is no defect
MEMORY = 300 << 20  # bytes beyond the size of the file, resident
ADDRESSES = 2 << 30  # bytes that may be asked for and not used, before the system refuses
PATIENCE = 60.0  # seconds without a sign of life, for a child that waits instead of working
BATCH = 1000  # cases of one child, so that what it collects over time is given back
ENOUGH = 20  # failures after which a run ends
CORPUS = Path(__file__).parent / "corpus"

Case = tuple[str, bytes]  # what it is called, and the content of the file


@dataclass(frozen=True)
class Fuzzer:
    """One kind of file under attack."""

    name: str  # also of the folder of its corpus
    seeds: Callable[[], Sequence[bytes]]  # valid files, which must be read without an error
    read: Callable[[Path], Any]  # what is under attack; it may assert what must hold of the result
    allowed: tuple[type[BaseException], ...]  # the documented errors; what they say must name the file
    suffix: str = ""  # the ending of the file
    # changes that know the format, of one of the seeds: what blind ones seldom reach, as behind a checksum
    change: Callable[[random.Random, bytes], bytes] | None = None
    words: tuple[bytes, ...] = ()  # words of the format, for blind changes

    def cases(self, count: int, seed: int = 0) -> Iterator[Case]:
        """Yield `count` mutated files."""
        seeds = self.seeds()
        mutator = Mutator(seeds, self.words)
        for number in range(count):
            rng = random.Random(f"{self.name} {seed} {number}")
            data = rng.choice(seeds)
            known = self.change is not None and rng.random() < 0.5
            yield f"{seed}-{number}", self.change(rng, data) if known else mutator.mutate(rng, data)

    def corpus(self) -> Iterator[Case]:
        """Yield the cases that once failed."""
        for path in sorted((CORPUS / self.name).glob("*")):
            yield path.name, path.read_bytes()


@dataclass
class Outcome:
    """How many files were read, how many refused with a documented error, and the failures."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[Case, str]] = field(default_factory=list)


def fuzz(fuzzer: Fuzzer, count: int, seed: int = 0) -> Outcome:
    """Read the seeds, the corpus and `count` mutated files."""
    seeds = [(f"valid-{k}", data) for k, data in enumerate(fuzzer.seeds())]
    found = run_cases(fuzzer.read, seeds, (), fuzzer.suffix)
    if found.failures:
        return found
    cases = chain(fuzzer.corpus(), fuzzer.cases(count, seed))
    return run_cases(fuzzer.read, cases, fuzzer.allowed, fuzzer.suffix, warm=[data for _, data in seeds])


def run_cases(
    read: Callable[[Path], Any],
    cases: Iterable[Case],
    allowed: tuple[type[BaseException], ...],
    suffix: str = "",
    warm: Sequence[bytes] = (),
) -> Outcome:
    """Read each case in a child with limits.

    Files of `warm` are read before, without limits: what they import or compile is not the cases' doing.
    """
    outcome, waiting = Outcome(), iter(cases)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"case{suffix}"
        while len(outcome.failures) < ENOUGH:
            batch = list(islice(waiting, BATCH))
            if not batch:
                break
            while batch and len(outcome.failures) < ENOUGH:
                batch = _in_child(_Attack(read, allowed, path, warm), batch, outcome)
    return outcome


@dataclass(frozen=True)
class _Attack:
    read: Callable[[Path], Any]
    allowed: tuple[type[BaseException], ...]
    path: Path
    warm: Sequence[bytes]


def _in_child(attack: _Attack, batch: list[Case], outcome: Outcome) -> list[Case]:
    """Read cases in one child; return those behind the one that it died of."""
    source, sink = os.pipe()
    with warnings.catch_warnings():  # Python 3.12 warns of threads here; the child needs none of them
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(source)
        _work(attack, batch, sink)
    os.close(sink)
    done = 0
    with os.fdopen(source, encoding="utf-8") as lines:  # it ends when the child does
        for case, line in zip(batch, lines, strict=False):
            verdict = json.loads(line)
            good = verdict in ("read", "refused")
            outcome.counts[verdict if good else "failed"] += 1
            if not good:
                outcome.failures.append((case, verdict))
            done += 1
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if done == len(batch):
        return []
    outcome.counts["failed"] += 1
    outcome.failures.append((batch[done], _death(code)))
    return batch[done + 1 :]


def _death(code: int) -> str:
    if code == -signal.SIGPROF:
        return f"takes more than {SECONDS:g} s of processor time"
    if code == -signal.SIGALRM:
        return f"waits for more than {PATIENCE:g} s"
    return f"dies by {signal.Signals(-code).name}" if code < 0 else f"ends the process with code {code}"


def _work(attack: _Attack, batch: list[Case], sink: int) -> None:
    """Be the child: read each case and write a line about it."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for data in attack.warm:
            attack.path.write_bytes(data)
            attack.read(attack.path)
        resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + ADDRESSES,) * 2)
        warnings.simplefilter("error")  # a file is no reason for NumPy to complain about its user's code
        for _, data in batch:
            attack.path.write_bytes(data)
            os.write(sink, json.dumps(_verdict(attack, len(data))).encode() + b"\n")
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _verdict(attack: _Attack, size: int) -> str:
    """Read one file within the limits."""
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest memory so far
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        attack.read(attack.path)
        verdict = "read"
    except attack.allowed as error:
        verdict = "refused"
        if attack.path.name not in str(error):
            verdict = f"the error names no file: {error!r}"[:2000]
    except BaseException:
        verdict = f"raises {traceback.format_exc()[-2000:]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    taken = _status("VmHWM") - before
    if taken > MEMORY + size:
        return f"takes {taken >> 20} MB for a file of {size} bytes ({verdict})"
    return verdict


def _status(name: str) -> int:
    """Return a size of this process, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) << 10
