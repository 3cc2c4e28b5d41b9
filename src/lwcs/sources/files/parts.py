"""Files of one format: their common columns, those from the names of folders, and their parts.

Parts are read side by side, and come in order.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from lwcs.runtime.parallel import usable_cores
from lwcs.sources.column_types import pandas_index, with_pandas_index
from lwcs.sources.remote.prefetch import WaitingThreads
from lwcs.sources.scan_options import check_unique
from lwcs.storage.locations import some
from lwcs.storage.persistence import KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future, ThreadPoolExecutor

    import pyarrow as pa

    from lwcs.sources.blocks import Budget
    from lwcs.sources.remote.paths import Found
    from lwcs.sources.remote.prefetch import PrefetchedFile


class Files(ABC):
    """Files of one format, with the columns of all of them."""

    schema: pa.Schema
    keys: list[str]
    """Columns that only the names of folders provide."""
    n_rows: int | None
    """Number of rows, where that is known without reading them."""

    @abstractmethod
    def open(
        self, columns: list[str], budget: Budget, batch_rows: int | None = None
    ) -> Iterator[Part]:
        """Read every file, in one or more parts."""

    def numbers_beyond(self, path: str, names: list[str]) -> list[str]:
        """Columns of numbers of a file that the schema does not have; it may have all."""
        del path, names
        return []

    def reading_bytes(self, columns: list[str], budget: Budget) -> int:
        """Memory that a reader needs however few rows it reads at once."""
        del columns, budget
        return 0


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a file, in order."""

    path: str
    names: list[str]
    """Columns of the file."""
    first_row: int
    """Row number of the first of them in the file."""
    rows: Iterable[pa.RecordBatch]
    size: float | None = None
    """Its size in bytes, if it is small enough to be read before its turn."""
    ahead: PrefetchedFile | None = None
    """Its bytes on a store."""
    last: bool = True
    """Whether its file ends with it."""

    def started(self, pool: ThreadPoolExecutor) -> Part:
        """Start to read the part in the pool, if it is small; an error is raised in its turn."""
        if self.size is None:
            return self
        if self.ahead is not None:
            # More parts are fetched at a time than are decoded.
            self.ahead.begin()
        return replace(self, rows=_results_of(pool.submit(list, self.rows)))


def _results_of(rows: Future[list[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    yield from rows.result()


def side_by_side(parts: Iterable[Part], most: float) -> Iterator[Part]:
    """Yield parts in order, while the small ones among the next are read, up to `most` bytes."""
    ahead: deque[Part] = deque()
    with WaitingThreads(usable_cores()) as pool:
        for part in parts:
            ahead.append(part.started(pool))
            while sum(each.size or 0.0 for each in ahead) > most or len(ahead) > _MOST_AHEAD:
                yield ahead.popleft()
        while ahead:
            yield ahead.popleft()


# A limit for tiny files, which take more memory than that of their rows.
_MOST_AHEAD = 32


def common_schema(found: Found, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """The columns of all files, with types that hold the values of every file."""
    for path, schema in schemas.items():
        if KEY in (schema.metadata or {}):
            raise ValueError(
                f"{path!r} was saved by lwcs and is not a table of rows; open it with lwcs.load"
            )
        check_unique(schema.names, repr(path))
    bare = [schema.remove_metadata() for schema in schemas.values()]
    index = (name for schema in schemas.values() for name in pandas_index(schema))
    try:
        return with_pandas_index(pa.unify_schemas(bare, promote_options="permissive"), index)
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise ValueError(
            f"the columns of {some(found.paths)} have types that do not go together: {error}"
        ) from error


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


_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class FolderColumns:
    """Columns that only the names of folders provide (hive partitions)."""

    schema: pa.Schema
    values: dict[str, dict[str, str | None]]
    """Values by path, then by column, as text; None for a missing value."""

    @classmethod
    def of(cls, found: Found, own: Sequence[str]) -> FolderColumns:
        """The columns of some files that are not among the files' `own` columns.

        Their type is int32 where all values are such integers, and text otherwise, as in pyarrow.
        """
        known, values = set(own), dict[str, dict[str, str | None]]()
        for path in found.paths:
            folders = _in_folders(path, found.base or "")
            values[path] = {name: text for name, text in folders.items() if name not in known}
        fields = []
        for name in dict.fromkeys(name for each in values.values() for name in each):
            texts = [text for each in values.values() if (text := each.get(name)) is not None]
            whole = bool(texts) and all(map(_is_int32, texts))
            fields.append(pa.field(name, pa.int32() if whole else pa.string()))
        return cls(pa.schema(fields), values)


def _is_int32(text: str) -> bool:
    """Whether a text is one of the integers that pyarrow takes for numbers."""
    return _INTEGER.fullmatch(text) is not None and -(2**31) <= int(text) < 2**31


def _in_folders(path: str, base: str) -> dict[str, str | None]:
    folders = path.removeprefix(base).split("/")[:-1]
    pairs = (folder.split("=", 1) for folder in folders if "=" in folder)
    decoded = {unquote(name): unquote(value) for name, value in pairs if name}
    return {name: None if value == _NO_VALUE else value for name, value in decoded.items()}
