"""The bytes of a text file on their way to the reader, watched for a quote that is never closed.

Such a quote makes the rest of the file one value, and the reader would not say that rows are lost.
"""

from __future__ import annotations

from io import BytesIO
from typing import IO


class Chained:
    """A file, of which some bytes have been read already; read from start to end."""

    closed = False

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = BytesIO(head), rest

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, fewer only at the end."""
        part = self._head.read(size)
        if len(part) == size:
            return part
        return part + self._rest.read(size if size < 0 else size - len(part))

    def close(self) -> None:
        """Leave the file itself open."""
        self.closed = True

    def readable(self) -> bool:
        """It can be read."""
        return True

    def writable(self) -> bool:
        """It cannot be written."""
        return False

    def seekable(self) -> bool:
        """It is read in order."""
        return False


class Watched(Chained):
    """Such a file, watched for its last quote."""

    def __init__(self, rest: IO[bytes], head: bytes = b"") -> None:
        super().__init__(head, rest)
        self._last = b""
        # What stands before and after the last quote; the latter may come with the next bytes.
        self._before, self._after = b"", b""
        self._quoted = False

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data = super().read(size)
        if not data:
            return data
        if self._quoted and not self._after:
            self._after = data[:1]
        at = data.rfind(b'"')
        if at >= 0:
            self._quoted = True
            self._before = data[at - 1 : at] if at else self._last
            self._after = data[at + 1 : at + 2]
        self._last = data[-1:]
        return data

    def ends_in_quotes(self, delimiter: str) -> bool:
        """Whether the last quote, now that all is read, opens a value.

        It then stands at the start of a value, and not at the end of one.
        """
        ends = (b"", b"\n", b"\r", delimiter.encode())
        return self._quoted and self._before in ends and self._after not in ends
