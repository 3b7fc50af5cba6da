"""Changes of files that know nothing of what is in them: bits, bytes, integers, slices, words."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Sequence

EDGES = (
    0,
    1,
    2,
    7,
    8,
    127,
    128,
    255,
    256,
    32767,
    65535,
    1 << 20,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**63 - 1,
)
WORDS = (
    *(b"0", b"-1", b"007", b"1e999", b"-0.0", b"nan", b"inf", b"1_000", b"0x10", b"\xef\xbb\xbf"),
    *(b"9223372036854775807", b"9223372036854775808", b"9" * 40, b"9" * 5000, b"1e-400", b"1+2j", b"null"),
    *(b"", b" ", b"\0", b"\r", b"\n", b"\r\n", b"\t", b'"', b'""', b"'", b",", b",,", b"\\", b"\xff"),
    *(b"[", b"]", b"{", b"}", b"(" * 200, b"[" * 3000, b"%", b"#", "é".encode(), b"\xed\xa0\x80"),
)  # fmt: skip
INTEGERS = ("<H", ">H", "<I", ">I", "<Q", ">Q", "<i", "<q")
LARGEST = 1 << 20  # bytes that a mutated file has at most: a fuzzer that wants more makes them itself
Change = Callable[[random.Random, bytearray], None]


class Mutator:
    """Draws changes of files: of one byte or of many, blind to the format but for the `words` it is given.

    The same `random.Random` gives the same changes; `others` are files to splice with.
    """

    def __init__(self, others: Sequence[bytes] = (), words: Sequence[bytes] = ()) -> None:
        self.others, self.words = others, (*WORDS, *words)
        self.changes: tuple[Change, ...] = (
            self.flip, self.byte, self.integer, self.cut, self.drop, self.repeat, self.insert, self.word,
            self.number, self.number, self.move, self.splice,
        )  # fmt: skip

    def mutate(self, rng: random.Random, data: bytes) -> bytes:
        """Return `data` after one to four changes."""
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
            rng.choice(self.changes)(rng, changed)
        return bytes(changed[:LARGEST])

    def flip(self, rng: random.Random, data: bytearray) -> None:
        """Turn one bit."""
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)

    def byte(self, rng: random.Random, data: bytearray) -> None:
        """Make one byte any other."""
        if data:
            data[rng.randrange(len(data))] = rng.choice((0, 255, rng.randrange(256)))

    def integer(self, rng: random.Random, data: bytearray) -> None:
        """Write an integer of two, four or eight bytes over what is there: sizes and offsets."""
        kind = rng.choice(INTEGERS)
        size, value = struct.calcsize(kind), rng.choice(EDGES)
        if len(data) >= size:
            at = rng.randrange(len(data) - size + 1)
            data[at : at + size] = struct.pack(kind.upper(), value % (1 << 8 * size))

    def cut(self, rng: random.Random, data: bytearray) -> None:
        """Leave out the end."""
        del data[rng.randint(0, len(data)) :]

    def drop(self, rng: random.Random, data: bytearray) -> None:
        """Leave out a part."""
        start, stop = _part(rng, data)
        del data[start:stop]

    def repeat(self, rng: random.Random, data: bytearray) -> None:
        """Have a part several times."""
        start, stop = _part(rng, data)
        times = rng.choice((1, 2, 10, 1000))
        data[start:start] = (data[start:stop] * times)[:LARGEST]

    def insert(self, rng: random.Random, data: bytearray) -> None:
        """Put random bytes, or one of them many times, somewhere."""
        at, count = rng.randint(0, len(data)), rng.choice((1, 2, 9, 200, 150_000))
        data[at:at] = bytes([rng.randrange(256)]) * count if count > 200 else rng.randbytes(count)

    def word(self, rng: random.Random, data: bytearray) -> None:
        """Put a word somewhere, or in the place of another one."""
        found = [match.span() for match in re.finditer(rb"\w+", bytes(data[:4096]))]
        at = rng.randint(0, len(data))
        start, stop = rng.choice(found) if found and rng.random() < 0.7 else (at, at)
        data[start:stop] = rng.choice(self.words)

    def number(self, rng: random.Random, data: bytearray) -> None:
        """Write another number in the place of one that is written in digits."""
        found = [match.span() for match in re.finditer(rb"\d+", bytes(data[:65536]))]
        if found:
            start, stop = rng.choice(found)
            data[start:stop] = rng.choice(
                (b"%d" % rng.choice(EDGES), b"-%d" % rng.choice(EDGES), rng.choice(WORDS))
            )

    def move(self, rng: random.Random, data: bytearray) -> None:
        """Put a part somewhere else."""
        start, stop = _part(rng, data)
        part = data[start:stop]
        del data[start:stop]
        at = rng.randint(0, len(data))
        data[at:at] = part

    def splice(self, rng: random.Random, data: bytearray) -> None:
        """Go on as another file does."""
        if self.others:
            other = rng.choice(self.others)
            data[rng.randint(0, len(data)) :] = other[rng.randint(0, len(other)) :]


def _part(rng: random.Random, data: bytearray) -> tuple[int, int]:
    start = rng.randint(0, len(data))
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 30, 200, len(data))))
