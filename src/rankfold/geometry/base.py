"""What a search space is to the rest of the library."""

from __future__ import annotations

from typing import Any

from rankfold.linalg import Array

Point = Any
Tangent = Any


class Geometry:
    """Placeholder."""
