"""Devices that tests write to."""

import os
import stat
from pathlib import Path

import pytest


def device(name: str, folder: Path) -> str:
    """Return a device like that of /dev; for root, whom a fault would let replace that, one of its own."""
    shared = Path("/dev", name)
    if not shared.is_char_device():
        pytest.skip(f"there is no {shared}")
    if os.geteuid():
        return str(shared)
    own = folder / name
    try:
        os.mknod(own, stat.S_IFCHR | 0o666, shared.stat().st_rdev)
        own.open("wb").close()
    except OSError:
        pytest.skip("no device can be made here")
    return str(own)
