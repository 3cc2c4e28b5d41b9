"""Which files a path, a glob, a folder or a URI refers to, and their format."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

from lwcs.runtime.warnings import warn
from lwcs.sources.files.change_detection import Stamp, stamp_of
from lwcs.sources.remote.prefetch import REQUESTS, WaitingThreads
from lwcs.sources.scan_options import PACKED
from lwcs.sources.tables.table_formats import Lakes
from lwcs.storage.locations import DEFAULT, Access, Place, is_local, reaching

_HIDDEN = (".", "_")
States = frozenset[int]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A glob below a folder: * stands for a part of a name, ** for any number of folders.

    The states of a path are the numbers of parts of the pattern that may have matched it.
    """

    parts: tuple[str, ...]

    @property
    def start(self) -> States:
        """The states of the folder itself."""
        return self._closed([0])

    def step(self, states: States, name: str) -> States:
        """The states of what is called `name` in a folder with these states; none if no match."""
        after = []
        for at in states:
            if at < len(self.parts):
                if self.parts[at] == "**":
                    after.append(at)
                elif fnmatchcase(name, self.parts[at]):
                    after.append(at + 1)
        return self._closed(after)

    def matches(self, states: States) -> bool:
        """Whether a path with these states matches."""
        return len(self.parts) in states

    def below(self, states: States) -> States:
        """The states of a folder from which something below it can still match."""
        return states - {len(self.parts)}

    def is_deep(self, states: States) -> bool:
        """Whether a folder with these states can have matches at any depth."""
        return any(self.parts[at] == "**" for at in self.below(states))

    def _closed(self, states: Iterable[int]) -> States:
        """With those that are reached by ** standing for no folder."""
        found, new = set[int](), list(states)
        while new:
            at = new.pop()
            found.add(at)
            if at < len(self.parts) and self.parts[at] == "**" and at + 1 not in found:
                new.append(at + 1)
        return frozenset(found)


