"""The columns of several Parquet or Feather files: their own, and those in names of folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from lwcs.foundation.storage import KEY
from lwcs.sources.checks import check_unique
from lwcs.sources.explaining import some
from lwcs.sources.hive import FolderColumns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lwcs.sources.paths import Found


def common_schema(found: Found, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """The columns of all files, with types that hold the values of every file."""
    for path, schema in schemas.items():
        if KEY in (schema.metadata or {}):
            raise ValueError(
                f"{path!r} was saved by lwcs and is not a table of rows; open it with lwcs.load"
            )
        check_unique(schema.names, repr(path))
    bare = [schema.remove_metadata() for schema in schemas.values()]
    try:
        return pa.unify_schemas(bare, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise ValueError(
            f"the columns of {some(found.paths)} have types that do not go together: {error}"
        ) from error


def partition_schema(found: Found, own: pa.Schema) -> pa.Schema | None:
    """Columns that only the names of hive folders provide, or None."""
    if not any("=" in path for path in found.paths):
        return None
    kept = FolderColumns.of(found, own.names).schema
    return kept if kept.names else None


def fragments(found: Found, schema: pa.Schema, keys: pa.Schema | None) -> list[ds.Fragment]:
    """The files in order, with the values of columns that stand in names of folders."""
    dataset = ds.dataset(
        found.paths,
        schema=schema,
        format=ds.ParquetFileFormat() if found.kind == "parquet" else ds.IpcFileFormat(),
        filesystem=found.filesystem,
        partitioning=None if keys is None else ds.partitioning(keys, flavor="hive"),
        partition_base_dir=found.base,
    )
    return list(dataset.get_fragments())


def with_keys(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    columns: list[str],
    keys: Mapping[str, Any],
) -> Iterator[pa.RecordBatch]:
    """Batches of a file, with the columns of its folders, in the types of all files.

    Columns that neither the file nor its folders have are null.
    """
    for batch in batches:
        for name in columns:
            if name not in batch.schema.names:
                value = pa.repeat(pa.scalar(keys.get(name)), batch.num_rows)
                batch = batch.append_column(name, value)
        wanted = pa.schema([schema.field(name) for name in batch.schema.names])
        yield batch if batch.schema.equals(wanted) else batch.cast(wanted)
