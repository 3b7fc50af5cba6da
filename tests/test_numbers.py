"""Every number that was tuned, and every default: whoever changes one means it, and writes the table again.

    PYTHONPATH=src python tests/test_numbers.py

Most were found by measuring, and a user sees each: in what is chosen, in how long it takes, in when it stops.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np
import pytest

TABLE = Path(__file__).parent / "golden" / "numbers.txt"
ROOMS = ("costs", "data", "estimators", "geometry", "kernels", "run", "selection", "solvers")
PLAIN = bool, int, float, str, np.generic, type(None)
# What differs between machines or commits.
OF_THE_MACHINE = {"SOURCES", "HAS_GPU", "INTERPRETED"}


def modules() -> Iterator[ModuleType]:
    for room in ROOMS:
        package = importlib.import_module(f"rankfold.{room}")
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)


def is_plain(value: object) -> bool:
    """Whether it is a number, a word, or a tuple of such: its text is the same everywhere."""
    return isinstance(value, PLAIN) or (isinstance(value, tuple) and all(map(is_plain, value)))


def text(value: object) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


def constants(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        is_constant = name.isupper() and name not in OF_THE_MACHINE
        if is_constant and is_plain(value) and f"\n{name}" in f"\n{inspect.getsource(module)}":
            yield f"{module.__name__}.{name} = {text(value)}"


def defaults(module: ModuleType) -> Iterator[str]:
    """Yield the defaults of functions, methods and fields that a module defines."""
    own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    for owner in own:
        inside = list(vars(owner).values()) if inspect.isclass(owner) else [owner]
        for function in (getattr(member, "__func__", member) for member in inside):
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                yield from of_parameters(f"{module.__name__}.{function.__qualname__}", function)
        if dataclasses.is_dataclass(owner) and inspect.isclass(owner):
            for field in dataclasses.fields(owner):
                if is_plain(field.default):
                    yield f"{module.__name__}.{owner.__qualname__}.{field.name} = {text(field.default)}"


def of_parameters(name: str, function: FunctionType) -> Iterator[str]:
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not parameter.empty and is_plain(parameter.default):
            yield f"{name}({parameter.name}={text(parameter.default)})"


def found() -> list[str]:
    return sorted({line for module in modules() for line in (*constants(module), *defaults(module))})


def test_numbers_and_defaults_are_those_of_the_table():
    pytest.importorskip("triton")
    table = set(TABLE.read_text(encoding="utf-8").splitlines())
    assert len(table) > 500  # what is not in it yet, because its name is new, is left to its own tests
    missing = table - set(found())
    assert not missing, "what was so is so no more: if that is meant, write the table again"


if __name__ == "__main__":
    TABLE.write_text("\n".join(found()) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(found())} lines\n")
