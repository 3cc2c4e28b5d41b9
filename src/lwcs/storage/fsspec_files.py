"""File systems of fsspec, as pyarrow sees them, without what fsspec remembers and reads ahead.

fsspec keeps listings, so that files which change would look as before, and its files read several
megabytes ahead, one request after the other, whatever is wanted of them.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyarrow import fs

from lwcs.storage.failures import failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
