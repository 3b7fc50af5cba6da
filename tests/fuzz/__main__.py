"""Run the fuzzers of this folder.

PYTHONPATH=tests python -m fuzz --count 20000 --seed 1 npz mtx
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from time import perf_counter

from fuzz import harness
from fuzz.harness import Fuzzer, Outcome, fuzz


def fuzzers() -> dict[str, Fuzzer]:
    """Return the fuzzers of every module of this folder, by name."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob("fuzz_*.py"))
    return {one.name: one for module in modules for one in import_module(f"fuzz.{module}").FUZZERS}


def main(words: list[str]) -> int:
    """Run the fuzzers that are named, or all; return how many of them failed."""
    known = fuzzers()
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(known)}; by default all")
    parser.add_argument("--count", type=int, default=1000, help="mutated files of each kind")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other files")
    parser.add_argument("--seconds", type=float, default=harness.SECONDS, help="of processor time, for each")
    options = parser.parse_args(words)
    harness.SECONDS = options.seconds
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"no fuzzer is called {unknown[0]}; there are {', '.join(known)}")
    return sum(_run(known[name], options.count, options.seed) for name in options.names or known)


def _run(fuzzer: Fuzzer, count: int, seed: int) -> bool:
    began = perf_counter()
    outcome = fuzz(fuzzer, count, seed)
    counts = ", ".join(f"{number:,} {word}" for word, number in sorted(outcome.counts.items()))
    print(f"{fuzzer.name}: {counts}; {perf_counter() - began:.0f} s", flush=True)
    _show(fuzzer, outcome)
    return bool(outcome.failures)


def _show(fuzzer: Fuzzer, outcome: Outcome) -> None:
    folder = tempfile.mkdtemp(prefix=f"fuzz-{fuzzer.name}-") if outcome.failures else ""
    for (name, data), verdict in outcome.failures:
        path = Path(folder) / f"{name}{fuzzer.suffix}"
        path.write_bytes(data)
        print(f"{path} ({len(data)} bytes) {verdict}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
