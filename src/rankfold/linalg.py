"""Dense linear algebra for tall (d×r) and small (r×r) matrices, on any array-API backend."""
from __future__ import annotations

from typing import Any

Array = Any  # an array of any array-API namespace
