"""Iceberg tables and scans, through pyiceberg: one snapshot of the table for all passes.

The files of a snapshot, and what was deleted from them, are planned once, when a table is opened.
They are read one after the other, each as a whole: pyiceberg would read all files at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lwcs.sources.streams import Query
from lwcs.storage.failures import explaining

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.sources.blocks import Budget
    from lwcs.sources.options import ScanOptions


def query_of(data: Any, options: ScanOptions) -> Query:
    """Open a table at its present snapshot, or a scan with its filters and columns."""
    del options
    from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow

    scan = data.scan() if hasattr(data, "scan") else data
    snapshot = scan.snapshot() if hasattr(scan, "snapshot") else None
    version = None if snapshot is None else str(snapshot.snapshot_id)
    named = getattr(scan, "table_identifier", None) or (data.name() if scan is not data else ())
    at = "" if version is None else f" (snapshot {version})"
    name = f"the Iceberg table {'.'.join(named)!r}{at}"
    with explaining(name):
        whole, tasks = scan.projection(), list(scan.plan_files())
    schema = schema_to_pyarrow(whole, include_field_ids=False)

    def run(columns: list[str], _: Budget) -> Iterator[pa.RecordBatch]:
        wanted, left = pa.schema([schema.field(column) for column in columns]), scan.limit
        reader = ArrowScan(
            scan.table_metadata, scan.io, whole.select(*columns), scan.row_filter,
            scan.case_sensitive,
        )  # fmt: skip
        with explaining(name):
            for task in tasks:
                for batch in reader.to_record_batches([task]):
                    batch = batch.slice(0, left)
                    yield batch.select(columns).cast(wanted)
                    left = None if left is None else left - batch.num_rows
                if left == 0:
                    return

    return Query(run, schema, n_rows=_n_rows(scan, tasks), version=version, name=name)


def _n_rows(scan: Any, tasks: list[Any]) -> int | None:
    """The number of rows, if that is known without reading them."""
    from pyiceberg.expressions import AlwaysTrue

    filtered = scan.row_filter != AlwaysTrue() or scan.limit is not None
    if tasks and (filtered or any(task.delete_files for task in tasks)):
        return None
    return sum(task.file.record_count for task in tasks)
