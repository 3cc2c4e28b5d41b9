"""load(): read any file that lwcs saved; the file says what kind of object it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lwcs.coreset import io as coreset_table
from lwcs.storage import persistence as storage
from lwcs.storage.locations import Access

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


def load(
    path: str | os.PathLike[str],
    *,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Load an object that was saved by lwcs.

    Parameters
    ----------
    path : str or path
        File written by `save`, or by `lwcs.compare` with ``path=``; also a URI, such as
        ``s3://bucket/name``.
    filesystem : pyarrow or fsspec file system, optional
        File system that the file is on; by default, that of the path or URI.
    storage_options : dict, optional
        Options of fsspec for the file system of a URI, such as ``{"anon": True}``.

    Returns
    -------
    Coreset, StreamingCoreset, CoresetKMeans, CoresetMixture or CompareResult

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> coreset = lwcs.build(np.eye(8), size=5, random_state=0)
    >>> coreset.save("eye.coreset.parquet")
    >>> lwcs.load("eye.coreset.parquet") == coreset
    True
    """
    table, metadata = storage.read_table(path, Access(filesystem, storage_options))
    kind = metadata.get("kind")
    if kind == coreset_table.KIND:
        return coreset_table.from_table(table, metadata, str(path))
    if kind == "kmeans":
        # Imported here, since only models need scikit-learn.
        from lwcs.estimators import kmeans_io as kmeans_table

        return kmeans_table.from_table(table, metadata, str(path))
    if kind == "mixture":
        from lwcs.estimators import mixture_io as mixture_table

        return mixture_table.from_table(table, metadata, str(path))
    if kind == "stream":
        from lwcs.coreset import streaming_io as streaming_table

        return streaming_table.from_table(table, metadata, str(path))
    if kind == "comparison":
        from lwcs.comparing import result

        return result.from_table(table, metadata, str(path))
    raise ValueError(
        f"{str(path)!r} holds an object of kind {kind!r}, which this version of lwcs cannot load"
    )
