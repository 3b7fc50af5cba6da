"""rankfold: optimisation over low-rank matrices.

The public names stand in `__init__.pyi`, once, for type checkers and for this module alike. Each is imported
when first used, so that `import rankfold` stays light.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from rankfold._version import __version__ as __version__


def _public_names() -> dict[str, str]:
    """Return the module of each name that the stub imports."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8"))
    lines = [line for line in stub.body if isinstance(line, ast.ImportFrom)]
    return {name.name: str(line.module) for line in lines for name in line.names}


_HOMES = _public_names()
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rankfold' has no attribute {name!r}")
    home = _HOMES[name]
    # A name such as `data` is a module, which its package holds only once it has been imported.
    value = vars(import_module(home)).get(name) or import_module(f"{home}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
