"""Which files a path, a glob, a folder or a URI refers to, and their format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

from lwcs.sources.files.change_detection import Stamp, stamp_of
from lwcs.sources.options import PACKED
from lwcs.sources.remote.listing import EVERYTHING, Listed, Pattern, Wanted, files_below
from lwcs.sources.remote.prefetch import REQUESTS, WaitingThreads
from lwcs.sources.tables.table_formats import Lakes
from lwcs.storage.failures import reaching
from lwcs.storage.locations import DEFAULT, Access, Place, is_local

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
