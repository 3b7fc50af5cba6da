"""All benchmarks, one after the other: `python -m benchmarks`."""

import runpy

for name in ("geometry", "kernels", "solvers"):
    print(f"\n== benchmarks.{name}")
    runpy.run_module(f"benchmarks.{name}", run_name="__main__")
