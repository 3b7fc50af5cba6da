"""The package as a whole: its names, and how light it is to import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rankfold as rf


def test_every_public_name_is_found_and_listed():
    assert {"Completion", "MatrixCompletion", "data", "minimize", "stopping"} <= set(rf.__all__)
    for name in rf.__all__:
        assert getattr(rf, name) is not None
        assert name in dir(rf)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = rf.Nothing


@pytest.mark.parametrize("statement", ["import rankfold", "import rankfold.cli"])
def test_nothing_heavy_is_imported_before_it_is_used(statement):
    code = f"{statement}; import sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = {"numba", "scipy", "sklearn", "pyarrow", "torch", "matplotlib", "pandas", "numpy"}
    assert not heavy & set(loaded.split())
