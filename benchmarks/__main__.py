"""All benchmarks, one after the other: `python -m benchmarks`."""

import runpy
import sys

ALL = (
    ["geometry"],
    ["kernels"],
    ["iteration", "--threads", "1,2"],
    ["metric"],
    ["solvers", "--peers"],
    ["first_use"],
    ["choose"],
)
for name, *options in ALL:
    print(f"\n== benchmarks.{name}")
    sys.argv = [name, *options]
    runpy.run_module(f"benchmarks.{name}", run_name="__main__")
