"""Locations of files, on this machine or on a store, and the errors of reaching them.

A URI is opened by pyarrow's own file systems, which need no further package and take the
credentials of the environment; by fsspec where pyarrow does not know it, or where options of fsspec
are given. Either way, it is a file system of pyarrow for the rest of the package.

Failures of a store or a disk become OSErrors that name the file, whatever library reports them: a
PermissionError, FileNotFoundError, TimeoutError, ConnectionError or OSError with an errno. After
these one can try again; what is wrong in a file is a ValueError.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from lwcs.arrays.checks import translating
from lwcs.storage.path_errors import check_name

if TYPE_CHECKING:
    from pyarrow import fs


@dataclass(frozen=True, slots=True)
class Place:
    """A path on a file system."""

    filesystem: fs.FileSystem
    path: str
    name: str
    """The path or URI as it was given, for messages."""

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
        if (local := _FILE_URI.match(name)) is not None:
            return self._by_file_uri(name, local)
        if not is_uri(name):
            check_name(name)
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

    def _by_file_uri(self, name: str, local: re.Match[str]) -> Place:
        if (local["host"] or "").lower() not in ("", "localhost"):
            raise ValueError(
                f"{name!r} names the machine {local['host']!r}, whose files are not reached by "
                "file:; pass a path below which they are mounted, as file:///… or without file:"
            )
        own = f"file://{name[local.end() :]}"
        found = _by_fsspec(own, given) if (given := self.storage_options) else _by_pyarrow(own)
        return replace(found, name=name)

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
_FILE_URI = re.compile(r"file:(?://(?P<host>[^/]*))?(?=/)", re.IGNORECASE)


def is_uri(name: str) -> bool:
    """Whether a name is a URI, rather than a path on this machine."""
    return "://" in name


def is_local(filesystem: fs.FileSystem) -> bool:
    """Whether files are on this machine."""
    from pyarrow import fs

    return isinstance(filesystem, fs.LocalFileSystem)


def _by_pyarrow(name: str) -> Place:
    import pyarrow as pa

    try:
        filesystem, path = _from_uri(name)
    except (pa.ArrowInvalid, ValueError):
        return _by_fsspec(name, {})
    except OSError as error:
        # It asks for the region of a bucket.
        raise failure(name, error) from error
    return Place(filesystem, path, name)


def _from_uri(name: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI; on S3, small files are written by one request, where it can.

    Otherwise each takes three, and a failure leaves a part of it, which pyarrow cannot remove.
    """
    import pyarrow as pa
    from pyarrow import fs

    if name.startswith("s3://"):
        with suppress(pa.ArrowInvalid):
            joined = "&" if "?" in name else "?"
            return fs.FileSystem.from_uri(f"{name}{joined}allow_delayed_open=true")
    return fs.FileSystem.from_uri(name)


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


@dataclass(frozen=True, slots=True)
class _FailureKind:
    """A kind of failure of stores, and what tells it where the type of an error does not."""

    error: type[OSError]
    number: int
    reason: str
    statuses: tuple[int, ...]
    """HTTP statuses."""
    phrases: str
    """Phrases of messages, in lower case: pyarrow and deltalake raise plain OSErrors."""

    def is_told_by(self, status: int | None, message: str) -> bool:
        """Whether a status or a message tells this kind."""
        said = message.lower()
        return status in self.statuses or any(each in said for each in self.phrases.split("|"))


_UNREACHABLE = _FailureKind(
    ConnectionError, errno.ECONNREFUSED, "it cannot be reached", (),
    "network_connection|curlcode|could not connect|cannot connect|connect call failed|"
    "resolve host|name or service|disconnected|connection refused|connection reset|"
    "connection closed|connection was closed|connection aborted",
)  # fmt: skip
_KINDS = (
    _FailureKind(
        PermissionError, errno.EACCES, "access was refused{status}; check {check}", (401, 403),
        "access_denied|access denied|forbidden|lacked the necessary privileges|nocredentials|"
        "unable to locate credentials|invalid_access_key|invalidaccesskeyid|expired_token|"
        "expiredtoken|signature_does_not_match|signaturedoesnotmatch|invalid_client_token|"
        "unrecognized_client",
    ),
    _FailureKind(
        FileNotFoundError, errno.ENOENT, "there is no such {missing}", (404,),
        "no_such_bucket|no_such_key|nosuchbucket|nosuchkey|resource_not_found|"
        "bucket does not exist|' not found",
    ),
    _FailureKind(
        TimeoutError, errno.ETIMEDOUT, "no answer in time{status}; try again", (408, 504),
        "timeout|timed out|time out",
    ),
    _UNREACHABLE,
)  # fmt: skip
_NO_BUCKET = re.compile(
    r"no_?such_?bucket|bucket '[^']*' not found|bucket does not exist|region for bucket",
    re.IGNORECASE,
)
_STATUS = re.compile(r"(?:HTTP status|status code:?|status:) (\d{3})")
_OF_STORES = re.compile(
    r"AWS Error|Azure Error|google::cloud|Generic \w+ error|lacked the necessary privileges"
)
"""Phrases of pyarrow and deltalake about stores; errors about contents are plain OSErrors, too."""


