"""What can be saved: as a Parquet file, on this machine or on a store, which `lwcs.load` reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from lwcs.foundation import storage
from lwcs.foundation.places import Access

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
        storage.write_table(self._table(), path, Access(filesystem, storage_options))
