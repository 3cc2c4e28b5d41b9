"""Stores: uploads that appear as a whole or not at all, and file systems of fsspec for pyarrow.

fsspec uploads in a transaction, which is committed or discarded. pyarrow cannot give up an upload
that has begun: even a stream that is dropped is completed, with half of its bytes. So it copies a
finished file, in a thread that no signal interrupts. Its streams are closed here: `copy_files`
drops them, and with them the errors of the last requests.
"""

from __future__ import annotations

import ctypes
import errno
import shutil
import threading
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
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
    """Copy a finished file to a store, and see that it is there.

    What says that it was written is the store: a client library may lose the error of a request.
    """
    before = _look(place)
    _copy(file, place)
    after = _look(place)
    size = file.stat().st_size
    if after.type != fs.FileType.File:
        raise _failed(place, "nothing is there afterwards")
    if after.size != size:
        raise _failed(place, f"{after.size:,} bytes are there afterwards, instead of {size:,}")
    # The times of stores may be in whole seconds.
    unchanged = (before.type, before.size, before.mtime_ns) == (after.type, size, after.mtime_ns)
    if unchanged and not _has_the_bytes(place, file):
        raise _failed(place, "the object from before is still there")


def _look(place: Place) -> fs.FileInfo:
    """The file or folder that is at a place now."""
    return place.filesystem.get_file_info(place.path)


def _failed(place: Place, found: str) -> OSError:
    reason = f"writing failed, though the store reported no error: {found}; try again"
    return OSError(errno.EIO, reason, place.name)


def _has_the_bytes(place: Place, file: Path) -> bool:
    """Whether an object has the bytes of a file of the same size."""
    with place.filesystem.open_input_stream(place.path) as there, file.open("rb") as own:
        while data := own.read(_BUFFER):
            if there.read(len(data)) != data:
                return False
    return True


def _copy(file: Path, place: Place) -> None:
    given = _of_fsspec(place)
    if given is None:
        _uninterrupted(lambda: _send(file, place))
        return
    with _opened(given, place.path) as target, file.open("rb") as source:
        shutil.copyfileobj(source, target, _BUFFER)
    # fsspec caches listings, which are out of date.
    given.invalidate_cache(given._parent(place.path))


def _send(file: Path, place: Place) -> None:
    """Upload a file by a stream of pyarrow, which is closed only once it has all bytes."""
    target = place.filesystem.open_output_stream(place.path, compression=None)
    try:
        with file.open("rb") as source:
            shutil.copyfileobj(source, target, _BUFFER)
    except BaseException:
        # Dropped, it would be closed, which completes the upload or waits for the store forever.
        # So it stays in memory, also while Python ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(target))
        raise
    target.close()


def try_out(place: Place) -> None:
    """Begin an upload with fsspec and discard it; raise OSError if it cannot be written there."""
    given = _of_fsspec(place)
    if given is None:
        return
    from fsspec.spec import AbstractBufferedFile

    with suppress(_DiscardError), _opened(given, place.path) as target:
        if isinstance(target, AbstractBufferedFile):
            # Begins an upload, which needs the permission to write.
            target.flush(force=True)
        raise _DiscardError


def container_of(place: Place) -> str | None:
    """The bucket of an object store that a place is in, or None on other stores."""
    given = _of_fsspec(place)
    kind = place.filesystem.type_name if given is None else _protocol(given)
    known = ("s3", "s3a", "gcs", "gs", "abfs", "abfss", "az", "oss", "r2")
    return place.path.strip("/").split("/")[0] if kind in known else None


class _DiscardError(Exception):
    """Raised to discard a transaction."""


@contextmanager
def _opened(given: Any, path: str) -> Iterator[Any]:
    """A file of fsspec that is committed if the block succeeds, and discarded otherwise."""
    # A transaction covers all that its instance writes, so it has an instance of its own.
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
    """Complete some work in spite of an interrupt, which is raised afterwards; a second ends it."""
    outcome = Future[None]()

    def run() -> None:
        try:
            work()
            outcome.set_result(None)
        except BaseException as error:
            outcome.set_exception(error)

    try:
        # A daemon, so that nothing waits for it after a second interrupt.
        threading.Thread(target=run, name="lwcs-upload", daemon=True).start()
        wait([outcome])
    except KeyboardInterrupt:
        wait([outcome])
        raise
    outcome.result()


_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")
"""Names of the time of the last change among file systems."""
# Files up to this size may be sent as a whole by servers that do not send parts of files.
_SMALL = 2**23


class FsspecFiles(fs.FSSpecHandler):  # type: ignore[misc]  # pyarrow has no types
    """A file system of fsspec for pyarrow, without cached listings and with its failures."""

    def get_file_info(self, paths: Sequence[str]) -> list[fs.FileInfo]:
        """Look up files and folders."""
        return [self._look_at(path) for path in paths]

    def _look_at(self, path: str) -> fs.FileInfo:
        self.fs.invalidate_cache(path)
        try:
            return self._create_file_info(path, self.fs.info(path))
        except FileNotFoundError as error:
            # For HTTP servers, fsspec raises this after every failure.
            cause = error.__cause__
            if cause is not None and not isinstance(failure(path, cause), FileNotFoundError):
                raise failure(path, cause) from error
            return fs.FileInfo(path, fs.FileType.NotFound)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """List a folder."""
        self.fs.invalidate_cache(selector.base_dir)
        try:
            infos = list(super().get_file_info_selector(selector))
        except FileNotFoundError:
            # pyarrow also raises this if the store cannot be reached; then looking it up fails.
            self._look_at(selector.base_dir)
            raise
        if not infos:
            # The store may not have been reached, where the folder need not exist.
            self._look_at(selector.base_dir)
        return infos

    @staticmethod
    def _create_file_info(path: str, info: Mapping[str, Any]) -> fs.FileInfo:
        """Add the time of the last change."""
        times = (info[key] for key in _TIMES if info.get(key) is not None)
        time = next((each for each in times if isinstance(each, (int, float, datetime))), None)
        return fs.FSSpecHandler._create_file_info(path, {**info, "mtime": time})

    def fetch(self, path: str, start: int, stop: int, size: int) -> bytes:
        """Fetch some bytes of a file of `size` bytes by one request; called by several threads."""
        if type(self.fs).__name__ == "HTTPFileSystem" and size > _SMALL:
            # `cat_file` would fetch all of a large file from a server that sends no parts.
            with self.fs.open(path, "rb", cache_type="none", size=size) as file:
                return bytes(file._fetch_range(start, stop))
        data = bytes(self.fs.cat_file(path, start=start, end=stop))
        return data[start:stop] if len(data) == size else data

    def asynchronous(self) -> Any:
        """An instance for callers with an event loop of their own, such as zarr."""
        if not self.fs.async_impl:
            from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

            return AsyncFileSystemWrapper(self.fs, asynchronous=True)
        options = {**self.fs.storage_options, "asynchronous": True}
        return type(self.fs)(*self.fs.storage_args, **options)


def fsspec_files(filesystem: fs.FileSystem) -> FsspecFiles | None:
    """The handler of fsspec behind a file system of pyarrow, or None."""
    handler = filesystem.handler if isinstance(filesystem, fs.PyFileSystem) else None
    if isinstance(handler, fs.FSSpecHandler) and not isinstance(handler, FsspecFiles):
        # pyarrow has wrapped it, for example in a dataset.
        return FsspecFiles(handler.fs)
    return handler if isinstance(handler, FsspecFiles) else None
