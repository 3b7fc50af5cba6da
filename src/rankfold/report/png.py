"""Pictures as PNG files, by the standard library alone."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_BITS, _COLOURS = 8, 2  # of a sample; red, green and blue


def png(picture: NDArray[Any]) -> bytes:
    r"""Return a picture of height × width × 3 numbers from 0 to 255 as a PNG file; others are clipped.

    Examples
    --------
    >>> import numpy as np
    >>> png(np.zeros((2, 3, 3)))[:4]
    b'\x89PNG'
    """
    height, width, _ = picture.shape
    samples = np.clip(np.rint(picture), 0, 255).astype(np.uint8)
    lines = np.zeros((height, 1 + 3 * width), dtype=np.uint8)  # each begins with its filter: none
    lines[:, 1:] = samples.reshape(height, 3 * width)
    header = struct.pack(">IIBBBBB", width, height, _BITS, _COLOURS, 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 9)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
