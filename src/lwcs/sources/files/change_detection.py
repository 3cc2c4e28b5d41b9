"""Detection of files that change while they are read, by size and modification time (stamps).

A file that changes between two passes, or within one, would silently give a wrong coreset. On this
machine a check costs nothing, and is made before and after every part. A store is asked at the end
of a pass, about all files at once: a listing of their folder has the stamps of a thousand files.
"""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyarrow import fs

from lwcs.arrays.checks import translating
from lwcs.sources.remote.prefetch import REQUESTS, WaitingThreads
from lwcs.storage.locations import explaining, is_local, is_uri, reaching
from lwcs.storage.stores import fsspec_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lwcs.sources.remote.paths import Found
    from lwcs.sources.remote.prefetch import Store

Stamp = tuple[int, int]


def stamp_of(info: fs.FileInfo, *, local: bool = False) -> Stamp:
    """Size and modification time of a file.

    On a store, times are in whole seconds: a listing may have milliseconds where the file has not.
    """
    return info.size or 0, (info.mtime_ns or 0) // (1 if local else 10**9)


# Entries of a listing that a store sends at a time.
_PAGE = 1000
# Requests of fsspec before a listing, which asks whether the folder is one.
_BEFORE = 2
# A folder is listed if at least this many of its files were named one by one.
_MANY = 16


@dataclass(frozen=True, slots=True)
class Listing:
    """A folder on a store that was listed, or may be."""

    folder: str
    recursive: bool = False
    entries: int = 0
    """Number of entries, as far as it is known."""

    def infos(self, filesystem: fs.FileSystem) -> list[fs.FileInfo]:
        """List the folder; it need not exist."""
        if self.recursive and (known := fsspec_files(filesystem)) is not None:
            # A recursive listing may be put together from cached ones of the folders below.
            known.fs.invalidate_cache()
        selector = fs.FileSelector(self.folder, allow_not_found=True, recursive=self.recursive)
        with reaching(self.folder):
            return list(filesystem.get_file_info(selector))

    def tried(self, filesystem: fs.FileSystem) -> list[fs.FileInfo]:
        """List the folder; nothing where that is denied, though its files may be read."""
        with suppress(PermissionError):
            return self.infos(filesystem)
        return []

    @property
    def requests(self) -> int:
        """Number of requests that a listing takes, about."""
        return _BEFORE + 1 + self.entries // _PAGE


def listings_of(paths: Iterable[str]) -> list[Listing]:
    """The folders that have many of some files; a server of the web lists none."""
    folders = Counter(path.rpartition("/")[0] for path in paths if not is_uri(path))
    return [Listing(folder) for folder, files in folders.items() if folder and files >= _MANY]


def _worthwhile(listings: Iterable[Listing], paths: Iterable[str]) -> list[Listing]:
    """The listings that take fewer requests than to look up every file of theirs."""
    known, files = {each.folder: each for each in listings}, Counter[str]()
    for path in paths:
        folder = own = path.rpartition("/")[0]
        while folder and not (folder in known and (folder == own or known[folder].recursive)):
            folder = folder.rpartition("/")[0]
        files[folder] += 1
    return [each for name, each in known.items() if name and each.requests < files[name]]


def stamps_of(found: Found) -> dict[str, Stamp]:
    """The stamps of all files at the time when they were found."""
    stamps = dict(found.stamps)
    if missing := [path for path in found.paths if path not in stamps]:
        stamps |= stamps_at(found.filesystem, missing, found.listings)
    return stamps


def stamps_at(
    filesystem: fs.FileSystem, paths: Sequence[str], listings: Iterable[Listing] = ()
) -> dict[str, Stamp]:
    """The present stamps of files, by `listings` of a store where that takes fewer requests."""

    def look_at(path: str) -> Stamp:
        with reaching(path):
            return stamp_of(filesystem.get_file_info(path), local=is_local(filesystem))

    if is_local(filesystem):
        return {path: look_at(path) for path in paths}
    with WaitingThreads(REQUESTS) as pool:
        wanted, worthwhile = set(paths), _worthwhile(listings, paths)
        listed = pool.map(lambda each: each.tried(filesystem), worthwhile)
        each_info = (info for infos in listed for info in infos)
        stamps = {info.path: stamp_of(info) for info in each_info if info.path in wanted}
        missing = [path for path in paths if path not in stamps]
        return stamps | dict(zip(missing, pool.map(look_at, missing), strict=True))


class Stamps:
    """Checks that the files of a scan have not changed since they were found."""

    def __init__(
        self,
        filesystem: fs.FileSystem,
        stamps: Mapping[str, Stamp],
        store: Store | None,
        listings: Sequence[Listing] = (),
    ) -> None:
        """On a store, folders are listed again as in `listings`."""
        self._filesystem, self._stamps, self._store = filesystem, stamps, store
        self._listings = listings
        self._read: dict[str, None] = {}
        """The files on a store that were read, and are to be checked."""

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process starts without files to check."""
        return Stamps, (self._filesystem, self._stamps, self._store, self._listings)

    def check(self, *paths: str) -> None:
        """Raise an error if one of these files has changed."""
        now = stamps_at(self._filesystem, paths, self._listings)
        for path in paths:
            if now[path] != self._stamps[path]:
                raise ValueError(
                    f"{path!r} changed while it was being read; wait until it is complete, and "
                    "build again"
                )

    @contextmanager
    def reading(self, path: str) -> Iterator[None]:
        """Name a file in errors of reading it, or say that it changed."""
        with explaining([path]), blaming_changes(lambda: self.check(path)):
            yield

    @contextmanager
    def unchanged(self, path: str) -> Iterator[None]:
        """Like `reading`, for a part of a file on this machine, which is checked at the end."""
        with self.reading(path):
            yield
            self.check(path)

    def before(self, path: str) -> None:
        """Check a file before a part of it is read."""
        if self._store is None:
            self.check(path)

    def after(self, path: str, last: bool) -> None:
        """Check a file after a part of it was read; on a store, when the pass ends."""
        if self._store is None:
            self.check(path)
        elif last:
            self._read[path] = None

    def finish(self) -> None:
        """Check the files on a store that a pass has read."""
        read, self._read = self._read, {}
        if read and self._store is not None:
            # On a thread of the pool, so that an interrupt does not wait for the answer of a store.
            self._store.pool.submit(self.check, *read).result()


def blaming_changes(check: Callable[[], None]) -> AbstractContextManager[None]:
    """Where reading fails, raise the error of `check` instead: a file that changed looks damaged.

    Errors of the file system, which say what is wrong, are raised as they are.
    """

    def translate(error: Exception) -> Exception | None:
        if isinstance(error, (PermissionError, ConnectionError, TimeoutError, FileNotFoundError)):
            return None
        with suppress(OSError):
            check()
        return None

    return translating(translate)
