"""Which files a path, a glob, a folder or a URI refers to, and their format."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import fs

from lwcs.foundation.places import Access, is_local
from lwcs.sources.listing import EVERYTHING, Pattern, Wanted, files_below

FORMATS = ("parquet", "feather", "csv", "tsv", "npy", "npz", "hdf5", "zarr")
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
_PACKED = (".gz", ".zst", ".bz2", ".lz4", ".br")


def format_of(path: str) -> str | None:
    """The format that the name of a file stands for, or None."""
    name = Path(path).name.lower()
    found = _FORMATS.get(Path(name).suffix)
    if found is None and name.endswith(_PACKED):
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

    @property
    def is_local(self) -> bool:
        """Whether the files are on this machine."""
        return is_local(self.filesystem)


_DEFAULT = Access()


def find(data: Any, access: Access = _DEFAULT, kind: str | None = None) -> Found:
    """Find the files that a path, a glob, a folder, a URI or a list of these refers to.

    `kind` is their format, if their names do not say it.
    """
    wishes = [os.fspath(one) for one in (data if isinstance(data, (list, tuple)) else [data])]
    filesystem, named, base = None, dict[str, tuple[str, str]](), None
    for wish in wishes:
        place = access.place(wish)
        where, path = place.filesystem, place.path
        if filesystem is not None and not where.equals(filesystem):
            raise ValueError(
                f"{wish!r} is on another file system than {wishes[0]!r}; all files must be on one"
            )
        filesystem = where
        found, folder = _expand(wish, path, where)
        for file in found:
            real = os.path.realpath(file) if is_local(where) else file
            if real in named:
                raise ValueError(
                    f"the file {file!r} is named twice, by {named[real][1]!r} and by {wish!r}; "
                    "name every file once, or its rows would count twice"
                )
            named[real] = file, wish
        base = folder if len(wishes) == 1 else None
    paths = [file for file, _ in named.values()]
    assert filesystem is not None
    if kind is not None:
        return Found(kind, paths, filesystem, base)
    kinds = {format_of(path): path for path in paths}
    if None in kinds:
        raise ValueError(
            f"{kinds[None]!r} has no file format that lwcs reads; pass files that end in "
            f"{', '.join(_FORMATS)} (CSV also compressed: {', '.join(_PACKED)}), or name "
            "their format with format=…"
        )
    if len(kinds) > 1:
        raise ValueError(
            "files of different formats cannot be read together: "
            + ", ".join(map(repr, kinds.values()))
            + "; pass those of one format, for example with a pattern such as '*.parquet'"
        )
    return Found(str(next(iter(kinds))), paths, filesystem, base)


def _expand(wish: str, path: str, filesystem: fs.FileSystem) -> tuple[list[str], str | None]:
    """The files that one path refers to, sorted; and the folder, if it is one."""
    info = filesystem.get_file_info(path)
    if info.type == fs.FileType.File or (info.type == fs.FileType.Directory and _is_leaf(path)):
        return [path], None
    if info.type == fs.FileType.Directory:
        known = files_below(filesystem, path, Wanted(EVERYTHING, _is_known, _is_leaf))
        if not known:
            raise FileNotFoundError(
                f"the folder {wish!r} has no file that ends in {', '.join(_FORMATS)}"
            )
        return known, path
    if not any(sign in path for sign in "*?["):
        raise FileNotFoundError(f"{wish!r} does not exist")
    parts = path.split("/")
    fixed = next(i for i, part in enumerate(parts) if any(sign in part for sign in "*?["))
    folder = "/".join(parts[:fixed]) or ("/" if path.startswith("/") else ".")
    pattern, matching = tuple(parts[fixed:]), list[str]()
    if _is_folder(filesystem, folder):
        files = Wanted(Pattern(pattern), lambda _: True, _is_leaf)
        # A pattern may also match folders; then it stands for their files.
        below = Wanted(Pattern((*pattern, "**", "*")), _is_known, _is_leaf)
        matching = files_below(filesystem, folder, files) or files_below(filesystem, folder, below)
    if not matching:
        raise FileNotFoundError(f"no file matches {wish!r}")
    return matching, folder


def _is_known(path: str) -> bool:
    return format_of(path) is not None


def _is_leaf(path: str) -> bool:
    return format_of(path) in _FOLDERS


def _is_folder(filesystem: fs.FileSystem, path: str) -> bool:
    return bool(filesystem.get_file_info(path).type == fs.FileType.Directory)
