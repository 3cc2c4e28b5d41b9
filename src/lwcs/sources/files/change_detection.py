"""Detection of files that change while they are read, by size and modification time (stamps).

A file that changes between two passes, or within one, would silently give a wrong coreset. On this
machine a check costs nothing, and is made before and after every part. A store is asked once per
file and pass, after the last row, and its answer is awaited at the end of the pass.
"""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from lwcs.sources.remote.prefetch import REQUESTS, WaitingThreads
from lwcs.storage.locations import is_local, reaching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyarrow import fs

    from lwcs.sources.remote.paths import Found
    from lwcs.sources.remote.prefetch import Store

Stamp = tuple[int, int]


def stamp_of(info: fs.FileInfo, *, local: bool = False) -> Stamp:
    """Size and modification time of a file.

    On a store, times are in whole seconds: a listing may have milliseconds where the file has not.
    """
    return info.size or 0, (info.mtime_ns or 0) // (1 if local else 10**9)


def stamps_of(found: Found) -> dict[str, Stamp]:
    """The stamps of all files at the time when they were found."""
    stamps = dict(found.stamps)
    if missing := [path for path in found.paths if path not in stamps]:
        stamps |= stamps_at(found.filesystem, missing)
    return stamps


def stamps_at(filesystem: fs.FileSystem, paths: Sequence[str]) -> dict[str, Stamp]:
    """The present stamps of files; a store is asked for several at a time."""

    def look_at(path: str) -> Stamp:
        with reaching(path):
            return stamp_of(filesystem.get_file_info(path), local=is_local(filesystem))

    if is_local(filesystem):
        return {path: look_at(path) for path in paths}
    with WaitingThreads(REQUESTS) as pool:
        return dict(zip(paths, pool.map(look_at, paths), strict=True))


class Stamps:
    """Checks that the files of a scan have not changed since they were found."""

    def __init__(
        self, filesystem: fs.FileSystem, stamps: Mapping[str, Stamp], store: Store | None
    ) -> None:
        self._filesystem, self._stamps, self._store = filesystem, stamps, store
        self._coming: list[Future[None]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process starts without the checks in progress."""
        return Stamps, (self._filesystem, self._stamps, self._store)

    def check(self, path: str) -> None:
        """Raise an error if a file has changed."""
        with reaching(path):
            info = self._filesystem.get_file_info(path)
        now = stamp_of(info, local=self._store is None)
        if now != self._stamps[path]:
            raise ValueError(
                f"{path!r} changed while it was being read; wait until it is complete, and build "
                "again"
            )

    def before(self, path: str) -> None:
        """Check a file before a part of it is read."""
        if self._store is None:
            self.check(path)

    def after(self, path: str, last: bool) -> None:
        """Check a file after a part of it was read; on a store, only after the last part."""
        if self._store is None:
            self.check(path)
        elif last:
            self._coming = [each for each in self._coming if not _is_fine(each)]
            self._coming.append(self._store.pool.submit(self.check, path))

    def finish(self) -> None:
        """Wait for the checks of a pass."""
        coming, self._coming = self._coming, []
        for each in coming:
            each.result()


@contextmanager
def blaming_changes(check: Callable[[], None]) -> Iterator[None]:
    """Where reading fails, raise the error of `check` instead: a file that changed looks damaged.

    Errors of the file system, which say what is wrong, are raised as they are.
    """
    try:
        yield
    except (PermissionError, ConnectionError, TimeoutError, FileNotFoundError):
        raise
    except Exception:
        with suppress(OSError):
            check()
        raise


def _is_fine(check: Future[None]) -> bool:
    """Whether a check has ended; its error is raised."""
    if check.done():
        check.result()
    return check.done()
