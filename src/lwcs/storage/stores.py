"""Writing to stores: a file is uploaded as a whole, and appears as a whole or not at all.

A file of fsspec is written in a transaction, which is committed or discarded. pyarrow has no way to
give up an upload that has begun: even a stream that is dropped is completed, with half of its
bytes. So it copies a finished file, in a thread that no signal interrupts.
"""

from __future__ import annotations

import errno
import shutil
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lwcs.storage.locations import Place

_BUFFER = 2**24


def upload(file: Path, place: Place) -> None:
    """Copy a finished file to a store."""
    from pyarrow import fs

    given = _of_fsspec(place)
    if given is None:
        _uninterrupted(
            lambda: fs.copy_files(
                str(file), place.path, fs.LocalFileSystem(), place.filesystem, chunk_size=_BUFFER
            )
        )
        return
    with _opened(given, place.path) as target, file.open("rb") as source:
        shutil.copyfileobj(source, target, _BUFFER)
    # The listings that it remembers are from before.
    given.invalidate_cache(given._parent(place.path))


def try_out(place: Place) -> None:
    """Begin to write and give up, where that leaves no trace; raise OSError if it fails."""
    given = _of_fsspec(place)
    if given is None:
        return
    from fsspec.spec import AbstractBufferedFile

    try:
        with _opened(given, place.path) as target:
            if isinstance(target, AbstractBufferedFile):
                # Begins an upload, which needs the permission to write.
                target.flush(force=True)
            raise _GivingUpError
    except _GivingUpError:
        return


def container_of(place: Place) -> str | None:
    """The bucket of an object store that a place is in, or None on other stores."""
    given = _of_fsspec(place)
    kind = place.filesystem.type_name if given is None else _protocol(given)
    known = ("s3", "s3a", "gcs", "gs", "abfs", "abfss", "az", "oss", "r2")
    return place.path.strip("/").split("/")[0] if kind in known else None


class _GivingUpError(Exception):
    """Ends a transaction that was only tried out."""


@contextmanager
def _opened(given: Any, path: str) -> Iterator[Any]:
    """A file of fsspec, which is committed if the block succeeds and discarded if it does not."""
    # A transaction takes in all that its instance writes, so it gets an instance of its own.
    own = type(given)(*given.storage_args, **given.storage_options, skip_instance_cache=True)
    with own.transaction:
        try:
            opened = own.open(path, "wb")
        except NotImplementedError as error:
            kind = _protocol(given)
            raise OSError(errno.EROFS, f"a file system for {kind!r} can only be read") from error
        with opened as file:
            yield file


def _of_fsspec(place: Place) -> Any:
    """The file system of fsspec that a place is on, or None."""
    from lwcs.storage.fsspec_files import fsspec_files

    known = fsspec_files(place.filesystem)
    return None if known is None else known.fs


def _protocol(given: Any) -> str:
    own = given.protocol
    return str(own if isinstance(own, str) else own[0])


def _uninterrupted(work: Callable[[], None]) -> None:
    """Do some work to its end, in spite of a signal; a second one ends the waiting."""
    done, failed = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    try:
        threading.Thread(target=run, name="lwcs-upload", daemon=True).start()
        done.wait()
    except KeyboardInterrupt:
        done.wait()
        raise
    if failed:
        raise failed[0]
