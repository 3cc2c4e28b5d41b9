"""Files: Parquet tables with metadata of lwcs in their schema, written atomically.

The metadata is JSON under the key ``lwcs``, with a checksum of itself and of all columns. Nothing
is ever unpickled.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lwcs
from lwcs.foundation.fields import Fields, reading
from lwcs.foundation.notices import warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

FORMAT_VERSION = 2
"""Since version 2, files have a checksum."""
_KEY = b"lwcs"
_CHECKSUM = "checksum"


class NotOursError(ValueError):
    """A file that lwcs did not write, or that cannot be read at all."""


def check_target(path: str | os.PathLike[str]) -> Path:
    """Refuse a path that cannot be written, before any work is done; return the file to write."""
    # A link is followed: its target is replaced, not the link itself.
    target = Path(os.path.realpath(path))
    if not str(path) or target.is_dir():
        raise IsADirectoryError(f"cannot write {str(path)!r}: that is a folder; name a file in it")
    # The link of a pipe, such as /dev/stdout, has a target that is not there.
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(
            f"cannot replace {str(path)!r}: it is not a regular file; pass another path"
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"cannot write {str(target)!r}: the folder {str(target.parent)!r} does not exist; "
            "create it first"
        )
    if not os.access(target.parent, os.W_OK):
        raise _cannot_write(path, f"the folder {str(target.parent)!r} is read-only")
    return target


def _cannot_write(path: str | os.PathLike[str], why: str) -> OSError:
    return OSError(f"cannot write {str(path)!r}: {why}; pass a path that you may write to")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path next to `path`; move it into place only if the block succeeds."""
    target = check_target(path)
    temporary = target.parent / f".lwcs-{secrets.token_hex(8)}.tmp"
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise _cannot_write(path, error.strerror or str(error)) from error
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise


def with_metadata(table: pa.Table, kind: str, metadata: dict[str, Any]) -> pa.Table:
    """Attach the metadata of lwcs to the schema of a table."""
    record = {
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "library_version": lwcs.__version__,
        **metadata,
    }
    return sealed(table, record)


def sealed(table: pa.Table, record: dict[str, Any]) -> pa.Table:
    """Attach a record to the schema of a table, with a checksum of both."""
    from lwcs.foundation.checksums import checksum

    # As it will be read: tuples become lists, and keys become texts.
    plain = json.loads(json.dumps(record, allow_nan=False))
    plain.pop(_CHECKSUM, None)
    plain[_CHECKSUM] = checksum(table, plain)
    return table.replace_schema_metadata({_KEY: json.dumps(plain, allow_nan=False)})


def write_table(table: pa.Table, path: str | os.PathLike[str]) -> None:
    """Write a table as Parquet, atomically."""
    import pyarrow.parquet as pq

    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def is_ours(path: str | os.PathLike[str]) -> bool:
    """Whether a file is Parquet that lwcs wrote, by its schema."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return Path(path).is_file() and _KEY in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return False


def read_table(path: str | os.PathLike[str]) -> tuple[pa.Table, dict[str, Any]]:
    """Read the table and the metadata of a Parquet file that lwcs wrote."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"{str(file)!r} does not exist")
    if not file.is_file():
        raise ValueError(f"{str(file)!r} is not a file; pass the path of a file that lwcs saved")
    try:
        table = pq.ParquetFile(file, page_checksum_verification=True).read()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, PermissionError):
            raise
        raise NotOursError(
            f"{str(file)!r} cannot be read as Parquet (truncated, corrupted or of another format): "
            f"{str(error).splitlines()[0]}"
        ) from error
    return table, read_metadata(table, str(file))


def read_metadata(table: pa.Table, name: str) -> dict[str, Any]:
    """Read the metadata of lwcs from the schema of a table, and check its checksum."""
    raw = (table.schema.metadata or {}).get(_KEY)
    if raw is None:
        raise NotOursError(
            f"{name!r} is a table that lwcs did not write (its schema has no lwcs metadata); to "
            "build a coreset of its rows, use lwcs.build"
        )
    with reading(name):
        metadata = _parsed(raw)
        version = Fields(metadata).integer("format_version", least=1)
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{name!r} has format version {version}, written by lwcs "
            f"{metadata.get('library_version', '?')}; this is lwcs {lwcs.__version__}, which reads "
            f"versions up to {FORMAT_VERSION}: upgrade lwcs"
        )
    _check_checksum(table, metadata, version, name)
    return metadata


def _check_checksum(table: pa.Table, metadata: dict[str, Any], version: int, name: str) -> None:
    from lwcs.foundation.checksums import checksum

    if version < 2 and _CHECKSUM not in metadata:
        warn(
            f"{name!r} was written by an earlier version of lwcs, without a checksum, so that it "
            "cannot be verified; load it and save it again to give it one",
            UserWarning,
        )
        return
    with reading(name):
        stated = Fields(metadata).text(_CHECKSUM)
        rest = {key: value for key, value in metadata.items() if key != _CHECKSUM}
        found = checksum(table, rest)
    if found != stated:
        raise ValueError(
            f"{name!r} does not agree with its checksum: it is damaged, or another program changed "
            "it after lwcs wrote it; restore it from a copy, or write it again with lwcs"
        )


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its metadata is not JSON ({error})") from error
    return found


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"the number {constant} is not allowed")
