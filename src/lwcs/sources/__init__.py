"""Where rows live: `scan` turns whatever holds them into a Source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lwcs.foundation.checks import check_choice
from lwcs.sources.base import PARTITION_ROWS, Block, LocalSource, ScaleName, Source, Task
from lwcs.sources.local import open_local
from lwcs.sources.partitioned import PartitionedSource

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "PARTITION_ROWS",
    "Block",
    "LocalSource",
    "PartitionedSource",
    "Source",
    "Task",
    "scan",
]


def scan(
    data: Any,
    *,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    scale: ScaleName | None = None,
    sample_weight: Any = None,
) -> Source:
    """Say what to read, and how; nothing is read yet.

    Parameters
    ----------
    data : array, memory map, scipy sparse array, pandas / polars / pyarrow table, list of rows
        Rows of real numbers. Arrays are not copied; sparse data is never made dense; other
        sparse formats than CSR are converted once. A Source is given back as it is.
    columns : list of str, optional
        The columns of a table to use, in this order. Default: all but `weight`.
    weight : str, optional
        The column of a table that holds one weight >= 0 a row.
    scale : {"standard"}, optional
        Measure distances in standard deviations of each column. Rows keep their units: a
        coreset holds rows of the data and its `scale`, and centers are in the data's units.
        Sparse data stays sparse. A build then makes two passes.
    sample_weight : array of shape (rows,), optional
        The weights, where they are not a column.

    Returns
    -------
    Source

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> lwcs.scan(np.zeros((100, 3)))
    ArraySource(100 × 3, 1 partition)
    """
    if scale is not None:
        check_choice(scale, "scale", ("standard",))
    if isinstance(data, Source):
        return _refuse_second_scan(data, columns, weight, scale, sample_weight)
    source = open_local(data, columns, weight, sample_weight)
    if source.n_rows == 0 or source.n_features == 0:
        raise ValueError(
            f"data has shape ({source.n_rows}, {source.n_features}); "
            "at least one row and one column are needed"
        )
    source.scale = scale
    return source


def _refuse_second_scan(source: Source, *options: object) -> Source:
    if any(option is not None for option in options):
        raise ValueError(
            "this is a Source already, so its columns, weights and scale are fixed; "
            "pass these options to the lwcs.scan that made it"
        )
    return source
