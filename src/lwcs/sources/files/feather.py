"""Rows in Feather files, also called Arrow IPC files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from lwcs.runtime.parallel import usable_cores
from lwcs.sources.files.parts import (
    Files,
    Part,
    common_schema,
    fragments,
    partition_schema,
    with_keys,
)
from lwcs.sources.remote.prefetch import REQUESTS, Piece, WaitingThreads
from lwcs.storage.locations import explaining

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.sources.blocks import Budget
    from lwcs.sources.remote.paths import Found
    from lwcs.sources.remote.prefetch import Store

# Rows of a batch, unless the user says otherwise.
_ROWS = 65_536
# Record batches that are held at once: one is used while the next ones are decoded.
_HELD = 3


class FeatherFiles(Files):
    """Feather files, one after the other, with the columns of all of them."""

    n_rows: int | None = None

    def __init__(self, found: Found, store: Store | None) -> None:
        self._filesystem, self._store = found.filesystem, store
        with WaitingThreads(usable_cores() if store is None else REQUESTS) as pool:
            schemas = dict(zip(found.paths, pool.map(self._schema, found.paths), strict=True))
        own = common_schema(found, schemas)
        keys = partition_schema(found, own)
        self.keys = [] if keys is None else keys.names
        self.schema = pa.schema([*own, *([] if keys is None else keys)])
        self._names = {path: schema.names for path, schema in schemas.items()}
        self._fragments = fragments(found, self.schema, keys)

    def _schema(self, path: str) -> pa.Schema:
        with explaining([path]), self._opened(path) as file:
            return pa.ipc.open_file(file).schema

    def _opened(self, path: str) -> Any:
        if self._store is None:
            return self._filesystem.open_input_file(path)
        return pa.PythonFile(self._store.file(path), "r")

    def reading_bytes(self, columns: list[str], budget: Budget) -> int:
        """Memory of the record batches that are held, by the first one of every file."""
        del budget
        width = sum(_value_bytes(self.schema.field(name).type) for name in columns)
        return int(_HELD * width * max(map(self._first_rows, self._names)))

    def _first_rows(self, path: str) -> int:
        """Number of rows of the first record batch of a file."""
        with explaining([path]), self._opened(path) as file:
            # Asked for no columns, pyarrow reads all.
            reader = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=[0]))
            return reader.get_batch(0).num_rows if reader.num_record_batches else 0

    def open(
        self, columns: list[str], budget: Budget, batch_rows: int | None = None
    ) -> Iterator[Part]:
        """Read every file, each as one part."""
        most = batch_rows or _ROWS
        for fragment in self._fragments:
            if self._store is None:
                rows = self._rows(fragment, columns, most)
            else:
                rows = self._fetched(fragment, columns, most, budget.ahead)
            yield Part(fragment.path, self._names[fragment.path], 0, rows)

    def _rows(self, fragment: Any, columns: list[str], most: int) -> Iterator[pa.RecordBatch]:
        """Batches of a file on this machine, decoded by pyarrow's threads."""
        return fragment.to_batches(
            schema=self.schema,
            columns=columns,
            batch_size=most,
            batch_readahead=2,
            fragment_readahead=1,
        )

    def _fetched(
        self, fragment: Any, columns: list[str], most: int, ahead: int
    ) -> Iterator[pa.RecordBatch]:
        """Batches of a file on a store, whose bytes are fetched in order."""
        keys = ds.get_partition_keys(fragment.partition_expression)
        own = [i for i, name in enumerate(self._names[fragment.path]) if name in columns]
        # Asked for no columns, pyarrow reads all.
        options = pa.ipc.IpcReadOptions(included_fields=own or [0])
        assert self._store is not None
        lane = [Piece(0, self._store.size(fragment.path))]
        fetched = self._store.file(fragment.path, [lane], ahead)
        with pa.PythonFile(fetched, "r") as file:
            reader = pa.ipc.open_file(file, options=options)
            # Its end was read first, which is not where the rows begin.
            fetched.begin()
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i)
                cut = (batch.slice(start, most) for start in range(0, batch.num_rows, most))
                yield from with_keys(cut, self.schema, columns, keys)


def _value_bytes(kind: pa.DataType) -> float:
    """Bytes of a value, where the type tells."""
    if pa.types.is_fixed_size_list(kind):
        return float(kind.list_size * _value_bytes(kind.value_type))
    try:
        return float(kind.bit_width / 8)
    except ValueError:
        return 0.0
