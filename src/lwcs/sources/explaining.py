"""Errors of pyarrow while rows are read, in words that name the file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from lwcs.foundation.failures import is_of_the_place

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def explaining(paths: list[str]) -> Iterator[None]:
    """Turn errors of pyarrow into errors that name the file.

    A failure of the place stays an OSError, after which one can try again. pyarrow says of bad
    contents, too, that they are an OSError, but such a one has no errno.
    """
    try:
        yield
    except FileNotFoundError as error:
        if error.errno is None:
            # Explained already, for one of the files.
            raise
        raise FileNotFoundError(f"{some(paths)} vanished before all rows were read") from error
    except PermissionError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        said = str(error).strip().splitlines()[0]
        if isinstance(error, OSError) and error.errno is not None:
            if is_of_the_place(error):
                raise
            raise type(error)(error.errno, f"reading failed: {said}", paths[0]) from error
        raise ValueError(
            f"{some(paths)} cannot be read (it may be truncated, corrupted, or have rows that "
            f"differ in their columns): {said}"
        ) from error


def some(paths: list[str]) -> str:
    """The name of the first file, and how many others there are."""
    others = len(paths) - 1
    more = f" and {others} more file{'s' * (others > 1)}" if others else ""
    return f"{paths[0]!r}{more}"
