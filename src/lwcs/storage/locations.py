"""Where files are: a path on this machine, or a URI of a store, and the file system behind it.

pyarrow's own file systems come first; what they do not know, or what is given options of fsspec,
is reached through fsspec.

Failures of a place become OSErrors that name the file, whatever library reports them: a
PermissionError, FileNotFoundError, TimeoutError, ConnectionError or OSError with an errno. That
tells a failure of the place, after which one can try again, from bad content.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    from lwcs.storage.stores import FsspecFiles

    return fs.PyFileSystem(FsspecFiles(filesystem))


_STATUS = re.compile(r"(?:HTTP status|status code:?|status:) (\d{3})")
_REFUSED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|SIGNATURE_DOES_NOT_MATCH|"
    r"EXPIRED_TOKEN|UNRECOGNIZED_CLIENT|NoCredentials|Unable to locate credentials|"
    r"InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|Forbidden|Access Denied|"
    r"lacked the necessary privileges",
)
_MISSING = re.compile(r"NO_SUCH_(?:BUCKET|KEY)|NoSuch(?:Bucket|Key)|RESOURCE_NOT_FOUND")
_SLOW = re.compile(r"timed? ?out|timeout|REQUEST_TIMEOUT", re.IGNORECASE)
_OF_STORES = re.compile(
    r"AWS Error|Azure Error|google::cloud|Generic \w+ error|lacked the necessary privileges"
)
"""What pyarrow and deltalake say of stores; errors of contents are plain OSErrors, too."""
_UNREACHABLE = re.compile(
    r"NETWORK_CONNECTION|curlCode|Could not connect|Cannot connect|Connect call failed|"
    r"resolve host|Name or service|"
    r"Connection (?:refused|reset|closed|aborted)|disconnected",
    re.IGNORECASE,
)


@contextmanager
def reaching(name: str) -> Iterator[None]:
    """Turn whatever is raised while a place is reached into an OSError that names it.

    Only for what reaches it: nothing within may look at the contents of a file.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (ImportError, MemoryError)) or is_of_the_place(error):
            raise
        if isinstance(error, (TypeError, AttributeError)):
            # Libraries take options on trust, and fail by them when they are used.
            raise ValueError(
                f"{name!r} cannot be reached with these options: {first_line(error)}; check "
                "storage_options="
            ) from error
        raise failure(name, error) from error


def is_of_the_place(error: BaseException) -> bool:
    """Whether an error tells of a place and names it, rather than of the contents of a file."""
    return isinstance(error, OSError) and error.errno is not None and error.filename is not None


def of_the_place(name: str, error: BaseException, doing: str = "reading") -> OSError | None:
    """The failure of a place that an error tells of, or None if it tells of anything else.

    pyarrow says of bad contents that they are an OSError, which has no errno. Errors that are
    neither Python's nor pyarrow's nor ours are those of libraries for stores.
    """
    if isinstance(error, OSError):
        known = type(error) is not OSError or error.errno is not None
        is_one = known or _OF_STORES.search(str(error)) is not None
    else:
        package = type(error).__module__.split(".")[0]
        is_one = package not in ("builtins", "pyarrow", "lwcs") and not isinstance(
            error, (ValueError, TypeError, ImportError, MemoryError)
        )
    if not is_one:
        return None
    if isinstance(error, OSError) and is_of_the_place(error):
        return error
    return failure(name, error, doing)


def first_line(error: BaseException) -> str:
    """The first line of what an error says, or its type if it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def failure(name: str, error: BaseException, doing: str = "reading") -> OSError:
    """The error of a library, as an OSError that names a file; `doing` is what failed."""
    bare = isinstance(error, OSError) and error.filename is None and error.strerror
    status, said = _status(error), " ".join((bare or str(error)).split()) or type(error).__name__
    answer = "" if status is None else f" (HTTP status {status}{_phrase(status)})"
    if isinstance(error, PermissionError) or status in (401, 403) or _REFUSED.search(said):
        of_store = status is not None or _REFUSED.search(said)
        check = "the credentials" if of_store else "its permissions"
        return PermissionError(
            errno.EACCES, f"access was refused{answer}; check {check}: {said}", name
        )
    if isinstance(error, FileNotFoundError) or status == 404 or _MISSING.search(said):
        return FileNotFoundError(errno.ENOENT, f"there is no such file or bucket: {said}", name)
    if isinstance(error, TimeoutError) or status in (408, 504) or _SLOW.search(said):
        return TimeoutError(errno.ETIMEDOUT, f"no answer in time{answer}; try again: {said}", name)
    if isinstance(error, ConnectionError) or (status is None and _UNREACHABLE.search(said)):
        return ConnectionError(errno.ECONNREFUSED, f"it cannot be reached: {said}", name)
    if "range requests" in said:
        return OSError(
            errno.ENOTSUP,
            "its server gives no parts of files, which reading needs; copy it to this machine",
            name,
        )
    known = getattr(error, "errno", None) or errno.EIO
    return OSError(known, f"{doing} failed{answer}; try again: {said}", name)


def _status(error: BaseException) -> int | None:
    """The HTTP status that an error tells of: of botocore, aiohttp or pyarrow, or of its cause."""
    seen: BaseException | None = error
    while seen is not None:
        response = getattr(seen, "response", None)
        if isinstance(response, dict):
            found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        else:
            found = getattr(seen, "status", None) or getattr(seen, "code", None)
        if isinstance(found, int) and 400 <= found < 600:
            return found
        if told := _STATUS.search(str(seen)):
            return int(told[1])
        seen = seen.__cause__ or seen.__context__
    return None


def _phrase(status: int) -> str:
    phrases = {each.value: each.phrase for each in HTTPStatus}
    return f", {phrases[status]}" if status in phrases else ""


_VANISHED = "vanished before all rows were read"


@contextmanager
def explaining(read: list[str] | str) -> Iterator[None]:
    """Name what is read in errors: the paths of files, or what a table or a dataset is called.

    A failure of the place is an OSError, after which one can try again. Bad contents are a
    ValueError.
    """
    try:
        yield
    except Exception as error:
        explained = _explained(error, read)
        if explained is error:
            raise
        raise explained from error


def _explained(error: Exception, read: list[str] | str) -> Exception:
    failed = of_the_place(read if isinstance(read, str) else read[0], error)
    if isinstance(failed, FileNotFoundError):
        if isinstance(read, list) and _VANISHED in str(error):
            # Explained already, for one of the files.
            return error
        what = f"a file of {read}" if isinstance(read, str) else some(read)
        return FileNotFoundError(f"{what} {_VANISHED} ({first_line(error)}); open it again")
    if failed is not None:
        return failed
    import pyarrow as pa

    if isinstance(error, (pa.ArrowException, OSError, UnicodeDecodeError)):
        what = read if isinstance(read, str) else some(read)
        return ValueError(
            f"{what} cannot be read (it may be truncated, corrupted, or have rows that differ in "
            f"their columns): {first_line(error)}"
        )
    return error


def some(paths: list[str]) -> str:
    """The name of the first file, and how many others there are."""
    others = len(paths) - 1
    more = f" and {others} more file{'s' * (others > 1)}" if others else ""
    return f"{paths[0]!r}{more}"
