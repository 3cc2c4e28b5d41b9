"""load(): whatever lwcs saved, told by the kind that its file names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lwcs import coreset_table
from lwcs.foundation import storage

if TYPE_CHECKING:
    import os

    from lwcs.coreset import Coreset


def load(path: str | os.PathLike[str]) -> Coreset:
    """Read back what `save` wrote.

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
    if kind != coreset_table.KIND:
        raise ValueError(f"{str(path)!r} holds a {kind!r}, which this lwcs does not know")
    return coreset_table.from_table(table, metadata, str(path))
