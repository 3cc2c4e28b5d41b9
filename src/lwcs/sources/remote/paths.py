"""Which files a path, a glob, a folder or a URI refers to, and their format.

Patterns are matched here, folder by folder: on a store, only folders that can match are listed,
where fsspec's glob lists every folder below the first star (3,731 listings where this makes 321,
for one month of each of ten years in year/month/day); and links that lead in circles, out of the
folder or to a file that is already there are told apart, which pathlib does not.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

from lwcs.runtime.warnings import warn
from lwcs.sources.files.change_detection import Listing, Stamp, listings_of, stamp_of
from lwcs.sources.remote.prefetch import REQUESTS, WaitingThreads
from lwcs.sources.scan_options import PACKED
from lwcs.sources.tables.table_formats import TableDetector
from lwcs.storage.locations import DEFAULT, Access, Place, is_local, reaching
from lwcs.storage.path_errors import check_name, path_error
from lwcs.storage.stores import container_of

_HIDDEN = (".", "_")
States = frozenset[int]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A glob below a folder: * stands for a part of a name, ** for any number of folders.

    It is matched name by name, as by a finite automaton: a state is the number of leading parts of
    the pattern that the names so far may have matched.
    """

    parts: tuple[str, ...]

    @property
    def start(self) -> States:
        """The states of the folder itself."""
        return self._closed([0])

    def step(self, states: States, name: str) -> States:
        """The states of an entry of a folder with these states; none if it does not match."""
        after = []
        for state in self.below(states):
            if self.parts[state] == "**":
                after.append(state)
            elif fnmatchcase(name, self.parts[state]):
                after.append(state + 1)
        return self._closed(after)

    def matches(self, states: States) -> bool:
        """Whether a path with these states matches."""
        return len(self.parts) in states

    def below(self, states: States) -> States:
        """The states of a folder from which something below it can still match."""
        return states - {len(self.parts)}

    def is_deep(self, states: States) -> bool:
        """Whether a folder with these states can have matches at any depth."""
        return any(self.parts[state] == "**" for state in self.below(states))

    def _closed(self, states: list[int]) -> States:
        """Add the states that are reached if ** stands for no folder."""
        closed = set(states)
        for state, part in enumerate(self.parts):
            if state in closed and part == "**":
                closed.add(state + 1)
        return frozenset(closed)


