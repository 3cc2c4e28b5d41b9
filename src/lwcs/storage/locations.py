"""Where files are: a path on this machine, or a URI of a store, and the file system behind it.

pyarrow's own file systems come first; what they do not know, or what is given options of fsspec,
is reached through fsspec.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lwcs.storage.failures import failure

if TYPE_CHECKING:
    from pyarrow import fs


@dataclass(frozen=True, slots=True)
class Place:
    """A path on a file system."""

    filesystem: fs.FileSystem
    path: str
    name: str
    """As it was given, for messages."""

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return is_local(self.filesystem)

    def exists(self) -> bool:
        """Whether there is a file or a folder."""
        from pyarrow import fs

        return bool(self.filesystem.get_file_info(self.path).type != fs.FileType.NotFound)


@dataclass(frozen=True, slots=True)
class Access:
    """How files are reached: a file system, or options for the one that a URI names."""

    filesystem: Any = None
    """One of pyarrow's or of fsspec's, or None."""
    storage_options: Mapping[str, Any] | None = None
    """Options of fsspec for the file system of a URI, such as ``{"anon": True}``."""

    def place(self, path: str | os.PathLike[str]) -> Place:
        """The file system and the path that a path or a URI stands for."""
        name, given = os.fspath(path), self.storage_options
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(
                f"storage_options= is a {type(given).__name__}; pass a dict, such as "
                '{"anon": True}'
            )
        if "\0" in name:
            raise ValueError(f"{name!r} is not a path: it contains the character NUL")
        if self.filesystem is not None:
            return self._on_given(name)
        if not is_uri(name):
            if self.storage_options:
                raise ValueError(
                    f"storage_options= is for URIs such as 's3://bucket/name', but {name!r} is a "
                    "path on this machine; leave it out"
                )
            from pyarrow import fs

            return Place(fs.LocalFileSystem(), os.path.normpath(os.path.expanduser(name)), name)
        if self.storage_options:
            return _by_fsspec(name, self.storage_options)
        return _by_pyarrow(name)

    def _on_given(self, name: str) -> Place:
        from pyarrow import fs

        if self.storage_options:
            raise ValueError(
                "filesystem= and storage_options= are both given; a file system has its options "
                "already: leave out storage_options="
            )
        given = self.filesystem
        if isinstance(given, fs.FileSystem):
            path = name.split("://", 1)[1] if is_uri(name) else name
            return Place(given, path, name)
        if not hasattr(given, "_strip_protocol"):
            raise TypeError(
                f"filesystem= is a {type(given).__name__}; pass a pyarrow.fs.FileSystem or a file "
                "system of fsspec"
            )
        return Place(_wrapped(given), given._strip_protocol(name), name)


DEFAULT = Access()


def is_uri(name: str) -> bool:
    """Whether a name is a URI, rather than a path on this machine."""
    return "://" in name


def is_local(filesystem: fs.FileSystem) -> bool:
    """Whether files are on this machine."""
    from pyarrow import fs

    return isinstance(filesystem, fs.LocalFileSystem)


def _by_pyarrow(name: str) -> Place:
    import pyarrow as pa
    from pyarrow import fs

    try:
        filesystem, path = fs.FileSystem.from_uri(name)
    except (pa.ArrowInvalid, ValueError):
        return _by_fsspec(name, {})
    except OSError as error:
        # It asks for the region of a bucket.
        raise failure(name, error) from error
    return Place(filesystem, path, name)


def _by_fsspec(name: str, options: Mapping[str, Any]) -> Place:
    try:
        import fsspec.core
    except ImportError as error:
        raise ImportError(
            f"{name!r} is reached through fsspec, which is not installed; pip install "
            "'lwcs[remote]'"
        ) from error
    try:
        where, path = fsspec.core.url_to_fs(name, **options)
    except ValueError as error:
        raise ValueError(
            f"{name!r} is not a URI that can be opened ({error}); pass a path, or a URI such as "
            "'s3://bucket/name' or 'gs://bucket/name'"
        ) from error
    return Place(_wrapped(where), path, name)


def _wrapped(filesystem: Any) -> fs.FileSystem:
    from pyarrow import fs

    from lwcs.storage.fsspec_files import FsspecFiles

    return fs.PyFileSystem(FsspecFiles(filesystem))
