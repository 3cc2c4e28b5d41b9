"""StreamingCoresets as Arrow tables and back: their checkpoints.

A table has one row for each slot of the reservoirs, each row of the block that is not full yet, and
each row of the coresets of merged levels; the column `part` says which of these it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lwcs.arrays.rows import largest_of, stack
from lwcs.coreset.io import assemble, describe, read_divergence, read_points, read_shape
from lwcs.coreset.streaming import LARGEST_VALUE, METHODS, StreamingCoreset
from lwcs.sources.base import block_rows
from lwcs.sources.blocks import ArrayBatch, Filling
from lwcs.storage import arrow_tables
from lwcs.storage.fields import Fields, reading
from lwcs.storage.persistence import with_metadata

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.coreset.coreset import Coreset
    from lwcs.samplers.one_pass import OnePass, Reservoir

KIND = "stream"
_ROW_COLUMNS = ["part", "index", "weight", "count"]
_DTYPES = ("float32", "float64")
_ALL_DTYPES = (
    *("float16", "float32", "float64"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
# Reservoirs are allocated by the size that a file states, which nothing else in it bounds.
_MOST_DRAWS = 10**8
# Two coresets of one level become one of the next, so that no stream has this many levels.
_MOST_LEVELS = 64


def to_table(stream: StreamingCoreset) -> pa.Table:
    """The table of a stream."""
    state, parts = stream.state, _parts_of(stream)
    metadata = {
        "size": stream.size,
        "seed": stream.seed,
        "method": stream.method,
        "divergence": stream.divergence.name,
        "divergence_parameters": stream.divergence.saved_parameters(),
        "n_features": stream.n_features,
        "feature_names": None if stream.feature_names is None else list(stream.feature_names),
        "dtype": None if stream.dtype is None else stream.dtype.name,
        "sparse": stream.container == "sparse",
        "weighted": stream.filling is not None and stream.filling.weighted,
        "arrived": stream.arrived,
        "dropped": stream.dropped,
        "levels": {
            str(level): {**describe(c), "dtype": c.host_points.dtype.name}
            for level, c in stream.levels.items()
        },
        "state": {
            "kernel": state.geometry.kernel,
            "rows": state.rows,
            "blocks": state.blocks,
            "cost": state.cost,
            "pivot": arrow_tables.listed(state.pivot),
            "shift": arrow_tables.listed(state.shift),
            "by_weight": state.by_weight.total,
            "by_cost": 0.0 if state.by_cost is None else state.by_cost.total,
        },
    }
    if not parts:
        return with_metadata(pa.table({"part": pa.array([], pa.string())}), KIND, metadata)
    rows = list(parts.values())
    columns = {
        "part": pa.array([name for name, part in parts.items() for _ in part.indices]),
        "index": pa.array(np.concatenate([part.indices for part in rows])),
        "weight": pa.array(np.concatenate([part.weights for part in rows])),
        "count": pa.array(np.concatenate([part.counts for part in rows])),
        **arrow_tables.point_columns(stack([part.points for part in rows]), None),
    }
    return with_metadata(pa.table(columns), KIND, metadata)


@dataclass(frozen=True)
class _Part:
    """The rows of one part of a stream: their points and the other columns."""

    points: Any
    indices: IntArray
    weights: FloatArray
    counts: IntArray


def _parts_of(stream: StreamingCoreset) -> dict[str, _Part]:
    """The rows of a stream, by the name of their part."""
    parts = {}
    for name in ("by_weight", "by_cost"):
        reservoir = getattr(stream.state, name)
        if reservoir is not None and reservoir.points is not None:
            n = reservoir.slots
            parts[name] = _Part(reservoir.points, reservoir.rows, np.ones(n), _ones(n))
    if stream.filling is not None and stream.filling.n_rows:
        block, n = stream.filling.block(0), stream.filling.n_rows
        weights = np.ones(n) if block.weights is None else block.weights
        parts["waiting"] = _Part(block.points, np.arange(n), weights, _ones(n))
    for level, c in stream.levels.items():
        parts[f"level {level}"] = _Part(c.host_points, c.indices, c.host_weights, c.counts)
    return parts


def _ones(n: int) -> IntArray:
    return np.ones(n, dtype=np.int64)


def from_table(table: pa.Table, metadata: dict[str, Any], name: str) -> StreamingCoreset:
    """Read a stream from its table."""
    with reading(name):
        return _read(table, Fields(metadata))


def _read(table: pa.Table, fields: Fields) -> StreamingCoreset:
    has_rows = not fields.null("n_features")
    sparse, d = read_shape(table, fields, len(_ROW_COLUMNS)) if has_rows else (False, 0)
    stream = StreamingCoreset(
        fields.integer("size", least=1, most=_MOST_DRAWS),
        method=fields.text("method", METHODS),
        divergence=read_divergence(fields, d or None),
        random_state=fields.seed("seed"),
    )
    stream.arrived = fields.integer("arrived")
    stream.dropped = 0 if "dropped" not in fields else fields.integer("dropped")
    stream.state = _state(stream, fields.inner("state"), d)
    if not has_rows:
        _check_empty(table, fields, stream)
        return stream
    stream.n_features, stream.container = d, "sparse" if sparse else "dense"
    stream.feature_names = fields.names("feature_names", d)
    stream.dtype = np.dtype(fields.text("dtype", _DTYPES))
    parts = _read_parts(table, read_points(table, _ROW_COLUMNS, None, sparse, d))
    for name in ("by_weight", "by_cost"):
        _fill(getattr(stream.state, name), parts.pop(name, None), name, stream)
    if "waiting" in parts:
        _fill_block(stream, parts.pop("waiting"), weighted=fields.boolean("weighted"))
    levels = fields.inner("levels")
    for level in levels:
        if level not in map(str, range(_MOST_LEVELS)) or f"level {level}" not in parts:
            raise fields.fail("levels", "numbers of levels that have rows")
        rows = parts.pop(f"level {level}")
        stream.levels[int(level)] = _level(stream, levels.inner(level), rows)
    if parts:
        raise ValueError(f"column 'part' holds {next(iter(parts))!r}, must be a part of a stream")
    n_rows = stream.state.rows + (0 if stream.filling is None else stream.filling.n_rows)
    if stream.dropped > max(n_rows - 1, 0):
        raise fields.fail("dropped", "less than the number of rows")
    if not stream.n_samples:
        raise ValueError("it has columns but no rows, must have rows")
    return stream


def _read_parts(table: pa.Table, points: Any) -> dict[str, _Part]:
    part = np.asarray(arrow_tables.texts_of(table, "part"), dtype=object)
    indices = arrow_tables.column_of(table, "index", np.int64)
    weights = arrow_tables.column_of(table, "weight", np.float64)
    counts = arrow_tables.column_of(table, "count", np.int64)
    parts = {}
    for name in dict.fromkeys(part.tolist()):
        at = np.flatnonzero(part == name)
        parts[name] = _Part(points[at], indices[at], weights[at], counts[at])
    return parts


def _check_empty(table: pa.Table, fields: Fields, stream: StreamingCoreset) -> None:
    """Refuse rows, or traces of any, in the file of a stream that has no columns yet."""
    arrow_tables.check_columns(table, ["part"])
    for name in ("feature_names", "dtype"):
        if not fields.null(name):
            raise fields.fail(name, "null, as there are no columns yet")
    rows = stream.state.rows or stream.arrived or stream.dropped
    if len(table) or fields.record("levels") or rows:
        raise fields.fail("n_features", "a number, as there are rows")


def _fill(
    reservoir: Reservoir | None, part: _Part | None, name: str, stream: StreamingCoreset
) -> None:
    """Give a reservoir its rows: one per slot once a row with mass has passed, none before."""
    slots = 0 if reservoir is None or not reservoir.total else reservoir.slots
    n_rows = 0 if part is None else len(part.indices)
    if slots != n_rows:
        raise ValueError(f"part {name!r} has {n_rows:,} rows, must be {slots:,}, one per slot")
    if reservoir is None or part is None:
        return
    if not 0 <= part.indices.min() <= part.indices.max() < stream.state.rows:
        raise ValueError(
            f"column 'index' holds {part.indices.min()} to {part.indices.max()} in part {name!r}, "
            f"must be row numbers from 0 to {stream.state.rows - 1}"
        )
    _check_size(part)
    reservoir.points = part.points.astype(stream.dtype, copy=False)
    reservoir.rows = part.indices


def _fill_block(stream: StreamingCoreset, part: _Part, *, weighted: bool) -> None:
    """Give the stream the rows of its block that is not full yet."""
    assert stream.n_features is not None
    assert stream.dtype is not None
    step, n = block_rows(stream.n_features), len(part.indices)
    if n >= step:
        raise ValueError(f"part 'waiting' has {n:,} rows, must be less than {step:,}")
    arrow_tables.check_numbers(part.weights, "weight", 0.0)
    _check_size(part)
    stream.filling = Filling(step, stream.n_features, stream.dtype)
    stream.filling.take(ArrayBatch(part.points, n, part.weights if weighted else None), 0, n)


def _level(stream: StreamingCoreset, fields: Fields, part: _Part) -> Coreset:
    """The coreset of one level, whose columns and divergence must be those of the stream."""
    dtype = fields.text("dtype", _ALL_DTYPES)
    coreset = assemble(fields, part.points.astype(dtype), part.weights, part.indices, part.counts)
    if coreset.feature_names != stream.feature_names:
        raise fields.fail("feature_names", "those of the stream")
    if coreset.divergence != stream.divergence:
        raise fields.fail("divergence", "that of the stream")
    if coreset.scale is not None:
        raise fields.fail("scale", "null, as a stream has no scale")
    return coreset


def _check_size(part: _Part) -> None:
    largest = largest_of(part.points)
    if not largest < LARGEST_VALUE:
        raise ValueError(f"its rows hold values of {largest:g}, must be < {LARGEST_VALUE:g}")


def _state(stream: StreamingCoreset, fields: Fields, n_features: int) -> OnePass:
    """The state of the stream, but for the rows of its reservoirs."""
    state = stream.state
    by_weight, by_cost = state.by_weight, state.by_cost
    by_weight.total = fields.number("by_weight", least=0.0)
    total = fields.number("by_cost", least=0.0)
    if by_cost is not None:
        by_cost.total = total
    pivot, shift = fields.vector("pivot", n_features), fields.vector("shift", n_features)
    has_pivot = by_cost is not None and by_weight.total > 0.0
    if (pivot is not None) != has_pivot or (shift is not None) != has_pivot:
        raise fields.fail("pivot", "there, as is shift, once rows are drawn by their distances")
    kernel: Any = fields.text("kernel", ("numpy", "native"))
    return replace(
        state,
        geometry=state.geometry.with_kernel(kernel),
        rows=fields.integer("rows"),
        pivot=pivot,
        shift=shift,
        cost=fields.number("cost", least=0.0),
        blocks=fields.integer("blocks"),
    )
