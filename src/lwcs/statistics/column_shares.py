"""Columns as distances see them: which have most of all distances, and which say the same.

Both are found on weighted rows, such as the draws of a coreset, so that no row is read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.rows import as_dense, some_columns, weighted_moments
from lwcs.divergences import SquaredEuclidean
from lwcs.runtime.formatting import plain_percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Rows
    from lwcs.geometry import Geometry

MOST = 0.9
"""One or two columns with a larger share of the squared distances dominate the others."""
ALIKE = 0.999
"""Two columns whose correlation is larger, or below minus this, say the same."""
_ROUNDINGS = 4.0
"""Values that differ by fewer units in their last place differ by how they were computed."""
# Clusters along one column of several in one unit leave distances in which that one has its part.
_LEFT = 0.75
_SCREENED, _SCREEN = 2_000, 0.7
# More columns than this are rarely named one by one, and have too many pairs.
_COMPARED = 200
_TAILS = (0.01, 0.99)


def dominating(variances: FloatArray, most: float = MOST) -> IntArray:
    """The one column, or the two, with more than `most` of the sum, if there are as many others."""
    several = int(np.count_nonzero(variances > 0.0))
    order = np.argsort(-variances, kind="stable")
    for n in (1, 2):
        if 2 * n <= several and variances[order[:n]].sum() > most * variances.sum():
            return order[:n]
    return order[:0]


def dominating_columns(
    points: Rows, weights: FloatArray, geometry: Geometry
) -> list[dict[int, float]]:
    """Columns that dominate squared distances between rows, with their shares of them.

    Where a single one does, that one; and then also it and the one that dominates the others, which
    may have most of what the clusters leave.
    """
    if type(geometry.divergence) is not SquaredEuclidean or geometry.scale is not None:
        return []
    step = -(-points.shape[0] // _SCREENED)
    if step > 1 and not len(dominating(_variances(points[::step], weights[::step]), _SCREEN)):
        return []
    variances = _variances(points, weights)
    first, total = dominating(variances), variances.sum()
    candidates = [first] if len(first) else []
    if len(first) == 1 and len(second := dominating(_without(variances, first))) == 1:
        candidates.append(np.concatenate([first, second]))
    return [{int(j): float(variances[j] / total) for j in sorted(each)} for each in candidates]


def _without(variances: FloatArray, columns: IntArray) -> FloatArray:
    others = variances.copy()
    others[columns] = 0.0
    return others


def have_what_is_left(
    columns: IntArray, points: Rows, weights: FloatArray, centers: DenseRows, cost: float
) -> bool:
    """Whether columns also have most of the distances to centers, each row's own: `centers`."""
    own = some_columns(points, columns).astype(np.float64) - centers[:, columns]
    with np.errstate(over="ignore"):
        return bool(weights @ np.square(own).sum(axis=1) > _LEFT * cost)


def domination_words(columns: Mapping[str, float]) -> str:
    """Which columns dominate, and by how much."""
    s = "s" * (len(columns) != 1)
    each = " and ".join(_called(name) for name in columns)
    has = "have" if s else "has"
    return f"column{s} {each} {has} {plain_percent(sum(columns.values()))} of all squared distances"


def _called(name: str) -> str:
    """A name in quotes; the number of a column that has no name."""
    return name if name.isdigit() else repr(name)


def _variances(points: Rows, weights: FloatArray) -> FloatArray:
    """Weighted variances; 0 for columns beyond the range of numbers, and for rounding errors."""
    with np.errstate(over="ignore"):
        variances = np.square(_moments(points, weights)[1])
    return np.where(np.isfinite(variances), variances, 0.0)


def _moments(points: Rows, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted means and standard deviations; those that are rounding errors are 0."""
    mean, deviation = weighted_moments(points, weights)
    precision = np.finfo(points.dtype if points.dtype.kind == "f" else np.float64).eps
    with np.errstate(invalid="ignore"):
        spread = deviation > _ROUNDINGS * float(precision) * np.abs(mean)
    return mean, np.where(spread, deviation, 0.0)


def alike(points: Rows, weights: FloatArray) -> list[tuple[int, int]]:
    """Pairs of columns that say the same: |correlation| > 0.999, also without the 1 % at each end.

    Without these, a single row that is far away would make columns alike. Each column is paired
    with the first one that it is like.
    """
    if not 1 < points.shape[1] <= _COMPARED or points.shape[0] < 3:
        return []
    step = -(-points.shape[0] // _SCREENED)
    near = _correlated(as_dense(points[::step]), weights[::step])
    pairs, taken = [], set[int]()
    for i, j in np.argwhere(np.triu(near, 1)).tolist():
        if j not in taken and i not in taken and _is_alike(_pair(points, i, j), weights):
            pairs.append((i, j))
            taken.add(j)
    return pairs


def _pair(points: Rows, i: int, j: int) -> FloatArray:
    return some_columns(points, np.array([i, j])).astype(np.float64)


def _is_alike(pair: DenseRows, weights: FloatArray) -> bool:
    low, high = np.quantile(pair, _TAILS, axis=0)
    middle = ((pair >= low) & (pair <= high)).all(axis=1)
    if middle.sum() < 3:
        return False
    # Of rows in the middle, each counts once.
    ones = np.ones(int(middle.sum()))
    return all(
        bool(_correlated(rows, own)[0, 1]) for rows, own in ((pair, weights), (pair[middle], ones))
    )


def _correlated(rows: DenseRows, weights: FloatArray) -> Any:
    """Which columns have a correlation beyond ±0.999."""
    mean, deviation = _moments(rows, weights)
    usable = (deviation > 0.0) & np.isfinite(deviation)
    unit = (rows - mean) / np.where(usable, deviation, 1.0)
    unit[:, ~usable] = 0.0
    return np.abs((unit * (weights / weights.sum())[:, None]).T @ unit) > ALIKE
