"""What the first fit of a process costs beside its second: compiling, or loading what was compiled.

    python -m benchmarks.first_use

A rank-5 fit in float64, in a process that finds no compiled kernels, and in five that find them. The packages
we depend on are imported first, and timed apart.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import numpy as np

SCRIPT = """
from time import perf_counter as now
began = now()
import numpy, numba, scipy.sparse.linalg
imported = now()
import rankfold as rf
ours = now()
data = rf.data.random_completion((300, 200), 5, 6, seed=0)
def fit():
    cost = rf.Completion.from_triples(data)
    rf.minimize(rf.Problem.of(cost, rank=5), tolerance=1e-20)
started = now()
fit()
once = now()
fit()
twice = now()
print(imported - began, ours - imported, once - started - (twice - once), twice - once)
"""


def process(folder):
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    output = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, check=True, text=True
    )
    return [float(part) for part in output.stdout.split()]


def main():
    with tempfile.TemporaryDirectory() as folder:
        cold, *warm = (process(folder) for _ in range(6))
    imports, ours, load, again = np.median(warm, axis=0)
    print(f"imports of NumPy, SciPy and numba {imports:.2f} s, `import rankfold` {ours:.3f} s")
    print(f"first fit less the second: {cold[2]:.1f} s cold, {load:.2f} s once cached (second {again:.2f} s)")


if __name__ == "__main__":
    main()
