"""Whether two coresets are the same, and why they differ: how they were made, or their rows."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from lwcs.foundation.rows import same_rows
from lwcs.foundation.timings import TIMINGS
from lwcs.sources.fingerprints import PARTITIONS, Fingerprints

if TYPE_CHECKING:
    from lwcs.coreset import Coreset

_OF_THE_RUN = (TIMINGS, PARTITIONS)
"""Details of the run that made a coreset, which do not matter for equality."""
_SHOWN = 5
_MADE_BY = ("method", "divergence", "seed", "size", "depth", "feature_names")


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same: arrays in dtype and to the last bit, others by ==."""
    if hasattr(one, "dtype") and hasattr(other, "dtype"):
        return same_rows(one, other)
    return type(one) is type(other) and bool(one == other)


def is_same(one: Coreset, other: Coreset) -> bool:
    """Whether two coresets are equal."""
    return all(same(_compared(one, f.name), _compared(other, f.name)) for f in fields(one))


def _compared(coreset: Coreset, name: str) -> Any:
    if name != "details":
        return getattr(coreset, {"points": "rows", "weights": "omega"}.get(name, name))
    return {key: value for key, value in coreset.details.items() if key not in _OF_THE_RUN}


def explain_difference(one: Coreset, other: Coreset) -> str:
    """Say in words what differs; "nothing differs" if nothing does."""
    made = [
        f"{name} is {own!r} and {given!r}"
        for name in _MADE_BY
        if (own := getattr(one, name)) != (given := getattr(other, name))
    ]
    if one.rows.dtype != other.rows.dtype:
        made.append(f"the dtype is {one.rows.dtype} and {other.rows.dtype}")
    if one == other:
        return "nothing differs"
    rows = _of_rows(one, other)
    if not made and not rows:
        return _ELSEWHERE
    return "; ".join(made + rows)


_ELSEWHERE = (
    "the same rows were drawn from in the same way, so that the versions or the processors differ "
    "(lwcs, NumPy, numba, LWCS_KERNEL)"
)


def _of_rows(one: Coreset, other: Coreset) -> list[str]:
    """What differs in the rows."""
    if PARTITIONS not in one.details or PARTITIONS not in other.details:
        return [
            "nothing is known of the rows: fingerprints are taken of the partitions of Dask, "
            "Spark and Ray, and both coresets must have them"
        ]
    own, given = (Fingerprints.read(each.details[PARTITIONS]) for each in (one, other))
    if own.fingerprints == given.fingerprints and own.partitions == given.partitions:
        return []
    found = _of_partitions(own, given)
    same = own.all_contents == given.all_contents and sum(own.rows) == sum(given.rows)
    return [*found, "all in all the rows are " + ("the same" if same else "others")]


def _of_partitions(own: Fingerprints, given: Fingerprints) -> list[str]:
    if own.partitions != given.partitions:
        return [f"there are {own.partitions:,} and {given.partitions:,} partitions"]
    found: dict[str, list[str]] = {}
    for i, fingerprint in enumerate(own.fingerprints):
        if fingerprint == given.fingerprints[i]:
            continue
        if own.rows[i] != given.rows[i]:
            what = "another number of rows"
        elif own.contents[i] != given.contents[i]:
            what = "other rows"
        else:
            what = "the same rows in another order"
        found.setdefault(what, []).append(_called(own, i))
    return [f"{_listed(names)} {what}" for what, names in found.items()]


def _called(prints: Fingerprints, i: int) -> str:
    """The partitions that share a fingerprint."""
    first = i * prints.each
    last = min(first + prints.each, prints.partitions) - 1
    return f"{first}" if first == last else f"{first}–{last}"


def _listed(names: list[str]) -> str:
    if len(names) == 1:
        return f"partition {names[0]} has"
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"partitions {', '.join(names[:_SHOWN])}{more} have"
