"""The points on the map: how many of them, and how many of their values fit into the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.foundation.device import copied
from lwcs.foundation.rows import some_columns

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.describing import Description
    from lwcs.foundation.types import FloatArray, IntArray

MOST_POINTS = 100_000
MOST_COLUMNS = 8
"""Values of a point that a tooltip has room for."""
# Bytes of all arrays of the map in the file, where 3 bytes become 4 letters. The scripts take
# 1.5 MB, and the tables of 500 clusters less than 1 MB: together less than 6 MB.
_BUDGET = 3_600_000
_SEED = 0
# float32 has all integers up to here.
_WHOLE = 2**24


@dataclass(frozen=True, eq=False)
class Points:
    """What is known of every point on the map, the heaviest first; arrays as small as they can be.

    Heavy points are drawn first, so that they do not cover others.
    """

    x: npt.NDArray[Any]
    y: npt.NDArray[Any]
    clusters: npt.NDArray[Any]
    weights: npt.NDArray[Any]
    rows: npt.NDArray[Any]
    """Row numbers in the data."""
    columns: list[int]
    """Numbers of the columns whose values are there, the most telling first."""
    values: list[npt.NDArray[Any]]
    of: int
    """Number of points of the coreset."""

    @classmethod
    def of_description(cls, found: Description) -> Points:
        """Choose the points, and the columns whose values fit."""
        chosen = _chosen(found.coreset.omega)
        view = found.projection.view
        x, y = (
            _as_drawn(found.projection.points[chosen, axis], view[axis][1] - view[axis][0])
            for axis in (0, 1)
        )
        own = (
            x,
            y,
            _smallest(found.labels[chosen], found.k),
            found.coreset.omega[chosen].astype(np.float32),
            _smallest(found.coreset.indices[chosen], found.coreset.n_samples),
        )
        left = _BUDGET - sum(map(_in_file, own))
        columns: list[int] = []
        values: list[npt.NDArray[Any]] = []
        leading = found.telling_columns[:MOST_COLUMNS]
        for j, given in zip(leading, _columns(found, leading, chosen).T, strict=True):
            column = _as_shown(given)
            left -= _in_file(column)
            if left < 0:
                break
            columns.append(int(j))
            values.append(column)
        return cls(*own, columns, values, len(found.labels))

    def __len__(self) -> int:
        """Number of points on the map."""
        return len(self.x)


def _chosen(weights: FloatArray) -> IntArray:
    """At most so many points, chosen at random but always the same ones; the heaviest first."""
    chosen = np.arange(len(weights))
    if len(weights) > MOST_POINTS:
        chosen = np.random.default_rng(_SEED).choice(chosen, MOST_POINTS, replace=False)
        chosen.sort()
    return chosen[np.argsort(-weights[chosen], kind="stable")]


def _in_file(values: npt.NDArray[Any]) -> int:
    """Bytes of an array in the file."""
    return 4 * ((values.nbytes + 2) // 3)


def _smallest(values: IntArray, stop: int) -> npt.NDArray[Any]:
    """Whole numbers from 0 to `stop`; JavaScript has no arrays of plain 64-bit integers."""
    for kind in (np.uint8, np.uint16, np.int32):
        if stop <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.astype(np.float64)


def _as_drawn(values: FloatArray, width: float) -> npt.NDArray[Any]:
    """Coordinates, in single precision if nobody can see the difference."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    error = np.abs(single - values).max(initial=0.0)
    return single if error <= 1e-5 * width else values


def _as_shown(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values of a column, as exact as they are shown."""
    if values.dtype.kind in "biu" or bool((values == np.trunc(values)).all()):
        least, most = values.min(), values.max()
        for kind in (np.uint8, np.int16, np.int32):
            if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
                return values.astype(kind)
    wide = values.astype(np.float64)
    if np.abs(wide).max(initial=0.0) < _WHOLE:
        return wide.astype(np.float32)
    return wide


def _columns(found: Description, columns: IntArray, chosen: IntArray) -> npt.NDArray[Any]:
    """The values of some columns, in the units of the data."""
    return some_columns(copied(found.coreset.rows), columns)[chosen]
