"""The first lines of a text file, and the encoding that they are written in."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import IO

# Enough bytes to tell numbers from text, and enough lines where lines are long.
_LOOK, _LINES = 2**16, 32
# Very long lines are looked at a few at a time, and a first line without an end is refused.
_LONG, _TOO_LONG = 2**22, 2**28

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins like the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class Head:
    """The first bytes of a file, some lines at least; or all of it."""

    data: bytes
    whole: bool
    """Whether the file ends here."""

    @property
    def longest(self) -> int:
        """Number of bytes of the longest line."""
        return max(map(len, self.data.splitlines()), default=0)


def head_of(file: IO[bytes], name: str) -> Head:
    """Read the first lines of a file."""
    data, lines = bytearray(), 0
    while not _suffices(len(data), lines):
        part = file.read(_LOOK)
        if not part:
            return Head(bytes(data), whole=True)
        data += part
        lines += max(part.count(b"\n"), part.count(b"\r"))
        if len(data) > _TOO_LONG:
            raise ValueError(
                f"{name} has fewer than three lines in its first {_TOO_LONG // 2**20} MB; a text "
                "file of rows has one line for each row"
            )
    return Head(bytes(data), whole=False)


def _suffices(size: int, lines: int) -> bool:
    return size >= _LOOK and (lines >= _LINES or (size >= _LONG and lines > 2))


def encoding_of(head: Head, name: str) -> str:
    """Recognize the encoding: UTF-8 if the bytes allow it, otherwise UTF-16 or a code page."""
    for mark, encoding in _MARKS:
        if head.data.startswith(mark):
            return encoding
    if b"\0" in head.data:
        # Every other byte of plain letters is zero in UTF-16.
        zeros = [head.data[at::2].count(0) / len(head.data) for at in (0, 1)]
        if max(zeros) < 0.25 or min(zeros) > 0.1:
            raise ValueError(f"{name} holds binary data, not text; pass a text file of rows")
        return "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    for encoding in ("utf-8", "cp1252"):
        try:
            _decoded(head, encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def text_of(head: Head, encoding: str, name: str) -> str:
    """Decode the first lines; an error names the place."""
    try:
        return _decoded(head, encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = head.data[: error.start].decode("latin-1").split("\n")
        raise ValueError(
            f"{name} is not written in {encoding}: line {len(before)} has the byte "
            f"0x{head.data[error.start]:02x} after {before[-1][-30:]!r}; pass the right encoding, "
            f"for example encoding={encoding_of(head, name)!r}"
        ) from error


def _decoded(head: Head, encoding: str) -> str:
    # A character may be cut at the end of the head, but not at the end of the file.
    return codecs.getincrementaldecoder(encoding)().decode(head.data, final=head.whole)
