"""load(): whatever lwcs saved, told by the kind that its file names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lwcs import coreset_table
from lwcs.foundation import storage

if TYPE_CHECKING:
    import os


def load(path: str | os.PathLike[str]) -> Any:
    """Read back what `save` wrote: a Coreset, a StreamingCoreset, a model or a comparison.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> coreset = lwcs.build(np.eye(8), size=5, random_state=0)
    >>> coreset.save("eye.coreset.parquet")
    >>> lwcs.load("eye.coreset.parquet") == coreset
    True
    """
    table, metadata = storage.read_table(path)
    kind = metadata.get("kind")
    if kind == coreset_table.KIND:
        return coreset_table.from_table(table, metadata, str(path))
    if kind == "kmeans":
        # scikit-learn is loaded only for a model.
        from lwcs.estimators import kmeans_table

        return kmeans_table.from_table(table, metadata, str(path))
    if kind == "mixture":
        from lwcs.estimators import mixture_table

        return mixture_table.from_table(table, metadata, str(path))
    if kind == "stream":
        from lwcs import streaming_table

        return streaming_table.from_table(table, metadata, str(path))
    if kind == "comparison":
        from lwcs.comparing import result

        return result.from_table(table)
    raise ValueError(f"{str(path)!r} holds a {kind!r}, which this lwcs does not know")
