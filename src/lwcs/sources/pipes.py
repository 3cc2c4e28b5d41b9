"""Rows from a pipe, as CSV or in the Arrow streaming format."""

from __future__ import annotations

from typing import IO

import pyarrow as pa

from lwcs.sources.delimited import Layout, read_rows, schema_of
from lwcs.sources.dialects import checked, recognize
from lwcs.sources.heads import head_of
from lwcs.sources.options import Dialect
from lwcs.sources.watched import Watched

_NAME = "standard input"
_NO_DIALECT = Dialect()


def open_pipe(file: IO[bytes], kind: str, dialect: Dialect = _NO_DIALECT) -> pa.RecordBatchReader:
    """Read batches from a pipe as they arrive."""
    if kind == "arrow":
        try:
            return pa.ipc.open_stream(file)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{_NAME} is not an Arrow stream: {error}") from error
    given, head, schema = checked(dialect), head_of(file, _NAME), None
    if head.data.strip():
        written = recognize(head, given, "\t" if kind == "tsv" else ",", _NAME)
        schema = schema_of(head, written, _NAME)
    if schema is None:
        raise ValueError(f"{_NAME} has no rows; at least one row is required")
    layout = Layout.of(head, written, _NAME)
    rows = read_rows(Watched(file, head.data), schema, layout, None, _NAME)
    batches = (pa.record_batch(batch.columns, schema=schema) for batch in rows)
    return pa.RecordBatchReader.from_batches(schema, batches)
