"""The checks of `Coreset.from_arrays`, and the defaults of what its caller leaves out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import (
    BadValueError,
    check_count,
    check_number,
    check_numbers,
    check_weights,
)
from lwcs.coreset.coreset import ALL_ROWS, DROPPED, check_values
from lwcs.divergences import SquaredEuclidean, as_divergence
from lwcs.runtime.journal import TIMINGS, read_timings
from lwcs.sources.memory.local import open_local
from lwcs.sources.scan_options import check_not_empty
from lwcs.storage.fields import DEEPEST, LARGEST_INTEGER, MOST_DRAWS, SMALLEST_SCALE, Fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.divergences import Divergence


def checked_fields(
    points: Any,
    weights: Any,
    *,
    indices: Any,
    counts: Any,
    n_samples: int | None,
    total_weight: float | None,
    mean: Any,
    total_cost: float | None,
    scale: Any,
    divergence: str | Divergence,
    method: str,
    seed: int | None,
    feature_names: Sequence[str] | None,
    depth: int,
    details: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Check the arguments of `Coreset.from_arrays`; return the fields of the coreset."""
    source = open_local(points)
    r, d = source.n_rows, source.n_features
    check_not_empty((r, d))
    rows, divergence = source.read(0, r), as_divergence(divergence)
    names = source.feature_names if feature_names is None else feature_names
    names = None if names is None else _names(names, d)
    try:
        check_values(rows, divergence)
    except BadValueError as bad:
        raise bad.explained(0, " of points", names) from None
    omega = check_weights(weights, r, "weights")
    if not omega.any():
        raise ValueError("all weights are zero; give at least one row a weight > 0")
    row_numbers = np.arange(r) if indices is None else _integers(indices, "indices", r, 0)
    distinct, times = np.unique(row_numbers, return_counts=True)
    if len(distinct) < r:
        raise ValueError(
            f"indices are row numbers and must be different, but {distinct[times > 1][0]} occurs "
            "more than once"
        )
    metadata = {} if details is None else _details(details)
    last, dropped = int(distinct[-1]), metadata.get(DROPPED, 0)
    least = max(last + 1 - dropped, r)
    n_rows = least
    if n_samples is not None:
        n_rows = check_count(n_samples, "n_samples", most=LARGEST_INTEGER - dropped)
    if n_rows < least:
        also = f", and details[{DROPPED!r}]={dropped}" if dropped else ""
        raise ValueError(
            f"indices go up to {last}{also}, but n_samples={n_rows}; pass n_samples > {least - 1}"
        )
    drawn = np.ones(r, dtype=np.int64) if counts is None else _integers(counts, "counts", r, 1)
    if float(drawn.sum(dtype=np.float64)) >= MOST_DRAWS:
        raise ValueError(
            f"counts sum to {drawn.sum(dtype=np.float64):g}; pass numbers of draws that sum to "
            f"less than {MOST_DRAWS:g}"
        )
    if method == ALL_ROWS and not (n_rows == r == int(drawn.sum())):
        raise ValueError(
            f"method={ALL_ROWS!r} is for all rows of the data, each counted once, but n_samples="
            f"{n_rows}, and the {r} points have counts that sum to {int(drawn.sum())}"
        )
    if scale is not None and type(divergence) is not SquaredEuclidean:
        raise ValueError(f"scale is only for squared Euclidean distances, not for {divergence!r}")
    order = np.argsort(row_numbers)
    if not np.array_equal(order, np.arange(r)):
        rows, omega, drawn = rows[order], omega[order], drawn[order]
    return {
        "points": rows,
        "weights": omega,
        "indices": distinct,
        "counts": drawn,
        "n_samples": n_rows,
        "total_weight": check_number(
            float(omega.sum()) if total_weight is None else total_weight, "total_weight", above=0.0
        ),
        "mean": None if mean is None else _vector(mean, "mean", d),
        "total_cost": None if total_cost is None else check_number(total_cost, "total_cost"),
        "scale": None if scale is None else _vector(scale, "scale", d, SMALLEST_SCALE),
        "divergence": divergence,
        "method": str(method),
        "seed": None if seed is None else check_count(seed, "seed", least=0),
        "feature_names": names,
        "depth": check_count(depth, "depth", least=0, most=DEEPEST),
        "details": metadata,
    }


def _integers(values: Any, name: str, n: int, least: int) -> IntArray:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} have dtype {array.dtype}; pass integers")
    if array.shape != (n,):
        raise ValueError(
            f"{name} have shape {array.shape} but there are {n} points; pass shape ({n},)"
        )
    if array.min() < least or array.max() > np.iinfo(np.int64).max:
        bad = int(np.flatnonzero((array < least) | (array > np.iinfo(np.int64).max))[0])
        raise ValueError(f"{name}[{bad}]={array[bad]} is not allowed; pass integers >= {least}")
    return array.astype(np.int64)


def _vector(values: Any, name: str, n: int, above: float = -np.inf) -> FloatArray:
    array = check_numbers(values, name, (n,), f"points of {n} columns")
    too_small = np.flatnonzero(array <= above)
    if len(too_small):
        j = too_small[0]
        raise ValueError(f"{name}[{j}]={array[j]} is not allowed; pass numbers > {above:g}")
    return array


def _names(names: Sequence[str], n: int) -> tuple[str, ...]:
    listed = isinstance(names, Iterable) and not isinstance(names, str)
    if not listed or not all(isinstance(name, str) for name in names):
        raise TypeError(f"feature_names={names!r} are not all text; pass a list of {n} names")
    if len(names) != n:
        raise ValueError(f"there are {len(names)} feature_names but {n} columns; pass {n} names")
    if len(set(names)) < n:
        twice = next(name for name in names if list(names).count(name) > 1)
        raise ValueError(f"feature_names must be different, but {twice!r} occurs more than once")
    return tuple(names)


def _details(details: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata as it would come out of a file: tuples as lists, and keys as text."""
    try:
        plain = json.loads(json.dumps(details, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"details={details!r} cannot be saved ({error}); pass a dict of numbers, texts and "
            "lists of them"
        ) from None
    if not isinstance(plain, dict):
        raise TypeError(f"details={details!r} is not a dict; pass a dict, or leave it out")
    if DROPPED in plain:
        check_count(plain[DROPPED], f"details[{DROPPED!r}]", least=0, most=LARGEST_INTEGER)
    if TIMINGS in plain:
        try:
            read_timings(Fields(plain))
        except ValueError as error:
            raise ValueError(
                f"details[{TIMINGS!r}]: {error}; pass those of a coreset that was built, or leave "
                "them out"
            ) from None
    return plain
