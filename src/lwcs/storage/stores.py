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
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyarrow import fs

from lwcs.storage.locations import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lwcs.storage.locations import Place

_BUFFER = 2**24


def upload(file: Path, place: Place) -> None:
    """Copy a finished file to a store."""
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


_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")

# Bytes of a file that may come as a whole, if a server does not give parts of it.
_SMALL = 2**23


class FsspecFiles(fs.FSSpecHandler):  # type: ignore[misc]  # pyarrow has no types
    """What pyarrow calls for a file system of fsspec."""

    def get_file_info(self, paths: Sequence[str]) -> list[fs.FileInfo]:
        """What is there now."""
        return [self._look_at(path) for path in paths]

    def _look_at(self, path: str) -> fs.FileInfo:
        self.fs.invalidate_cache(path)
        try:
            return self._create_file_info(path, self.fs.info(path))
        except FileNotFoundError as error:
            # For servers of the web, fsspec says so of every failure.
            cause = error.__cause__
            if cause is not None and not isinstance(failure(path, cause), FileNotFoundError):
                raise failure(path, cause) from error
            return fs.FileInfo(path, fs.FileType.NotFound)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """What is in a folder now."""
        self.fs.invalidate_cache(selector.base_dir)
        try:
            found = list(super().get_file_info_selector(selector))
        except FileNotFoundError:
            # pyarrow also says so if the store cannot be reached; then this raises.
            self._look_at(selector.base_dir)
            raise
        if not found:
            # The same, where there need not be a folder.
            self._look_at(selector.base_dir)
        return found

    @staticmethod
    def _create_file_info(path: str, info: Mapping[str, Any]) -> fs.FileInfo:
        """With the time of the last change, which stores call differently."""
        times = (info[key] for key in _TIMES if info.get(key) is not None)
        time = next((each for each in times if isinstance(each, (int, float, datetime))), None)
        return fs.FSSpecHandler._create_file_info(path, {**info, "mtime": time})

    def fetch(self, path: str, start: int, stop: int, size: int) -> bytes:
        """Some bytes of a file of `size` bytes, by one request; called by several threads."""
        if type(self.fs).__name__ == "HTTPFileSystem" and size > _SMALL:
            # A server that does not give parts would give all, and `cat_file` would take it.
            with self.fs.open(path, "rb", cache_type="none", size=size) as file:
                return bytes(file._fetch_range(start, stop))
        data = bytes(self.fs.cat_file(path, start=start, end=stop))
        return data[start:stop] if len(data) == size else data

    def asynchronous(self) -> Any:
        """The same file system for callers with an event loop of their own, such as zarr."""
        if not self.fs.async_impl:
            from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

            return AsyncFileSystemWrapper(self.fs, asynchronous=True)
        options = {**self.fs.storage_options, "asynchronous": True}
        return type(self.fs)(*self.fs.storage_args, **options)


def fsspec_files(filesystem: fs.FileSystem) -> FsspecFiles | None:
    """The file system of fsspec behind one of pyarrow, or None."""
    handler = filesystem.handler if isinstance(filesystem, fs.PyFileSystem) else None
    if isinstance(handler, fs.FSSpecHandler) and not isinstance(handler, FsspecFiles):
        # As pyarrow itself wraps one, for example in a dataset.
        return FsspecFiles(handler.fs)
    return handler if isinstance(handler, FsspecFiles) else None
