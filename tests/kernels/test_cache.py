"""A second process finds every kernel on disk, unless something that it calls has changed."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from rankfold.kernels import compiling, sweeps

FOLDER = Path(compiling.__file__).parent
IMPORTED = re.compile(r"^from rankfold\.kernels(?: import (\w+)|\.(\w+) import)", re.MULTILINE)

SCRIPT = """
import numpy as np
from rankfold.costs import Completion
from rankfold.kernels import sorting, sweeps

rng = np.random.default_rng(0)
where = rng.choice(400, 200, replace=False)
cost = Completion(where // 20, where % 20, rng.standard_normal(200), (20, 20))
L, R = rng.standard_normal((2, 20, 2))
cost.value(L, R)
kernels = sweeps.value(2, 0, False), sorting._count, sorting._split, sorting._sort_buckets
print(*(sum(kernel.stats.cache_misses.values()) for kernel in kernels))
"""


def test_kernels_are_cached_between_processes(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    misses = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    first, second = misses
    assert "0" not in first
    assert second == ["0"] * 4


def sources_of(folder):
    """SOURCES, as a module of that folder computes it."""
    spec = importlib.util.spec_from_file_location("compiling_in_a_copy", folder / "compiling.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SOURCES


def called_by_kernels():
    """The files of the package whose functions are compiled into a kernel of another file."""
    for path in FOLDER.glob("*.py"):
        text = path.read_text()
        if "import compiled\n" in text:
            for several, one in re.findall(
                r"^from rankfold\.kernels(?: import (\w+)|\.(\w+) import)", text, re.M
            ):
                yield f"{several or one}.py"


def test_the_name_on_disk_changes_with_what_kernels_call(tmp_path):
    kernel = sweeps.value(3, 0, False)
    assert compiling.SOURCES in kernel._cache._cache_file._index_path
    folder = shutil.copytree(FOLDER, tmp_path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    seen = {sources_of(folder)}
    assert seen == {compiling.SOURCES}
    helpers = set(called_by_kernels()) - {"compiling.py", "pool.py"}
    assert helpers >= {"chunks.py", "formulas.py", "registers.py"}
    for count, name in enumerate(sorted(helpers), start=2):
        with (folder / name).open("a") as file:
            file.write("# changed\n")
        seen.add(sources_of(folder))
        assert len(seen) == count, name
