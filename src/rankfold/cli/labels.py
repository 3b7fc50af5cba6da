"""Labels and file names are somebody's text: made harmless for terminals and for spreadsheets."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

# Control characters, those that turn the direction of text around, and what no encoding has a place for.
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# What a spreadsheet takes for a formula, or cuts off before one.
_FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"


def visible(text: str, keep: str = "\n\t") -> str:
    r"""Return `text` with characters that a terminal would obey as escapes that it shows.

    Examples
    --------
    >>> print(visible("\x1b[2Jann"), visible("a\nb", keep=""))
    \x1b[2Jann a\nb
    """
    return _HARMFUL.sub(lambda found: _escaped(found[0], keep), text)


def _escaped(character: str, keep: str) -> str:
    return character if character in keep else character.encode("unicode_escape").decode()


class StandardOutput(io.RawIOBase):
    """A binary stream whose errors are called those of standard output; made visible for a terminal.

    Also where one write ends in the middle of a character.
    """

    def __init__(self, stream: BinaryIO, terminal: bool) -> None:
        self._stream, self._terminal = stream, terminal
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def writable(self) -> bool:
        """Whether it can be written to: it can."""
        return True

    def write(self, content: Any) -> int:
        """Write all of the bytes."""
        shown = visible(self._decoder.decode(bytes(content))).encode() if self._terminal else content
        try:
            self._stream.write(shown)
        except OSError as error:
            raise output_error(error) from error
        return len(content)


def output_error(error: OSError) -> OSError:
    """Return an error of standard output by its name."""
    return OSError(error.errno, error.strerror, "standard output")


def without_formulas(names: Iterable[str], batches: Iterable[Any]) -> tuple[list[str], Iterator[Any]]:
    """Return names of columns, and record batches, with an apostrophe before text that begins a formula."""
    plain = [f"'{name}" if re.match(_FORMULA, name) else name for name in names]
    return plain, map(_quoted, batches)


def _quoted(batch: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    def quoted(column: Any) -> Any:
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if not (types.is_string(column.type) or types.is_large_string(column.type)):
            return column
        mark = pc.if_else(pc.match_substring_regex(column, _FORMULA), "'", "").cast(column.type)
        return pc.binary_join_element_wise(mark, column, pa.scalar("", column.type))

    return pa.record_batch([quoted(column) for column in batch.columns], names=batch.schema.names)
