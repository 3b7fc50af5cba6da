"""Defaults of the public interface are part of its contract: whoever changes one means it, and says so here.

    PYTHONPATH=src python tests/test_public_defaults.py

writes the table again. Constants within the package are not in it: what they do is tested where it is done.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import rankfold as rf

TABLE = Path(__file__).parent / "golden" / "defaults.txt"
PLAIN = bool, int, float, str, type(None)


def is_plain(value: object) -> bool:
    """Whether it is a number, a word, or a tuple of such: its text is the same everywhere."""
    return isinstance(value, PLAIN) or (isinstance(value, tuple) and all(map(is_plain, value)))


def public() -> Iterator[tuple[str, Any]]:
    """Yield the functions and classes of the library, and the public methods of these classes."""
    for name in rf.__all__:
        value = getattr(rf, name)
        inside = vars(value) if isinstance(value, (type, ModuleType)) else {}
        own = {key: member for key, member in inside.items() if not key.startswith("_")}
        for key, member in [(name, value), *((f"{name}.{key}", own[key]) for key in own)]:
            function = getattr(member, "__func__", member)
            is_ours = getattr(function, "__module__", "").startswith("rankfold")
            is_of_python = isinstance(function, type) and issubclass(function, (Exception, Enum))
            if callable(function) and is_ours and not is_of_python:
                yield key, function


def found() -> list[str]:
    return sorted(
        f"{name}({parameter.name}={parameter.default!r})"
        for name, function in public()
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is not parameter.empty and is_plain(parameter.default)
    )


def test_the_defaults_are_those_of_the_table():
    assert found() == TABLE.read_text(encoding="utf-8").splitlines(), "is that meant? Then write it again"


def overridden() -> Iterator[tuple[str, Any, Any]]:
    """Yield each parameter of a method that overrides another, with its default and that of the other."""
    names = [m.name for m in pkgutil.walk_packages(rf.__path__, "rankfold.") if "__main__" not in m.name]
    values = (value for name in names for value in vars(importlib.import_module(name)).values())
    for kind in {value for value in values if isinstance(value, type)}:
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            others = [vars(base).get(name) for base in kind.__mro__[1:]]
            other = next(filter(inspect.isfunction, others), None)
            if (
                name != "__init__"
                and name in vars(kind)
                and other
                and method.__module__.startswith("rankfold")
            ):
                defaults = [inspect.signature(function).parameters for function in (method, other)]
                for parameter in defaults[0].keys() & defaults[1].keys():
                    own, due = (of[parameter].default for of in defaults)
                    yield f"{kind.__qualname__}.{name}({parameter})", own, due


def test_a_method_has_the_defaults_of_the_one_it_overrides():
    """Whichever cost, solver or store is at hand: `start(rank)` means the same seed, say."""
    found = list(overridden())
    assert len(found) > 500
    different = {name for name, own, due in found if own != due and inspect.Parameter.empty is not own}
    assert different == {"_ModelPacker.pack(where)"}  # a word of its messages


if __name__ == "__main__":
    TABLE.write_text("\n".join(found()) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(found())} lines\n")
