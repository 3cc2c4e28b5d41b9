"""Rows in a Dask array or DataFrame: a chunk of rows is a partition, run on any scheduler."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import dask
import numpy as np

from lwcs.sources.base import GROUP
from lwcs.sources.engine import (
    LABEL,
    ArrayReading,
    ArrowReading,
    EngineSource,
    RowWork,
    add_results,
)
from lwcs.sources.local import engine_of
from lwcs.sources.vectors import select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from lwcs.foundation.types import DenseRows
    from lwcs.sources.base import Block
    from lwcs.sources.engine import Reading, Work

_WEIGHT = "sample_weight"


def open_engine(
    data: Any,
    columns: Sequence[str] | str | None,
    weight: str | None,
    sample_weight: Any,
    *,
    drop: bool,
) -> EngineSource:
    """Open a Dask array or DataFrame."""
    kind = type(data).__name__
    if kind == "Array":
        if columns is not None or weight is not None:
            raise TypeError(
                "columns= and weight= name columns, which a Dask array has not; index the array, "
                "and pass weights as sample_weight="
            )
        if drop:
            raise ValueError(
                "missing='drop' is for tables; of a Dask array, drop those rows yourself: "
                "X[dask.array.isfinite(X).all(axis=1)]"
            )
        return DaskArraySource(data, sample_weight)
    if kind == "DataFrame":
        return DaskTableSource(data, columns, weight, sample_weight, drop=drop)
    raise TypeError(
        f"data of type dask {kind} is not a table of rows; pass a dask.array or a dask.dataframe "
        "with rows and columns"
    )


class _DaskSource(EngineSource):
    """What arrays and tables share: delayed chunks, and how to run over them."""

    on_chunk: Callable[..., bytes]
    """Runs work on what a chunk is made of."""

    def __init__(self, reading: Reading, n_features: int, chunks: list[tuple[Any, ...]]) -> None:
        super().__init__(reading, n_features)
        self.chunks, self.partitions = chunks, len(chunks)

    def run(self, work: Work, told: Sequence[bytes] | None, *, summed: bool) -> Iterator[bytes]:
        """Delay the work on every chunk, and bring the results home in groups."""
        # One node of the graph: a worker gets it once, not with every chunk.
        shared = dask.delayed(work, traverse=False, pure=False)
        call = dask.delayed(self.on_chunk, pure=False)
        calls = [
            call(shared, i, None if told is None else told[i], *chunk)
            for i, chunk in enumerate(self.chunks)
        ]
        join = dask.delayed(add_results if summed else list, pure=False)
        groups = [join(calls[start : start + GROUP]) for start in range(0, len(calls), GROUP)]
        results = dask.compute(*groups)
        return iter(results if summed else chain.from_iterable(results))


def _on_array(work: Work, partition: int, item: bytes | None, array: Any, weights: Any) -> bytes:
    return work((array, weights), partition, item)


def _on_table(work: Work, partition: int, item: bytes | None, frame: Any) -> bytes:
    return work(_as_arrow(frame), partition, item)


def _as_arrow(frame: Any) -> list[pa.RecordBatch]:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False, nthreads=1)
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    return batches


class DaskArraySource(_DaskSource):
    """A two-dimensional Dask array, of dense or sparse chunks; a chunk of rows is a partition."""

    on_chunk = staticmethod(_on_array)

    def __init__(self, array: Any, sample_weight: Any = None) -> None:
        if array.ndim != 2:
            raise ValueError(
                f"data has shape {array.shape}; pass shape (rows, columns)"
                + (", for one column X.reshape(-1, 1)" if array.ndim == 1 else "")
            )
        if array.dtype.kind not in "biuf":
            raise TypeError(
                f"data of dtype {array.dtype} cannot be clustered; pass real numbers, for example "
                "X.astype(float)"
            )
        n_rows, n_features = array.shape
        if not n_features or n_rows == 0:
            raise ValueError(
                f"data has shape {array.shape}; at least one row and one column are needed"
            )
        if array.numblocks[1] > 1:
            # A row must be in one piece.
            array = array.rechunk({1: -1})
        self.array = array
        rows = array.to_delayed().ravel()
        weights = [None] * len(rows)
        if sample_weight is not None:
            weights = _weights(sample_weight, array).to_delayed().ravel()
        super().__init__(
            ArrayReading(n_features), n_features, list(zip(rows, weights, strict=True))
        )
        self.weighted = sample_weight is not None
        self.n_rows = None if np.isnan(n_rows) else int(n_rows)

    def map_rows(self, task: Callable[[Block], DenseRows], *, n_jobs: int | None = None) -> Any:
        """Compute one value a row, as a Dask array, when it is asked for."""
        del n_jobs
        return self.array.map_blocks(
            _values,
            RowWork(self.reading, task),
            drop_axis=1,
            dtype=np.int32,
            meta=np.empty(0, dtype=np.int32),
        )


def _values(chunk: Any, work: RowWork, block_id: tuple[int, ...] | None = None) -> DenseRows:
    return work((chunk, None), None if block_id is None else block_id[0])


def _weights(weights: Any, array: Any) -> Any:
    """Weights in the chunks that the rows are in."""
    import dask.array as da

    if engine_of(weights) == "dask" and hasattr(weights, "to_dask_array"):
        weights = weights.to_dask_array()
    unknown = bool(np.isnan(array.shape[0]))
    if not isinstance(weights, da.Array):
        weights = np.asarray(weights)
        if unknown:
            raise ValueError(
                "the lengths of the array's chunks are not known, so weights in memory cannot be "
                "cut like them; pass a Dask array of weights, or call X.compute_chunk_sizes()"
            )
    unknown = unknown or bool(np.isnan(weights.shape).any())
    if weights.ndim != 1 or (not unknown and weights.shape != array.shape[:1]):
        raise ValueError(
            f"sample_weight has shape {weights.shape} but the data has {array.shape[0]} rows; "
            "pass one weight a row"
        )
    if not unknown:
        return da.asarray(weights).rechunk((array.chunks[0],))
    if weights.numblocks[0] != array.numblocks[0]:
        raise ValueError(
            f"sample_weight has {weights.numblocks[0]} chunks but the data has "
            f"{array.numblocks[0]}; chunk them alike"
        )
    return weights


class DaskTableSource(_DaskSource):
    """Some columns of a Dask DataFrame."""

    on_chunk = staticmethod(_on_table)

    def __init__(
        self,
        frame: Any,
        columns: Sequence[str] | str | None = None,
        weight: str | None = None,
        sample_weight: Any = None,
        *,
        drop: bool = False,
    ) -> None:
        if any(isinstance(name, tuple) for name in frame.columns):
            raise ValueError("the columns have several levels; flatten them first")
        if any(not isinstance(name, str) for name in frame.columns):
            frame = frame.rename(columns={name: str(name) for name in frame.columns})
        if sample_weight is not None:
            frame, weight = _with_weights(frame, weight, sample_weight)
        selection, _ = select(_schema(frame), columns, weight, lambda name: _first(frame, name))
        self.frame = frame[selection.needed]
        chunks = [(chunk,) for chunk in self.frame.to_delayed()]
        reading = ArrowReading(selection, drop)
        super().__init__(reading, len(selection.feature_names), chunks)
        self.weighted, self.skipped = weight is not None, selection.skipped

    def map_rows(self, task: Callable[[Block], DenseRows], *, n_jobs: int | None = None) -> Any:
        """Compute one value a row, as a Dask Series with the index of the rows."""
        import pandas as pd

        del n_jobs
        meta = pd.Series(name=LABEL, dtype=np.int32)
        return self.frame.map_partitions(_series, RowWork(self.reading, task), meta=meta)


def _series(frame: Any, work: RowWork) -> Any:
    import pandas as pd

    return pd.Series(work(_as_arrow(frame)), index=frame.index, name=LABEL, dtype=np.int32)


def _with_weights(frame: Any, weight: str | None, sample_weight: Any) -> tuple[Any, str]:
    if weight is not None:
        raise ValueError(
            f"weights are given twice, by weight={weight!r} and by sample_weight; pass one of them"
        )
    if engine_of(sample_weight) != "dask" or type(sample_weight).__name__ != "Series":
        raise TypeError(
            "sample_weight of a Dask DataFrame is a Dask Series of the same index; or make it a "
            "column, and name it with lwcs.scan(…, weight=…)"
        )
    if _WEIGHT in frame.columns:
        raise ValueError(f"there is a column {_WEIGHT!r} already; name it with weight={_WEIGHT!r}")
    return frame.assign(**{_WEIGHT: sample_weight}), _WEIGHT


def _schema(frame: Any) -> pa.Schema:
    """Types of the columns, from what Dask knows without computing."""
    import pyarrow as pa

    schema = pa.Schema.from_pandas(frame._meta, preserve_index=False)
    # Objects might be anything; numbers have a type.
    objects = [pa.field(f.name, pa.string()) if pa.types.is_null(f.type) else f for f in schema]
    return pa.schema(objects)


def _first(frame: Any, name: str) -> Any:
    found = frame[[name]].dropna().head(1, npartitions=-1)[name]
    return found.iloc[0] if len(found) else None