EVERYTHING = Pattern(("**", "*"))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which paths to list below a folder."""

    pattern: Pattern
    format: str | None
    """The format of all files, if it is given; else their names say it."""
    note: Callable[[str], None]
    """Called with every path in the folders that are looked into, hidden ones too."""
    listed: Callable[[Listing], None]
    """Called with every folder of a store that was listed."""
    unknown: bool = False
    """Whether files are listed whose names say no format."""

    def keep(self, path: str) -> bool:
        """Whether a path that matches is listed."""
        return self.unknown or self.format is not None or format_of(path) is not None

    def is_file(self, path: str) -> bool:
        """Whether a folder counts as a file."""
        return (self.format or format_of(path)) in _FOLDERS


Listed = dict[str, Stamp | None]
"""Paths of files in order, with their stamps where a listing has them."""


def files_below(filesystem: fs.FileSystem, folder: str, wanted: Wanted) -> Listed:
    """The wanted files in a folder, sorted, without hidden ones."""
    if isinstance(filesystem, fs.LocalFileSystem):
        return dict.fromkeys(_Walk(folder, wanted).files())
    return dict(sorted(_on_store(filesystem, folder, wanted).items()))


def _on_store(filesystem: fs.FileSystem, folder: str, wanted: Wanted) -> Listed:
    """List level by level, and only folders in which something can match.

    Below a folder from which ** can match, one recursive listing has everything.
    """
    pattern, found = wanted.pattern, Listed()

    def listing(folder: tuple[str, States]) -> list[fs.FileInfo]:
        path, recursive = folder[0], pattern.is_deep(folder[1])
        infos = Listing(path, recursive).infos(filesystem)
        wanted.listed(Listing(path.rstrip("/"), recursive, len(infos)))
        return infos

    level = [(folder, pattern.start)]
    with WaitingThreads(REQUESTS) as pool:
        while level:
            below = []
            for (path, states), infos in zip(level, pool.map(listing, level), strict=True):
                for info in infos:
                    wanted.note(info.path)
                    after = _states(info, path, states, wanted)
                    is_file = info.type == fs.FileType.File or wanted.is_file(info.path)
                    if is_file and pattern.matches(after) and wanted.keep(info.path):
                        found[info.path] = stamp_of(info)
                    elif not is_file and not pattern.is_deep(states) and pattern.below(after):
                        below.append((info.path, pattern.below(after)))
            level = below
    return found


def _states(info: fs.FileInfo, folder: str, states: States, wanted: Wanted) -> States:
    """The states of a path below a folder; none if it is hidden, or within a file."""
    path = folder.rstrip("/")
    for name in info.path[len(path) + 1 :].split("/"):
        if name.startswith(_HIDDEN) or (path != folder and wanted.is_file(path)):
            return frozenset()
        path, states = f"{path}/{name}", wanted.pattern.step(states, name)
    return states


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    real: str
    states: States
    linked: bool
    """Whether a link led here."""


class _Walk:
    """A walk over a local folder, in which every file is found once, whatever links lead to it."""

    def __init__(self, folder: str, wanted: Wanted) -> None:
        self._folder, self._wanted, self._pattern = folder, wanted, wanted.pattern
        self._root = os.path.realpath(folder)
        self._found: dict[bool, dict[str, str]] = {False: {}, True: {}}
        self._left_out: list[str] = []

    def files(self) -> list[str]:
        """Paths of the files that match, sorted; warns about links that are not followed."""
        waiting = deque([_Folder(self._folder, self._root, self._pattern.start, False)])
        visited: set[tuple[str, States]] = set()
        while waiting:
            folder = waiting.popleft()
            if (folder.real, folder.states) in visited:
                # By another link, or in a circle: the same files would match again.
                continue
            visited.add((folder.real, folder.states))
            for below in self._look_into(folder):
                # Folders themselves come before links to them.
                (waiting.append if below.linked else waiting.appendleft)(below)
        if self._left_out:
            some = ", ".join(map(repr, sorted(self._left_out)[:5]))
            more = ", …" if len(self._left_out) > 5 else ""
            warn(
                f"these links lead out of the folder {self._folder!r}, or nowhere, and are not "
                f"followed: {some}{more}; to read them, too, name them in a list of paths"
            )
        found = sorted((self._found[True] | self._found[False]).values())
        for path in found:
            check_name(path)
        return found

    def _look_into(self, folder: _Folder) -> Iterator[_Folder]:
        for entry in os.scandir(folder.path):
            path = f"{folder.path.rstrip('/')}/{entry.name}"
            self._wanted.note(path)
            states = self._pattern.step(folder.states, entry.name)
            if not states or entry.name.startswith(_HIDDEN):
                continue
            linked, real = folder.linked or entry.is_symlink(), f"{folder.real}/{entry.name}"
            is_folder = entry.is_dir() and not self._wanted.is_file(path)
            below = self._pattern.below(states)
            is_match = self._pattern.matches(states) and self._wanted.keep(path)
            if not (below if is_folder else is_match):
                continue
            if entry.is_symlink():
                real = os.path.realpath(path)
                inside = os.path.commonpath([self._root, real]) == self._root
                if not os.path.exists(real) or not inside:
                    self._left_out.append(path)
                    continue
            if is_folder:
                yield _Folder(path, real, below, linked)
            elif os.path.isfile(path) or os.path.isdir(path):
                self._found[linked].setdefault(real, path)


_ENDINGS = {
    "parquet": (".parquet", ".pq"),
    "ipc": (".feather", ".arrow", ".ipc"),
    "csv": (".csv", ".tsv"),
    "npy": (".npy",),
    "npz": (".npz",),
    "hdf5": (".h5", ".hdf5"),
    "zarr": (".zarr",),
}
_KINDS = {ending: kind for kind, endings in _ENDINGS.items() for ending in endings}
"""The formats of files, by their endings."""
FORMATS = ("parquet", "feather", "csv", "tsv", "npy", "npz", "hdf5", "zarr")
"""Names of formats, as users write them; each is also an ending."""
_FOLDERS = ("zarr",)
"""Formats whose files are folders."""
_WEB = ("http://", "https://")


def file_name(path: str) -> str:
    """The name of a file without its folders; for a URL of the web, without its query, too."""
    return Path(urlsplit(path).path if path.startswith(_WEB) else path).name


def format_of(path: str) -> str | None:
    """The format that the name of a file stands for, or None."""
    name = file_name(path).lower()
    if name.endswith(tuple(PACKED)):
        return "csv" if _KINDS.get(Path(Path(name).stem).suffix) == "csv" else None
    return _KINDS.get(Path(name).suffix)


@dataclass(frozen=True, slots=True)
class Found:
    """Files of one format, in order, and their file system."""

    kind: str
    paths: list[str]
    filesystem: fs.FileSystem
    base: str | None
    """The folder that was given, if it was one."""
    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    """Sizes and times of change of files, where a listing has them."""
    listings: Sequence[Listing] = ()
    """Folders of a store that were listed."""
    has_tabs: bool = False
    """Whether the values of CSV are separated by tabs, as format='tsv' says."""

    @property
    def is_local(self) -> bool:
        """Whether the files are on this machine."""
        return is_local(self.filesystem)


def find(data: Any, access: Access = DEFAULT, wanted: str | None = None) -> Found:
    """Find the files that a path, a glob, a folder, a URI or a list of these refers to.

    `wanted` is their format, one of `FORMATS`, if their names do not say it.
    """
    given = [os.fspath(one) for one in (data if isinstance(data, (list, tuple)) else [data])]
    places = [access.place(path) for path in given]
    filesystem, named = places[0].filesystem, dict[str, tuple[str, str]]()
    stamps, base, tables = dict[str, Stamp](), None, TableDetector(filesystem)
    listings = list[Listing]()
    for place, info in zip(places, _infos(places, listings), strict=True):
        if not place.filesystem.equals(filesystem):
            raise ValueError(
                f"{place.name!r} is on another file system than {given[0]!r}; all files must be "
                "on one"
            )
        found, folder = _expand(place, info, wanted, tables, listings)
        for file, stamp in found.items():
            real = os.path.realpath(file) if place.is_local else file
            if real in named:
                raise ValueError(
                    f"the file {file!r} is named twice, by {named[real][1]!r} and by "
                    f"{place.name!r}; name every file once, or its rows would count twice"
                )
            named[real] = file, place.name
            if stamp is not None:
                stamps[file] = stamp
        base = folder if len(given) == 1 else None
    paths = [file for file, _ in named.values()]
    if tables.table is not None:
        kind = tables.table.alone(given, wanted)
        return Found(kind, paths, filesystem, base, stamps)
    kind = _common_kind(paths) if wanted is None else _KINDS[f".{wanted}"]
    return Found(kind, paths, filesystem, base, stamps, listings, wanted == "tsv")


def _infos(places: list[Place], listings: list[Listing]) -> list[fs.FileInfo]:
    """Look up whether places are files or folders, several of a store at a time.

    Folders of which many files are named are listed instead, and added to `listings`.
    """
    known = dict[str, fs.FileInfo]()

    def look_up(place: Place) -> fs.FileInfo:
        with reaching(place.name):
            return known.get(place.path) or place.filesystem.get_file_info(place.path)

    first = places[0]
    if first.is_local:
        return list(map(look_up, places))
    with WaitingThreads(REQUESTS) as pool:
        named = [each.path for each in places if each.filesystem.equals(first.filesystem)]
        folders = listings_of(named)
        listed = pool.map(lambda each: each.tried(first.filesystem), folders)
        for each, infos in zip(folders, listed, strict=True):
            known |= {info.path: info for info in infos}
            listings.append(Listing(each.folder, entries=len(infos)))
        return list(pool.map(look_up, places))


def _common_kind(paths: list[str]) -> str:
    """The format that the names of all files stand for."""
    kinds = {format_of(path): path for path in paths}
    if None in kinds:
        raise ValueError(
            f"{kinds[None]!r} has no file format that lwcs reads; pass files that end in "
            f"{', '.join(_KINDS)} (CSV also compressed: {', '.join(PACKED)}), or name "
            "their format with format=…"
        )
    if len(kinds) > 1:
        raise ValueError(
            "files of different formats cannot be read together: "
            + ", ".join(map(repr, kinds.values()))
            + "; pass those of one format, for example with a pattern such as '*.parquet'"
        )
    return str(next(iter(kinds)))


def _expand(
    place: Place,
    info: fs.FileInfo,
    wanted: str | None,
    tables: TableDetector,
    listings: list[Listing],
) -> tuple[Listed, str | None]:
    """The files that one path refers to, sorted; and the folder, if it is one."""
    path, filesystem = place.path, place.filesystem
    if tables.is_table(place.name, path, info.type):
        return {path: None}, path
    everything = Wanted(EVERYTHING, wanted, tables.note, listings.append)
    is_folder = info.type == fs.FileType.Directory
    if info.type == fs.FileType.File or (is_folder and everything.is_file(path)):
        return {path: None if place.is_local else stamp_of(info)}, None
    if is_folder:
        known = files_below(filesystem, path, everything)
        tables.refuse(place.name, list(known))
        if not known:
            raise FileNotFoundError(
                f"the folder {place.name!r} has no file"
                + (f" that ends in {', '.join(_KINDS)}" if wanted is None else "")
            )
        return known, path
    if path.startswith(_WEB) or not any(sign in path for sign in "*?["):
        _refuse_missing_bucket(place)
        raise path_error(place)
    parts = path.split("/")
    fixed = next(i for i, part in enumerate(parts) if any(sign in part for sign in "*?["))
    folder = "/".join(parts[:fixed]) or ("/" if path.startswith("/") else ".")
    pattern, matching = tuple(parts[fixed:]), Listed()
    if not place.is_local or os.path.isdir(folder):
        files = Wanted(Pattern(pattern), wanted, tables.note, listings.append, unknown=True)
        # A pattern may also match folders; then it stands for their files.
        below = Wanted(Pattern((*pattern, "**", "*")), wanted, tables.note, listings.append)
        matching = files_below(filesystem, folder, files) or files_below(filesystem, folder, below)
    tables.refuse(place.name, list(matching))
    if not matching:
        _refuse_missing_bucket(place)
        if place.is_local and not os.path.isdir(folder):
            raise path_error(Place(filesystem, folder, folder))
        raise FileNotFoundError(f"no file matches {place.name!r}")
    return matching, folder


def _refuse_missing_bucket(place: Place) -> None:
    """Raise an error if the bucket of a place does not exist; one that cannot be asked may."""
    bucket, exists = container_of(place), True
    with suppress(OSError), reaching(place.name):
        exists = bucket is None or Place(place.filesystem, bucket, place.name).exists()
    if not exists:
        raise FileNotFoundError(
            f"{place.name!r} does not exist: there is no bucket {bucket!r}; correct its name"
        )
