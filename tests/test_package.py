"""The package as a whole: its names, and how light it is to import."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import rankfold as rf

ROOT = Path(__file__).parents[1]


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


def test_every_public_name_stands_on_the_api_page():
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    listed = set(re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE))
    packages = {name for name in rf.__all__ if isinstance(getattr(rf, name), ModuleType)}
    missing = [name for name in set(rf.__all__) - packages if f"rankfold.{name}" not in listed]
    assert not missing
    for package in packages:  # the page has the package as a whole, or each of its own names
        names = getattr(getattr(rf, package), "__all__", ())
        whole = f"rankfold.{package}" in listed
        assert whole or {f"rankfold.{package}.{name}" for name in names} <= listed, package


def test_every_public_name_has_types():
    """What is called says what it takes and returns."""
    for name in rf.__all__:
        public = getattr(rf, name)
        if isinstance(public, FunctionType):
            parameters = inspect.signature(public).parameters.values()
            untyped = [parameter.name for parameter in parameters if parameter.annotation is parameter.empty]
            assert not untyped, (name, untyped)
            assert inspect.signature(public).return_annotation is not inspect.Signature.empty, name
