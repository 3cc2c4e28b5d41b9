"""Files on a store: their bytes in ranges, by any file system of pyarrow or fsspec."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from lwcs.foundation.failures import reaching
from lwcs.foundation.fsspec_files import fsspec_files
from lwcs.sources.ahead import REQUESTS, Ahead, WaitingThreads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyarrow import fs

    from lwcs.sources.ahead import Lane
    from lwcs.sources.stamps import Stamp

# Files that stay open: to open one asks a store for its size.
_OPEN_FILES = 256


class Store:
    """The files of a scan, which are not on this machine."""

    def __init__(self, filesystem: fs.FileSystem, stamps: Mapping[str, Stamp]) -> None:
        self._filesystem, self._stamps = filesystem, stamps
        self._fsspec = fsspec_files(filesystem)
        self._open: dict[str, Future[Any]] = {}
        self._lock = Lock()
        self.pool = WaitingThreads(REQUESTS)
        """Threads that wait for answers; they end with the store."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Threads and open files stay here: a copy in another process has its own."""
        return Store, (self._filesystem, self._stamps)

    def size(self, path: str) -> int:
        """Number of bytes of a file."""
        return self._stamps[path][0]

    def fetch(self, path: str, start: int, stop: int) -> bytes:
        """Some bytes of a file; may be called by several threads."""
        with reaching(path):
            if self._fsspec is not None:
                data = self._fsspec.fetch(path, start, stop, self.size(path))
            else:
                data = self._opened(path).read_at(stop - start, start)
        if len(data) != stop - start:
            raise ValueError(
                f"{path!r} cannot be read in parts: {stop - start:,} bytes were asked for, and "
                f"{len(data):,} came; if its server does not give parts of files, copy it to this "
                "machine"
            )
        return data

    def _opened(self, path: str) -> Any:
        """The open file; others wait for the one that opens it."""
        with self._lock:
            known = self._open.get(path)
            if mine := known is None or (known.done() and known.exception() is not None):
                known = self._open[path] = Future()
                while len(self._open) > _OPEN_FILES:
                    # Whoever reads it holds it; nobody closes it under their hands.
                    del self._open[next(iter(self._open))]
        assert known is not None
        if mine:
            try:
                known.set_result(self._filesystem.open_input_file(path))
            except BaseException as error:
                known.set_exception(error)
        return known.result()

    def file(self, path: str, lanes: Sequence[Lane] = (), most: int = 0) -> Ahead:
        """A file whose lanes are fetched ahead, up to `most` bytes of them; see `Ahead`."""
        return Ahead(partial(self.fetch, path), self.size(path), self.pool, lanes, most)
