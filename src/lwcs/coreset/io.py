"""Coresets as Arrow tables and back: the contents of their Parquet files.

Dense rows have one column per feature, sparse rows two list columns: the column numbers and the
values of their non-zeros. The metadata names the columns that are not features, so that a feature
may be called `weight`. A file may be damaged or hostile: every field is read by
`lwcs.storage.fields.Fields`, within bounds and against the columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lwcs.arrays.rows import container
from lwcs.coreset.coreset import DROPPED, PARTITIONS, Coreset
from lwcs.divergences import Mahalanobis, from_saved
from lwcs.runtime.journal import TIMINGS, read_timings
from lwcs.sources.engines.fingerprints import Fingerprints
from lwcs.sources.scan_options import READING, read_reading
from lwcs.storage import arrow_tables
from lwcs.storage.fields import (
    DEEPEST,
    MOST_DRAWS,
    MOST_FEATURES,
    SMALLEST_SCALE,
    Fields,
    checked_mapping,
    reading,
)
from lwcs.storage.persistence import with_metadata

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.divergences import Divergence

KIND = "coreset"
_ROW_COLUMNS = ("index", "weight", "count")
_PLAIN_FIELDS = ("method", "seed", "total_weight", "total_cost", "depth")


def to_table(coreset: Coreset) -> pa.Table:
    """The table of a coreset."""
    arrays = (coreset.indices, coreset.host_weights, coreset.counts)
    row_columns = dict(zip(_ROW_COLUMNS, arrays, strict=True))
    columns, names = arrow_tables.lay_out(row_columns, coreset.host_points, coreset.feature_names)
    return with_metadata(pa.table(columns), KIND, {**describe(coreset), "columns": names})


def describe(coreset: Coreset) -> dict[str, Any]:
    """The metadata of a coreset: everything but its rows, for JSON."""
    return {
        **{name: getattr(coreset, name) for name in _PLAIN_FIELDS},
        # All rows that were read: the bound of the row numbers.
        "n_samples": coreset._scanned_rows,
        "divergence": coreset.divergence.name,
        "divergence_parameters": coreset.divergence.saved_parameters(),
        "mean": arrow_tables.listed(coreset.mean),
        "scale": arrow_tables.listed(coreset.scale),
        "feature_names": None if coreset.feature_names is None else list(coreset.feature_names),
        "n_features": coreset.n_features,
        "sparse": container(coreset.host_points) == "sparse",
        "details": dict(coreset.details),
    }


def from_table(table: pa.Table, metadata: dict[str, Any], name: str) -> Coreset:
    """Read a coreset from its table."""
    with reading(name):
        fields = Fields(metadata)
        columns = checked_mapping(fields, "columns", _ROW_COLUMNS)
        sparse, d = read_shape(table, fields, len(_ROW_COLUMNS))
        names = fields.names("feature_names", d)
        return assemble(
            fields,
            read_points(table, list(columns.values()), names, sparse, d),
            weights=arrow_tables.column_of(table, columns["weight"], np.float64),
            indices=arrow_tables.column_of(table, columns["index"], np.int64),
            counts=arrow_tables.column_of(table, columns["count"], np.int64),
        )


def read_shape(table: pa.Table, fields: Fields, n_others: int) -> tuple[bool, int]:
    """Whether rows are sparse, and their number of features, beside `n_others` columns."""
    sparse = fields.boolean("sparse")
    d = fields.integer("n_features", least=1, most=MOST_FEATURES)
    if not sparse:
        arrow_tables.check_dense_columns(table, n_others, d)
    return sparse, d


def read_points(
    table: pa.Table, others: list[str], names: tuple[str, ...] | None, sparse: bool, d: int
) -> Any:
    """Read the points; the table must have their columns, and the `others`, alone."""
    if sparse:
        arrow_tables.check_columns(table, [*others, *arrow_tables.SPARSE_COLUMNS])
        return arrow_tables.sparse_points_of(table, d)
    arrow_tables.check_columns(table, [*others, *arrow_tables.feature_columns(names, d)])
    return arrow_tables.points_of(table, names, d)


def read_divergence(fields: Fields, n_features: int | None) -> Divergence:
    """Read a divergence; its matrix, if it has one, must have as many columns as the rows."""
    divergence = from_saved(fields.text("divergence"), fields.record("divergence_parameters"))
    if n_features is not None and isinstance(divergence, Mahalanobis):
        divergence.to_coordinates(np.zeros(n_features))
    return divergence


def assemble(
    fields: Fields, points: Any, weights: FloatArray, indices: IntArray, counts: IntArray
) -> Coreset:
    """Put a coreset together from its rows and the metadata of `describe`, after checking both."""
    d = points.shape[1]
    n_scanned = fields.integer("n_samples", least=1)
    if not len(weights):
        raise ValueError("it has no rows, must have at least one")
    arrow_tables.check_weights_of(weights, "weight")
    arrow_tables.check_indices(indices, "index", n_scanned)
    arrow_tables.check_numbers(counts, "count", 1)
    if float(counts.sum(dtype=np.float64)) >= MOST_DRAWS:
        raise ValueError(f"column 'count' sums to {counts.sum(dtype=np.float64):g}, must be < 1e9")
    details = _details(fields, most_dropped=n_scanned - len(indices))
    return Coreset(
        points=points,
        weights=weights,
        indices=indices,
        counts=counts,
        n_samples=n_scanned - details.get(DROPPED, 0),
        total_weight=fields.number("total_weight", above=0.0),
        mean=fields.vector("mean", d),
        total_cost=None if fields.null("total_cost") else fields.number("total_cost", least=0.0),
        scale=fields.vector("scale", d, above=SMALLEST_SCALE),
        method=fields.text("method"),
        divergence=read_divergence(fields, d),
        seed=None if fields.null("seed") else fields.seed("seed"),
        feature_names=fields.names("feature_names", d),
        depth=fields.integer("depth", most=DEEPEST),
        details=details,
    )


def _details(fields: Fields, most_dropped: int) -> dict[str, Any]:
    details = fields.record("details")
    if DROPPED in details:
        fields.inner("details").integer(DROPPED, most=most_dropped)
    if TIMINGS in details:
        details[TIMINGS] = read_timings(fields.inner("details"))
    if READING in details:
        read_reading(fields.inner("details"))
    if PARTITIONS in details:
        Fingerprints.read(details[PARTITIONS])
    return details
