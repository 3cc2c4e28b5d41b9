"""The checksum of a table and its metadata, which does not depend on how Arrow lays it out.

Chunks, slices, dictionaries and the width of offsets are choices of whoever wrote or read the
table; names, types, values and nulls are what it says.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import lwcs
from lwcs.runtime.warnings import warn
from lwcs.storage.atomic_write import explaining, replacing
from lwcs.storage.failures import first_line, of_the_place, reaching
from lwcs.storage.fields import Fields, reading
from lwcs.storage.locations import DEFAULT

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import pyarrow as pa

    from lwcs.storage.locations import Access, Place


if TYPE_CHECKING:
    from collections.abc import Mapping

    Digest = Any


def checksum(table: pa.Table, metadata: Mapping[str, Any]) -> str:
    """SHA-256 of the metadata as canonical JSON and of every column, in hexadecimal digits."""
    digest = hashlib.sha256()
    # Sorted and without spaces, so that only the values count.
    text = json.dumps(metadata, sort_keys=True, separators=(",", ":"), allow_nan=False)
    digest.update(text.encode())
    for name, column in zip(table.column_names, table.columns, strict=True):
        digest.update(json.dumps(name).encode())
        whole = column.combine_chunks()
        _add(
            digest, pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
        )
    return digest.hexdigest()


def _add(digest: Digest, array: pa.Array) -> None:
    """Add the type, the length, the nulls and the values of an array."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        _add(digest, array.dictionary_decode())
        return
    digest.update(f"{_label(kind)}:{len(array)}:{array.null_count}:".encode())
    if array.null_count:
        digest.update(np.packbits(array.is_valid().to_numpy(zero_copy_only=False)).tobytes())
        array = array.drop_null()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        digest.update(array.value_lengths().to_numpy().astype("<i8").tobytes())
        _add(digest, array.flatten())
    elif _is_text(kind):
        texts = array.cast(pa.large_binary())
        _, offsets, values = texts.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
        digest.update((ends - ends[0]).astype("<i8").tobytes())
        if values is not None:
            digest.update(memoryview(values)[int(ends[0]) : int(ends[-1])])
    elif pa.types.is_primitive(kind):
        values = np.ascontiguousarray(array.to_numpy(zero_copy_only=False))
        digest.update(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
    else:
        # No column of lwcs has such a type; a reader refuses it later, by its name.
        digest.update(repr(array.to_pylist()).encode(errors="surrogatepass"))


def _label(kind: pa.DataType) -> str:
    """The name of a type, the same for all widths of offsets."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_label(kind.value_type)}>"
    return "string" if _is_text(kind) else str(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


FORMAT_VERSION = 2
"""Since version 2, files have a checksum."""
KEY = b"lwcs"
"""Where the metadata is in the schema of a table."""
_CHECKSUM = "checksum"


class NotOursError(ValueError):
    """A file that lwcs did not write, or that cannot be read at all."""


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
    # As it will be read: tuples become lists, and keys become texts.
    plain = json.loads(json.dumps(record, allow_nan=False))
    plain.pop(_CHECKSUM, None)
    plain[_CHECKSUM] = checksum(table, plain)
    return table.replace_schema_metadata({KEY: json.dumps(plain, allow_nan=False)})


def write_table(table: pa.Table, path: str | os.PathLike[str], access: Access = DEFAULT) -> None:
    """Write a table as Parquet, atomically."""
    import pyarrow.parquet as pq

    with replacing(path, access) as temporary, explaining(access.place(path)):
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def is_ours(path: str | os.PathLike[str], access: Access = DEFAULT) -> bool:
    """Whether a file is Parquet that lwcs wrote, by its schema."""
    place = access.place(path)
    try:
        with (
            _explaining_reading(place.name),
            place.filesystem.open_input_file(place.path) as raw,
            _opened(raw, place.name),
        ):
            return True
    except (NotOursError, OSError):
        return False


def read_table(
    path: str | os.PathLike[str], access: Access = DEFAULT
) -> tuple[pa.Table, dict[str, Any]]:
    """Read the table and the metadata of a Parquet file that lwcs wrote."""
    from pyarrow import fs

    place = access.place(path)
    with reaching(place.name):
        kind = place.filesystem.get_file_info(place.path).type
    if kind == fs.FileType.NotFound:
        raise FileNotFoundError(f"{place.name!r} does not exist")
    if kind != fs.FileType.File:
        raise ValueError(f"{place.name!r} is not a file; pass the path of a file that lwcs saved")
    with _explaining_reading(place.name):
        raw = place.filesystem.open_input_file(place.path) if place.is_local else _downloaded(place)
        with raw, _opened(raw, place.name) as file:
            table = file.read()
    return table, read_metadata(table, place.name)


@contextmanager
def _opened(raw: Any, name: str) -> Iterator[Any]:
    """A Parquet file that lwcs wrote; of any other one, the columns are not read."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(raw, page_checksum_verification=True) as file:
        _refuse_others(file.schema_arrow, name)
        yield file


def _downloaded(place: Place) -> Any:
    """All bytes of a file of a store, if lwcs wrote it."""
    import pyarrow as pa

    with place.filesystem.open_input_file(place.path) as raw, _opened(raw, place.name):
        raw.seek(0)
        return pa.BufferReader(raw.read_buffer())


@contextmanager
def _explaining_reading(name: str) -> Iterator[None]:
    """Name the file in errors of reading: those of its place, and those of its contents."""
    import pyarrow as pa

    try:
        yield
    except Exception as error:
        failed = of_the_place(name, error)
        if failed is not None:
            raise failed from error
        if not isinstance(error, (pa.ArrowException, OSError, UnicodeDecodeError)):
            raise
        raise NotOursError(
            f"{name!r} cannot be read as Parquet (truncated, corrupted or of another format): "
            f"{first_line(error)}"
        ) from error


def of_kind(table: Any, kind: str, called: str) -> tuple[pa.Table, dict[str, Any]]:
    """The table and the metadata of what `to_arrow` gave, checked as those of a file are."""
    import pyarrow as pa

    if not isinstance(table, pa.Table):
        if not hasattr(table, "__arrow_c_stream__"):
            raise TypeError(
                f"table= is a {type(table).__name__}; pass the pyarrow table that to_arrow gave"
            )
        table = pa.table(table)
    metadata = read_metadata(table, "table")
    if metadata.get("kind") != kind:
        raise ValueError(
            f"the table holds an object of kind {metadata.get('kind')!r}, not a {called}; pass a "
            f"table that {called}.to_arrow gave, or use from_arrow of the other class"
        )
    return table, metadata


def read_metadata(table: pa.Table, name: str) -> dict[str, Any]:
    """Read the metadata of lwcs from the schema of a table, and check its checksum."""
    _refuse_others(table.schema, name)
    with reading(name):
        metadata = _parsed(table.schema.metadata[KEY])
        version = Fields(metadata).integer("format_version", least=1)
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{name!r} has format version {version}, written by lwcs "
            f"{metadata.get('library_version', '?')}; this is lwcs {lwcs.__version__}, which reads "
            f"versions up to {FORMAT_VERSION}: upgrade lwcs"
        )
    _check_checksum(table, metadata, version, name)
    return metadata


def _refuse_others(schema: pa.Schema, name: str) -> None:
    if KEY not in (schema.metadata or {}):
        raise NotOursError(
            f"{name!r} is a table that lwcs did not write (its schema has no lwcs metadata); to "
            "build a coreset of its rows, use lwcs.build"
        )


def _check_checksum(table: pa.Table, metadata: dict[str, Any], version: int, name: str) -> None:

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
