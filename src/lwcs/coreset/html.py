"""A coreset in a notebook: its facts, and its first rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.device import copied
from lwcs.arrays.rows import is_sparse
from lwcs.runtime import formatting as markup
from lwcs.runtime.formatting import shortened

if TYPE_CHECKING:
    from lwcs.coreset.coreset import Coreset

_ROWS, _COLUMNS = 5, 8
_LONGEST = 40


def to_html(coreset: Coreset) -> str:
    """The facts of a coreset, and its first rows, all of it escaped."""
    some = f"the first {_ROWS} of {len(coreset):,} rows" if len(coreset) > _ROWS else "all rows"
    if coreset.n_features > _COLUMNS and not is_sparse(coreset.points):
        some += f", {_COLUMNS} of {coreset.n_features:,} columns"
    first = markup.paragraphs([f"{some[0].upper()}{some[1:]}:"])
    return f"<div>{markup.facts(_facts(coreset))}{first}{_first_rows(coreset)}</div>"


def _facts(coreset: Coreset) -> list[tuple[str, str]]:
    weights = coreset.host_weights
    drawn = "all rows, nothing sampled" if coreset.exact else f"{coreset.size:,} draws"
    distinct = "" if len(coreset) == coreset.size else f", {len(coreset):,} distinct rows"
    found = [
        ("Coreset", f"{drawn}{distinct}"),
        ("of", f"{coreset.n_samples:,} rows × {coreset.n_features:,} columns"),
        ("method", coreset.method),
        ("divergence", repr(coreset.divergence)),
        (
            "weights",
            f"{weights.min():.4g} to {weights.max():.4g}, sum {weights.sum():,.6g} for a total "
            f"of {coreset.total_weight:,.6g}",
        ),
    ]
    if coreset.scale is not None:
        found.append(("scale", "distances in standard deviations of the columns"))
    if coreset.total_cost is not None:
        found.append(("cost of the mean", f"{coreset.total_cost:.6g}"))
    if coreset.seed is not None:
        found.append(("seed", str(coreset.seed)))
    if coreset.depth:
        found.append(("depth", f"{coreset.depth} (a union, or a reduction of one)"))
    return found


def _first_rows(coreset: Coreset) -> str:
    rows: Any = copied(coreset.host_points[:_ROWS])
    lead = [
        [f"{index:,}", f"{weight:.4g}", str(count)]
        for index, weight, count in zip(
            coreset.indices[:_ROWS],
            coreset.host_weights[:_ROWS],
            coreset.counts[:_ROWS],
            strict=True,
        )
    ]
    if is_sparse(rows):
        lines = [[*own, _stored(coreset, rows[[row]])] for row, own in enumerate(lead)]
        return markup.table(["row", "weight", "count", "largest values"], lines)
    names = [_name(coreset, column) for column in range(min(coreset.n_features, _COLUMNS))]
    more = ["…"] * (coreset.n_features > _COLUMNS)
    lines = [
        [*own, *(f"{value:.4g}" for value in np.asarray(row)[:_COLUMNS]), *more]
        for own, row in zip(lead, rows, strict=True)
    ]
    return markup.table(["row", "weight", "count", *names, *more], lines)


def _stored(coreset: Coreset, row: Any) -> str:
    """The largest values of a sparse row."""
    order = np.argsort(-np.abs(row.data), kind="stable")[:_COLUMNS]
    shown = [f"{_name(coreset, int(row.indices[each]))}: {row.data[each]:.4g}" for each in order]
    more = row.nnz - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _name(coreset: Coreset, column: int) -> str:
    names = coreset.feature_names
    name = f"column {column}" if names is None else str(names[column])
    return shortened(name, _LONGEST)
