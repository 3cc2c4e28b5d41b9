"""Failures of a place, as OSErrors that name the file, whatever library reports them.

Stores are reached through pyarrow, fsspec, botocore and aiohttp, each with errors of its own. Here
they become a PermissionError, FileNotFoundError, TimeoutError, ConnectionError or OSError, with
an errno: that tells a failure of the place, after which one can try again, from bad content.
`reaching` is for blocks that only reach a place; where contents are read, too, `of_the_place` tells
one from the other.
"""

from __future__ import annotations

import errno
import re
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
