"""A stream as an Arrow table and back: its checkpoint.

One row for each slot of the reservoirs, each row that waits, each row of the coresets that have
arrived; `part` says which it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lwcs.coreset_table import assemble, describe, read_points
from lwcs.divergences import from_saved
from lwcs.foundation.randomness import Stage
from lwcs.foundation.rows import stack
from lwcs.foundation.storage import with_metadata
from lwcs.foundation.tables import listed, point_columns, vector
from lwcs.samplers.one_pass import OnePass
from lwcs.samplers.reservoir import Reservoir
from lwcs.sources.base import block_rows
from lwcs.sources.batches import ArrayBatch, Filling
from lwcs.streaming import StreamingCoreset

KIND = "stream"


def to_table(stream: StreamingCoreset) -> pa.Table:
    """Lay a stream out as a table."""
    state = stream.state
    parts: list[tuple[str, Any, Any, Any, Any]] = []
    for name, reservoir in (("by_weight", state.by_weight), ("by_cost", state.by_cost)):
        if reservoir is not None and reservoir.points is not None:
            n = reservoir.slots
            parts.append((name, reservoir.points, reservoir.rows, np.ones(n), np.ones(n)))
    waiting = stream.filling
    if waiting is not None and waiting.n_rows:
        block = waiting.block(0)
        n = waiting.n_rows
        weights = np.ones(n) if block.weights is None else block.weights
        parts.append(("waiting", block.points, np.arange(n), weights, np.ones(n)))
    for level, coreset in stream.levels.items():
        columns = (coreset.points, coreset.indices, coreset.weights, coreset.counts)
        parts.append((f"level {level}", *columns))
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
        "weighted": waiting is not None and waiting.weighted,
        "arrived": stream.arrived,
        "levels": {
            str(level): {**describe(c), "dtype": c.points.dtype.name}
            for level, c in stream.levels.items()
        },
        "state": {
            "kernel": state.geometry.kernel,
            "rows": state.rows,
            "blocks": state.blocks,
            "cost": state.cost,
            "pivot": listed(state.pivot),
            "shift": listed(state.shift),
            "by_weight": state.by_weight.total,
            "by_cost": 0.0 if state.by_cost is None else state.by_cost.total,
        },
    }
    if not parts:
        return with_metadata(pa.table({"part": pa.array([], pa.string())}), KIND, metadata)
    names = tuple(f"x{j}" for j in range(parts[0][1].shape[1]))
    table = pa.table(
        {
            "part": pa.array([p[0] for p in parts for _ in range(p[1].shape[0])]),
            "index": pa.array(np.concatenate([p[2] for p in parts])),
            "weight": pa.array(np.concatenate([p[3] for p in parts])),
            "count": pa.array(np.concatenate([p[4] for p in parts]).astype(np.int64)),
            **point_columns(stack([p[1] for p in parts]), names),
        }
    )
    return with_metadata(table, KIND, metadata)


def from_table(table: pa.Table, metadata: dict[str, Any], name: str) -> StreamingCoreset:
    """Read a stream off its table."""
    try:
        return _read(table, metadata)
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise ValueError(f"{name!r} is a damaged stream file: {error}") from error


def _read(table: pa.Table, metadata: dict[str, Any]) -> StreamingCoreset:
    stream = StreamingCoreset(
        metadata["size"],
        method=metadata["method"],
        divergence=from_saved(
            metadata.get("divergence", "sqeuclidean"), metadata.get("divergence_parameters", {})
        ),
        random_state=metadata["seed"],
    )
    stream.n_features = metadata["n_features"]
    if stream.n_features is not None:
        stream.container = "sparse" if metadata["sparse"] else "dense"
    names, dtype = metadata["feature_names"], metadata["dtype"]
    stream.feature_names = None if names is None else tuple(names)
    stream.dtype = None if dtype is None else np.dtype(dtype)
    stream.arrived = metadata["arrived"]
    stream.state = _state(stream, metadata["state"])
    if not len(table):
        return stream
    points = read_points(table, {**metadata, "feature_names": None})
    part = np.asarray(table["part"].to_pylist(), dtype=object)
    columns = {
        key: np.array(table[column].to_numpy())
        for key, column in (("indices", "index"), ("weights", "weight"), ("counts", "count"))
    }
    for each in dict.fromkeys(part.tolist()):
        at = np.flatnonzero(part == each)
        rows, own = points[at], {key: values[at] for key, values in columns.items()}
        if each == "waiting":
            assert stream.n_features is not None
            assert stream.dtype is not None
            weights = own["weights"] if metadata["weighted"] else None
            step = block_rows(stream.n_features)
            stream.filling = Filling(step, stream.n_features, stream.dtype)
            stream.filling.take(ArrayBatch(rows, len(at), weights), 0, len(at))
        elif each.startswith("level "):
            level = each.removeprefix("level ")
            known = metadata["levels"][level]
            stream.levels[int(level)] = assemble(known, rows.astype(known["dtype"]), **own)
        else:
            reservoir: Reservoir = getattr(stream.state, each)
            reservoir.points = rows.astype(stream.dtype, copy=False)
            reservoir.rows = own["indices"]
    return stream


def _state(stream: StreamingCoreset, known: dict[str, Any]) -> OnePass:
    fresh = stream.state
    by_weight, by_cost = fresh.by_weight, fresh.by_cost
    by_weight.total = known["by_weight"]
    if by_cost is not None:
        by_cost.total = known["by_cost"]
    return OnePass(
        size=stream.size,
        seed=stream.seed,
        stage=Stage.CORESET,
        geometry=fresh.geometry.with_kernel(known["kernel"]),
        by_cost=by_cost,
        by_weight=by_weight,
        rows=known["rows"],
        pivot=vector(known["pivot"]),
        shift=vector(known["shift"]),
        cost=known["cost"],
        blocks=known["blocks"],
    )
