"""Comparison of coresets, with the differences in words, and their view in a notebook."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from lwcs.arrays.device import copied
from lwcs.arrays.rows import is_sparse, same_rows
from lwcs.coreset.coreset import PARTITIONS, Coreset
from lwcs.runtime import formatting as markup
from lwcs.runtime.formatting import shortened
from lwcs.runtime.journal import TIMINGS
from lwcs.sources.engines.fingerprints import Fingerprints

# Details of the run that made a coreset, which do not matter for equality.
_IGNORED_DETAILS = (TIMINGS, PARTITIONS)
_MOST_PARTITIONS_SHOWN = 5
_PARAMETERS = ("method", "divergence", "seed", "size", "depth", "feature_names")
_NOT_THE_ROWS = (
    "the same rows were drawn from in the same way, so that the versions or the processors differ "
    "(lwcs, NumPy, LWCS_KERNEL)"
)
_NO_FINGERPRINTS = (
    "nothing is known of the rows: fingerprints are taken of the partitions of Dask, Spark and "
    "Ray, and both coresets must have them"
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal: arrays in dtype and every bit, others by type and ==."""
    if hasattr(one, "dtype") and hasattr(other, "dtype"):
        return same_rows(one, other)
    return type(one) is type(other) and bool(one == other)


def is_same(one: Coreset, other: Coreset) -> bool:
    """Whether all fields of two coresets are equal, on whatever device their arrays are."""
    return all(same(_compared(one, f.name), _compared(other, f.name)) for f in fields(one))


def _compared(coreset: Coreset, name: str) -> Any:
    if name == "details":
        return {key: v for key, v in coreset.details.items() if key not in _IGNORED_DETAILS}
    return getattr(coreset, f"host_{name}" if name in ("points", "weights") else name)


def explain_difference(one: Coreset, other: Coreset) -> str:
    """Say in words what differs; "nothing differs" if nothing does."""
    if one == other:
        return "nothing differs"
    differences = [
        f"{name} is {first!r} and {second!r}"
        for name in _PARAMETERS
        if (first := getattr(one, name)) != (second := getattr(other, name))
    ]
    if one.host_points.dtype != other.host_points.dtype:
        differences.append(f"the dtype is {one.host_points.dtype} and {other.host_points.dtype}")
    differences += _differences_of_rows(one, other)
    return "; ".join(differences) or _NOT_THE_ROWS


def _differences_of_rows(one: Coreset, other: Coreset) -> list[str]:
    """The differences that the fingerprints of the partitions show."""
    if PARTITIONS not in one.details or PARTITIONS not in other.details:
        return [_NO_FINGERPRINTS]
    first, second = (Fingerprints.read(each.details[PARTITIONS]) for each in (one, other))
    if first.fingerprints == second.fingerprints and first.partitions == second.partitions:
        return []
    same = first.all_contents == second.all_contents and sum(first.rows) == sum(second.rows)
    return [
        *_differences_of_partitions(first, second),
        "all in all the rows are " + ("the same" if same else "others"),
    ]


def _differences_of_partitions(first: Fingerprints, second: Fingerprints) -> list[str]:
    if first.partitions != second.partitions:
        return [f"there are {first.partitions:,} and {second.partitions:,} partitions"]
    partitions: dict[str, list[str]] = {}
    for i, fingerprint in enumerate(first.fingerprints):
        if fingerprint == second.fingerprints[i]:
            continue
        if first.rows[i] != second.rows[i]:
            what = "another number of rows"
        elif first.contents[i] != second.contents[i]:
            what = "other rows"
        else:
            what = "the same rows in another order"
        partitions.setdefault(what, []).append(_partition_range(first, i))
    return [f"{_partitions_have(names)} {what}" for what, names in partitions.items()]


def _partition_range(prints: Fingerprints, i: int) -> str:
    """The numbers of the partitions that share fingerprint `i`."""
    first = i * prints.each
    last = min(first + prints.each, prints.partitions) - 1
    return f"{first}" if first == last else f"{first}–{last}"


def _partitions_have(names: list[str]) -> str:
    if len(names) == 1:
        return f"partition {names[0]} has"
    hidden = len(names) - _MOST_PARTITIONS_SHOWN
    more = f" and {hidden:,} more" if hidden > 0 else ""
    return f"partitions {', '.join(names[:_MOST_PARTITIONS_SHOWN])}{more} have"


_ROWS, _COLUMNS = 5, 8
_LONGEST = 40


def to_html(coreset: Coreset) -> str:
    """The facts of a coreset and its first rows as HTML, with all texts escaped."""
    some = f"the first {_ROWS} of {len(coreset):,} rows" if len(coreset) > _ROWS else "all rows"
    if coreset.n_features > _COLUMNS and not is_sparse(coreset.points):
        some += f", {_COLUMNS} of {coreset.n_features:,} columns"
    first = markup.paragraphs([f"{some[0].upper()}{some[1:]}:"])
    return f"<div>{markup.facts(_facts(coreset))}{first}{_first_rows(coreset)}</div>"


def _facts(coreset: Coreset) -> list[tuple[str, str]]:
    weights = coreset.host_weights
    drawn = "all rows, nothing sampled" if coreset.exact else f"{coreset.size:,} draws"
    distinct = "" if len(coreset) == coreset.size else f", {len(coreset):,} distinct rows"
    facts = [
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
        facts.append(("scale", "distances in standard deviations of the columns"))
    if coreset.total_cost is not None:
        facts.append(("cost of the mean", f"{coreset.total_cost:.6g}"))
    if coreset.seed is not None:
        facts.append(("seed", str(coreset.seed)))
    if coreset.depth:
        facts.append(("depth", f"{coreset.depth} (a union, or a reduction of one)"))
    return facts


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
        lines = [[*cells, _stored(coreset, rows[[row]])] for row, cells in enumerate(lead)]
        return markup.table(["row", "weight", "count", "largest values"], lines)
    names = [_name(coreset, column) for column in range(min(coreset.n_features, _COLUMNS))]
    more = ["…"] * (coreset.n_features > _COLUMNS)
    lines = [
        [*cells, *(f"{value:.4g}" for value in np.asarray(row)[:_COLUMNS]), *more]
        for cells, row in zip(lead, rows, strict=True)
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
