"""What can be saved: as a Parquet file, on this machine or on a store, which `lwcs.load` reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from lwcs.storage.locations import Access

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import pyarrow as pa


class Savable(ABC):
    """An object with a table that holds all that is saved of it."""

    @abstractmethod
    def _table(self) -> pa.Table:
        """The table, with metadata in its schema."""

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
        # pyarrow is imported where something is saved, and not with every Coreset.
        from lwcs.storage.parquet import write_table

        write_table(self._table(), path, Access(filesystem, storage_options))


class Tabular(ABC):
    """A result that pyarrow, polars, pandas and DuckDB take as a table."""

    _instead_of_rows: ClassVar[str]
    """What to pass where rows of data are expected."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Convert to a pyarrow table."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The table of `to_arrow`, by the Arrow C stream interface."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def refuse_results(data: object) -> None:
    """Refuse a result of this library where rows of data are expected."""
    if isinstance(data, Tabular):
        raise TypeError(f"a {type(data).__name__} is not a table of rows; {data._instead_of_rows}")
