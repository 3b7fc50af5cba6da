"""A second process finds every kernel on disk, unless something that it calls has changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import rankfold as rf
from rankfold.kernels import compiling, line_blocks, polynomial, sweeps

SCRIPT = """
import numpy as np
from rankfold.costs import Completion
from rankfold.entries.block_groups import UnformedBlocks
from rankfold.kernels import line_blocks, sorting, sweeps, tall
from rankfold.linalg import primitives

rng = np.random.default_rng(0)
where = rng.choice(400, 200, replace=False)
cost = Completion(where // 20, where % 20, rng.standard_normal(200), (20, 20))
L, R = rng.standard_normal((2, 20, 2))
cost.value(L, R)
cost.line_blocks(L, R)
A = rng.standard_normal((10_000, 2))
primitives.grams([(A, A)])
primitives.sums([(A, np.eye(2))])
value = sweeps.evaluation(8, 0, False, few=True).func  # which rank 2 shares with others
blocks = line_blocks.blocks(8, 0, False, few=True).func
of_columns = cost.store.counts[1]
UnformedBlocks(cost.store.by_row, R, 1.0, of_columns).inverted(1.0, np.ones(2), 0.0)
inverses = line_blocks.formed_and_inverted(2)
of_sorting = sorting._count, sorting._split, sorting._append
kernels = value, blocks, inverses, tall.grams(2), tall.sums(2), *of_sorting
print(*(sum(kernel.stats.cache_misses.values()) for kernel in kernels))
"""

NO_CACHE = """
import numpy as np
import rankfold as rf
print(rf.__file__, rf.Completion([0], [0], [1.0], (1, 1)).value(np.zeros((1, 1)), np.zeros((1, 1))))
"""


def copied(folder, copy):
    """Copy a folder of the library without its caches. The copy may be changed, whatever the library may."""
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile)
    for place in (copy, *filter(Path.is_dir, copy.rglob("*"))):
        place.chmod(0o755)
    return copy


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
    assert second == ["0"] * 8


def test_few_entries_have_one_kernel_for_all_built_in_losses_and_weights():
    for make in (sweeps.evaluation, sweeps.derivative):
        assert make(8, 0, False, True, few=True).func is make(8, 3, True, False, few=True).func
        assert make(8, 0, False, True, few=True).func is not make(8, 0, False, True).func
    for make in (sweeps.slopes, line_blocks.blocks):
        assert make(8, 0, False, few=True).func is make(8, 3, True, few=True).func
        assert make(8, 0, False).func is not make(8, 3, False).func
    one = polynomial.coefficients(8, 2, 2, False, False, few=True)
    assert one.func is polynomial.coefficients(8, 2, 2, True, False, few=True).func
    assert one.func is not polynomial.coefficients(8, 2, 2, False, False).func


def test_the_name_on_disk_changes_with_any_file_of_the_folder(tmp_path):
    kernel = sweeps.evaluation(3, 0, False, partials=False).func
    assert compiling.SOURCES in kernel._cache._cache_file._index_path
    folder = copied(Path(compiling.__file__).parent, tmp_path / "kernels")
    before = compiling.fingerprint(folder)
    assert compiling.SOURCES.startswith(before)
    found = {before}
    for path in sorted(folder.glob("*.py")):
        path.write_bytes(path.read_bytes() + b"# changed\n")
        found.add(compiling.fingerprint(folder))
    (folder / "layout.py").rename(folder / "renamed.py")
    found.add(compiling.fingerprint(folder))
    assert len(found) == len(list(folder.glob("*.py"))) + 2


def test_without_a_place_for_the_cache_kernels_are_compiled_all_the_same(tmp_path):
    """As in a read-only installation without a home: files stand where folders would have to be made."""
    package = copied(Path(rf.__file__).parent, tmp_path / "rankfold")
    (package / "kernels" / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    nowhere = {name: str(tmp_path / "home") for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA")}
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {**os.environ, **nowhere, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", NO_CACHE], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(package / "__init__.py"), "1.0"]
    assert done.stderr.count("set NUMBA_CACHE_DIR to a folder that can be written to") == 1
