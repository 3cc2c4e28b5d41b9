"""Errors while rows are read, in words that name the file, or the table that has the file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from lwcs.foundation.failures import first_line, of_the_place

if TYPE_CHECKING:
    from collections.abc import Iterator

_VANISHED = "vanished before all rows were read"


@contextmanager
def explaining(read: list[str] | str) -> Iterator[None]:
    """Name what is read in errors: the paths of files, or what a table or a dataset is called.

    A failure of the place is an OSError, after which one can try again. Bad contents are a
    ValueError.
    """
    try:
        yield
    except Exception as error:
        explained = _explained(error, read)
        if explained is error:
            raise
        raise explained from error


def _explained(error: Exception, read: list[str] | str) -> Exception:
    failed = of_the_place(read if isinstance(read, str) else read[0], error)
    if isinstance(failed, FileNotFoundError):
        if isinstance(read, list) and _VANISHED in str(error):
            # Explained already, for one of the files.
            return error
        what = f"a file of {read}" if isinstance(read, str) else some(read)
        return FileNotFoundError(f"{what} {_VANISHED} ({first_line(error)}); open it again")
    if failed is not None:
        return failed
    if isinstance(error, (pa.ArrowException, OSError, UnicodeDecodeError)):
        what = read if isinstance(read, str) else some(read)
        return ValueError(
            f"{what} cannot be read (it may be truncated, corrupted, or have rows that differ in "
            f"their columns): {first_line(error)}"
        )
    return error


def some(paths: list[str]) -> str:
    """The name of the first file, and how many others there are."""
    others = len(paths) - 1
    more = f" and {others} more file{'s' * (others > 1)}" if others else ""
    return f"{paths[0]!r}{more}"