EVERYTHING = Pattern(("**", "*"))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which paths to list."""

    pattern: Pattern
    """What their names match, below a folder."""
    keep: Callable[[str], bool]
    """Whether a path that matches is listed."""
    is_file: Callable[[str], bool]
    """Whether a folder counts as a file."""
    note: Callable[[str], None] = lambda _: None
    """Told of everything that is in the folders that are looked into, also if it is hidden."""


Listed = dict[str, Stamp | None]
"""Paths of files in order, and their stamps where a listing has told them."""


def files_below(filesystem: fs.FileSystem, folder: str, wanted: Wanted) -> Listed:
    """The files in a folder that are wanted, sorted; hidden ones are not."""
    if isinstance(filesystem, fs.LocalFileSystem):
        return dict.fromkeys(_Walk(folder, wanted).files())
    return dict(sorted(_on_store(filesystem, folder, wanted).items()))


def _on_store(filesystem: fs.FileSystem, folder: str, wanted: Wanted) -> Listed:
    """List level by level, and only folders in which something can match.

    From where a pattern allows any number of folders, one listing has all that is below.
    """
    pattern, found = wanted.pattern, Listed()

    def look_into(at: tuple[str, States]) -> list[fs.FileInfo]:
        path, states = at
        with reaching(path):
            return list(
                filesystem.get_file_info(
                    fs.FileSelector(path, allow_not_found=True, recursive=pattern.is_deep(states))
                )
            )

    level = [(folder, pattern.start)]
    with WaitingThreads(REQUESTS) as pool:
        while level:
            below = []
            for (path, states), infos in zip(level, pool.map(look_into, level), strict=True):
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
    """The states of something below a folder; none if it is hidden, or within a file."""
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
    """One walk over a local folder."""

    def __init__(self, folder: str, wanted: Wanted) -> None:
        self._folder, self._wanted, self._pattern = folder, wanted, wanted.pattern
        self._root = os.path.realpath(folder)
        self._found: dict[bool, dict[str, str]] = {False: {}, True: {}}
        self._left_out: list[str] = []

    def files(self) -> list[str]:
        """Paths of the files that match, sorted; says which links were not followed."""
        waiting = deque([_Folder(self._folder, self._root, self._pattern.start, False)])
        seen: set[tuple[str, States]] = set()
        while waiting:
            folder = waiting.popleft()
            if (folder.real, folder.states) in seen:
                # By another link, or in a circle: the same files would match again.
                continue
            seen.add((folder.real, folder.states))
            for below in self._look_into(folder):
                # Folders themselves come before links to them.
                (waiting.append if below.linked else waiting.appendleft)(below)
        if self._left_out:
            self._say()
        return sorted((self._found[True] | self._found[False]).values())

    def _look_into(self, folder: _Folder) -> Iterator[_Folder]:
        for entry in os.scandir(folder.path):
            path = f"{folder.path.rstrip('/')}/{entry.name}"
            self._wanted.note(path)
            if entry.name.startswith(_HIDDEN):
                continue
            states = self._pattern.step(folder.states, entry.name)
            if not states:
                continue
            linked, real = folder.linked or entry.is_symlink(), f"{folder.real}/{entry.name}"
            is_folder = entry.is_dir() and not self._wanted.is_file(path)
            below = self._pattern.below(states)
            if not below if is_folder else not self._is_wanted(path, states):
                continue
            if entry.is_symlink():
                real = os.path.realpath(path)
                if not os.path.exists(real) or not self._is_inside(real):
                    self._left_out.append(path)
                    continue
            if is_folder:
                yield _Folder(path, real, below, linked)
            elif os.path.isfile(path) or os.path.isdir(path):
                self._found[linked].setdefault(real, path)

    def _is_wanted(self, path: str, states: States) -> bool:
        return self._pattern.matches(states) and self._wanted.keep(path)

    def _is_inside(self, real: str) -> bool:
        return os.path.commonpath([self._root, real]) == self._root

    def _say(self) -> None:
        some = ", ".join(map(repr, sorted(self._left_out)[:5]))
        more = ", …" if len(self._left_out) > 5 else ""
        warn(
            f"these links lead out of the folder {self._folder!r}, or nowhere, and are not "
            f"followed: {some}{more}; to read them, too, name them in a list of paths"
        )


_KINDS = {
    "parquet": "parquet",
    "feather": "ipc",
    "csv": "csv",
    "tsv": "csv",
    "npy": "npy",
    "npz": "npz",
    "hdf5": "hdf5",
    "zarr": "zarr",
}
FORMATS = tuple(_KINDS)
"""Names of formats, as users write them."""
_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "ipc",
    ".arrow": "ipc",
    ".ipc": "ipc",
    ".csv": "csv",
    ".tsv": "csv",
    ".npy": "npy",
    ".npz": "npz",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".zarr": "zarr",
}
_FOLDERS = ("zarr",)
"""Formats whose files are folders."""
_WEB = ("http://", "https://")


def file_name(path: str) -> str:
    """The name of a file without its folders; for a URL of the web, without its query, too."""
    return Path(urlsplit(path).path if path.startswith(_WEB) else path).name


def format_of(path: str) -> str | None:
    """The format that the name of a file stands for, or None."""
    name = file_name(path).lower()
    found = _FORMATS.get(Path(name).suffix)
    if found is None and name.endswith(tuple(PACKED)):
        found = _FORMATS.get(Path(name).with_suffix("").suffix)
        return found if found == "csv" else None
    return found


@dataclass(frozen=True, slots=True)
class Found:
    """Files of one format, in order, and their file system."""

    kind: str
    paths: list[str]
    filesystem: fs.FileSystem
    base: str | None
    """The folder that was given, if it was one."""
    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    """Sizes and times of change of files, where finding them has told."""
    has_tabs: bool = False
    """Whether it was said that values of CSV have tabs between them."""

    @property
    def is_local(self) -> bool:
        """Whether the files are on this machine."""
        return is_local(self.filesystem)


def find(data: Any, access: Access = DEFAULT, wanted: str | None = None) -> Found:
    """Find the files that a path, a glob, a folder, a URI or a list of these refers to.

    `wanted` is their format, one of `FORMATS`, if their names do not say it.
    """
    wishes = [os.fspath(one) for one in (data if isinstance(data, (list, tuple)) else [data])]
    places = [access.place(wish) for wish in wishes]
    filesystem, named = places[0].filesystem, dict[str, tuple[str, str]]()
    stamps, base, lakes = dict[str, Stamp](), None, Lakes(filesystem)
    for place, info in zip(places, _infos(places), strict=True):
        if not place.filesystem.equals(filesystem):
            raise ValueError(
                f"{place.name!r} is on another file system than {wishes[0]!r}; all files must be "
                "on one"
            )
        found, folder = _expand(place, info, wanted, lakes)
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
        base = folder if len(wishes) == 1 else None
    paths = [file for file, _ in named.values()]
    if lakes.table is not None:
        return Found(lakes.table.alone(wishes, wanted), paths, filesystem, base, stamps)
    kind = _common_kind(paths) if wanted is None else _KINDS[wanted]
    return Found(kind, paths, filesystem, base, stamps, wanted == "tsv")


def _infos(places: list[Place]) -> list[fs.FileInfo]:
    """What there is at some places."""

    def look_at(place: Place) -> fs.FileInfo:
        with reaching(place.name):
            return place.filesystem.get_file_info(place.path)

    if places[0].is_local:
        return list(map(look_at, places))
    with WaitingThreads(REQUESTS) as pool:
        return list(pool.map(look_at, places))


def _common_kind(paths: list[str]) -> str:
    """The format that the names of all files stand for."""
    kinds = {format_of(path): path for path in paths}
    if None in kinds:
        raise ValueError(
            f"{kinds[None]!r} has no file format that lwcs reads; pass files that end in "
            f"{', '.join(_FORMATS)} (CSV also compressed: {', '.join(PACKED)}), or name "
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
    place: Place, info: fs.FileInfo, wanted: str | None, lakes: Lakes
) -> tuple[Listed, str | None]:
    """The files that one path refers to, sorted; and the folder, if it is one."""
    path, filesystem = place.path, place.filesystem
    if lakes.is_table(place.name, path, info.type):
        return {path: None}, path
    # With a format that is given, names need not say it.
    keep = _is_known if wanted is None else _is_any
    is_leaf = _is_leaf if wanted is None else _is_any if wanted in _FOLDERS else _is_none
    if info.type == fs.FileType.File or (info.type == fs.FileType.Directory and is_leaf(path)):
        return {path: None if place.is_local else stamp_of(info)}, None
    if info.type == fs.FileType.Directory:
        known = files_below(filesystem, path, Wanted(EVERYTHING, keep, is_leaf, lakes.note))
        lakes.refuse(place.name, list(known))
        if not known:
            raise FileNotFoundError(
                f"the folder {place.name!r} has no file"
                + (f" that ends in {', '.join(_FORMATS)}" if wanted is None else "")
            )
        return known, path
    if path.startswith(_WEB) or not any(sign in path for sign in "*?["):
        raise FileNotFoundError(f"{place.name!r} does not exist")
    parts = path.split("/")
    fixed = next(i for i, part in enumerate(parts) if any(sign in part for sign in "*?["))
    folder = "/".join(parts[:fixed]) or ("/" if path.startswith("/") else ".")
    pattern, matching = tuple(parts[fixed:]), Listed()
    if not place.is_local or _is_folder(filesystem, folder):
        files = Wanted(Pattern(pattern), _is_any, is_leaf, lakes.note)
        # A pattern may also match folders; then it stands for their files.
        below = Wanted(Pattern((*pattern, "**", "*")), keep, is_leaf, lakes.note)
        matching = files_below(filesystem, folder, files) or files_below(filesystem, folder, below)
    lakes.refuse(place.name, list(matching))
    if not matching:
        raise FileNotFoundError(f"no file matches {place.name!r}")
    return matching, folder


def _is_any(_: str) -> bool:
    return True


def _is_none(_: str) -> bool:
    return False


def _is_known(path: str) -> bool:
    return format_of(path) is not None


def _is_leaf(path: str) -> bool:
    return format_of(path) in _FOLDERS


def _is_folder(filesystem: fs.FileSystem, path: str) -> bool:
    return bool(filesystem.get_file_info(path).type == fs.FileType.Directory)
