"""When runs on several processes are that of one."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_same_run(ranks: list[dict[str, Any]], alone: dict[str, Any]) -> None:
    """The summaries of all processes have equal bits, and the iterations and values of one process."""
    first = ranks[0]
    assert len({rank["bits"] for rank in ranks}) == 1
    assert first["error"] == alone["error"] == "None"
    assert first["notes"] == alone["notes"]
    scale = alone["values"][0]
    np.testing.assert_allclose(first["values"], alone["values"], rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(first["norms"], alone["norms"], rtol=0, atol=1e-8 * alone["norms"].max())
    np.testing.assert_allclose(first["W"], alone["W"], rtol=0, atol=1e-8 * np.abs(alone["W"]).max())
