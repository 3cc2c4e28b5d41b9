"""Saving and loading objects: a Parquet file with metadata in its schema and a checksum of both.

Any tool reads such a file as a plain table, and nothing in it is executed when it is loaded.
pyarrow is imported where something is saved or loaded, not with every class that can be saved.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

import lwcs
from lwcs.arrays.checks import translating
from lwcs.storage.fields import Fields, reading
from lwcs.storage.locations import DEFAULT, Access, first_line, of_the_place, reaching
from lwcs.storage.path_errors import path_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from lwcs.storage.locations import Place


class Savable(ABC):
    """An object that can be saved as a table."""

    @abstractmethod
    def _table(self) -> pa.Table:
        """All that is saved, as a table with metadata in its schema."""

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        filesystem: Any = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a Parquet file, atomically; `lwcs.load` reads it, and any tool as a plain table.

        Parameters
        ----------
        path : str or path
            File to write; also a URI, such as ``s3://bucket/name``.
        filesystem : pyarrow or fsspec file system, optional
            File system to write to; by default, that of the path or URI.
        storage_options : dict, optional
            Options of fsspec for the file system of a URI, such as ``{"anon": True}``.
        """
        write_table(self._table(), path, Access(filesystem, storage_options))


class Tabular(ABC):
    """A result that pyarrow, polars, pandas and DuckDB take as a table."""

    _instead_of_rows: ClassVar[str]
    """Advice on what to pass where rows of data are expected."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Convert to a pyarrow table."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The table of `to_arrow`, by the Arrow C stream interface."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _refused_as_rows(self) -> TypeError:
        """The error where rows of data are expected."""
        return TypeError(f"a {type(self).__name__} is not a table of rows; {self._instead_of_rows}")


FORMAT_VERSION = 2
KEY = b"lwcs"
"""Where the metadata is in the schema of a table."""
_CHECKSUM = "checksum"


class NotOursError(ValueError):
    """A file that lwcs did not write, or that cannot be read at all."""


def with_metadata(table: pa.Table, kind: str, metadata: dict[str, Any]) -> pa.Table:
    """Attach the metadata of lwcs to the schema of a table."""
    record = {"format_version": FORMAT_VERSION, "kind": kind, "library_version": lwcs.__version__}
    return sealed(table, record | metadata)


def sealed(table: pa.Table, record: dict[str, Any]) -> pa.Table:
    """Attach a record to the schema of a table, with a checksum of both."""
    from lwcs.storage.arrow_tables import checksum

    # As it will be read from JSON: tuples become lists, and keys become texts.
    plain = json.loads(json.dumps(record, allow_nan=False))
    plain.pop(_CHECKSUM, None)
    plain[_CHECKSUM] = checksum(table, plain)
    return table.replace_schema_metadata({KEY: json.dumps(plain, allow_nan=False)})


def write_table(table: pa.Table, path: str | os.PathLike[str], access: Access = DEFAULT) -> None:
    """Write a table as Parquet, atomically."""
    import pyarrow.parquet as pq

    from lwcs.storage.atomic_write import explaining, replacing

    with replacing(path, access) as temporary, explaining(access.place(path)):
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def is_ours(path: str | os.PathLike[str], access: Access = DEFAULT) -> bool:
    """Whether a file is Parquet that lwcs wrote, by its schema."""
    return kind_of(path, access) is not None


def kind_of(path: str | os.PathLike[str], access: Access = DEFAULT) -> str | None:
    """The kind of the object that lwcs saved in a file, by its schema; None for other files."""
    place = access.place(path)
    if place.is_local and not os.path.isfile(place.path):
        # A pipe would be waited for.
        return None
    with suppress(NotOursError, OSError), _explaining_reading(place.name), _opened(place) as opened:
        with suppress(ValueError):
            return str(_parsed(opened[1].schema_arrow.metadata[KEY]).get("kind"))
        return ""
    return None


def read_table(
    path: str | os.PathLike[str], access: Access = DEFAULT
) -> tuple[pa.Table, dict[str, Any]]:
    """Read the table and the metadata of a Parquet file that lwcs wrote."""
    import pyarrow as pa
    from pyarrow import fs

    place = access.place(path)
    with reaching(place.name):
        kind = place.filesystem.get_file_info(place.path).type
    if kind == fs.FileType.NotFound:
        raise path_error(place)
    if kind != fs.FileType.File:
        raise ValueError(f"{place.name!r} is not a file; pass the path of a file that lwcs saved")
    with _explaining_reading(place.name), _opened(place) as (raw, file):
        if place.is_local:
            table = file.read()
        else:
            # All bytes of a file that lwcs wrote are fetched at once.
            raw.seek(0)
            with _parquet_file(pa.BufferReader(raw.read_buffer())) as fetched:
                table = fetched.read()
    return table, read_metadata(table, place.name)


@contextmanager
def _opened(place: Place) -> Iterator[tuple[Any, Any]]:
    """A file, and the Parquet file in it, which lwcs wrote; only the footer is read."""
    with place.filesystem.open_input_file(place.path) as raw, _parquet_file(raw) as file:
        _refuse_others(file.schema_arrow, place.name)
        yield raw, file


def _parquet_file(raw: Any) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(raw, page_checksum_verification=True)


def _explaining_reading(name: str) -> AbstractContextManager[None]:
    """Name the file in errors of reading: failures of its store or disk, and bad contents."""

    def translate(error: Exception) -> Exception | None:
        import pyarrow as pa

        if (failed := of_the_place(name, error)) is not None:
            return failed
        if not isinstance(error, (pa.ArrowException, OSError, UnicodeDecodeError)):
            return None
        return NotOursError(
            f"{name!r} cannot be read as Parquet (truncated, corrupted or of another format): "
            f"{first_line(error)}"
        )

    return translating(translate)


def of_kind(table: Any, kind: str, called: str) -> tuple[pa.Table, dict[str, Any]]:
    """The table and the metadata of a result of `to_arrow`, checked as those of a file are."""
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
    _check_checksum(table, metadata, name)
    return metadata


def _refuse_others(schema: pa.Schema, name: str) -> None:
    if KEY not in (schema.metadata or {}):
        raise NotOursError(
            f"{name!r} is a table that lwcs did not write (its schema has no lwcs metadata); to "
            "build a coreset of its rows, use lwcs.build"
        )


def _check_checksum(table: pa.Table, metadata: dict[str, Any], name: str) -> None:
    from lwcs.storage.arrow_tables import checksum

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
