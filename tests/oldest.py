"""The floors of pyproject.toml as exact requirements: `python tests/oldest.py` prints them, one a line.

`make test-oldest` installs these and runs a part of the tests, so that what is promised to work does.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
_FLOOR = re.compile(r"^([\w.\[\]-]+)>=([\w.]+)")
# What the part of the tests that runs there needs beside the library.
TESTED_WITH = ("array-api-strict", "hypothesis", "matplotlib", "pandas", "pytest")


def pinned(requirement: str) -> str:
    """Return a requirement "name>=version" as "name==version"."""
    found = _FLOOR.match(requirement)
    if found is None:
        raise ValueError(f"{requirement!r} in pyproject.toml has no floor: write name>=version")
    return f"{found[1]}=={found[2]}"


def floors() -> list[str]:
    """Return the floors of the library and of what its tests need."""
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    extra = project["optional-dependencies"]["test"]
    tests = [line for line in extra if line.partition(">=")[0] in TESTED_WITH]
    return [pinned(line) for line in [*project["dependencies"], *tests]]


if __name__ == "__main__":
    print("\n".join(floors()))
