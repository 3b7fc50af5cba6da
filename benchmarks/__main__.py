"""All benchmarks, one after the other: `python -m benchmarks`."""

import runpy
import sys

for name, *options in (["geometry"], ["kernels"], ["solvers", "--peers"], ["choose"]):
    print(f"\n== benchmarks.{name}")
    sys.argv = [name, *options]
    runpy.run_module(f"benchmarks.{name}", run_name="__main__")