def reaching(name: str) -> AbstractContextManager[None]:
    """Turn every error of reaching a file into an OSError that names it.

    The block must not look at the contents of the file, whose errors are others.
    """

    def translate(error: Exception) -> Exception | None:
        if isinstance(error, (ImportError, MemoryError)) or is_of_the_place(error):
            return None
        if isinstance(error, (TypeError, AttributeError)):
            # Libraries do not check options before they use them.
            return ValueError(
                f"{name!r} cannot be reached with these options: {first_line(error)}; check "
                "storage_options="
            )
        return failure(name, error)

    return translating(translate)


def is_of_the_place(error: BaseException) -> bool:
    """Whether an error is a failure of a store or disk that names the file already."""
    return isinstance(error, OSError) and error.errno is not None and error.filename is not None


def of_the_place(name: str, error: BaseException, doing: str = "reading") -> OSError | None:
    """The failure of a store or a disk behind an error, or None if it is about something else.

    pyarrow raises OSErrors without an errno about bad contents. Errors of types that are neither
    Python's nor pyarrow's nor lwcs's come from libraries for stores.
    """
    if isinstance(error, OSError):
        if is_of_the_place(error):
            return error
        known = type(error) is not OSError or error.errno is not None
        return failure(name, error, doing) if known or _OF_STORES.search(str(error)) else None
    package = type(error).__module__.split(".")[0]
    if package in ("builtins", "pyarrow", "lwcs") or isinstance(
        error, (ValueError, TypeError, ImportError, MemoryError)
    ):
        return None
    return failure(name, error, doing)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type if it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def failure(name: str, error: BaseException, doing: str = "reading") -> OSError:
    """The error of a library, as an OSError that names a file; `doing` is what failed."""
    bare = isinstance(error, OSError) and error.filename is None and error.strerror
    message = " ".join((bare or str(error)).split()) or type(error).__name__
    status = _http_status(error)
    answer = "" if status is None else f" (HTTP status {status}{_phrase(status)})"
    for kind in _KINDS:
        # What answers with a status has been reached.
        told = kind.is_told_by(status, message) and not (kind is _UNREACHABLE and status)
        if told or isinstance(error, kind.error):
            check = "the credentials" if told else "its permissions"
            missing = "bucket" if _NO_BUCKET.search(message) else "file or bucket"
            reason = kind.reason.format(status=answer, check=check, missing=missing)
            return kind.error(kind.number, f"{reason}: {message}", name)
    if "range requests" in message:
        reason = "its server gives no parts of files, which reading needs; copy it to this machine"
        return OSError(errno.ENOTSUP, reason, name)
    number = getattr(error, "errno", None) or errno.EIO
    return OSError(number, f"{doing} failed{answer}; try again: {message}", name)


def _http_status(error: BaseException) -> int | None:
    """The HTTP status in an error of botocore, aiohttp or pyarrow, or in one of its causes."""
    cause: BaseException | None = error
    while cause is not None:
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        else:
            status = getattr(cause, "status", None) or getattr(cause, "code", None)
        if isinstance(status, int) and 400 <= status < 600:
            return status
        if match := _STATUS.search(str(cause)):
            return int(match[1])
        cause = cause.__cause__ or cause.__context__
    return None


def _phrase(status: int) -> str:
    with suppress(ValueError):
        return f", {HTTPStatus(status).phrase}"
    return ""


_VANISHED = "vanished before all rows were read"


def explaining(read: list[str] | str) -> AbstractContextManager[None]:
    """Name what is read in errors: the paths of files, or the name of a table or a dataset."""
    return translating(lambda error: _explained(error, read))


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
    """The path of the first file, and how many others there are."""
    others = len(paths) - 1
    more = f" and {others} more file{'s' * (others > 1)}" if others else ""
    return f"{paths[0]!r}{more}"
