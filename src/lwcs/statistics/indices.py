"""Indices of a clustering (silhouette, Davies–Bouldin), from the two nearest centers of every row.

They need the distances of rows to their nearest and second nearest center alone, and take no longer
than labels do. The silhouette is the simplified one (Hruschka et al. 2006): a
row is compared with centers, not with all other rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from lwcs.arrays.rows import pieces
from lwcs.geometry.products import PIECE_VALUES
from lwcs.statistics.referee import Mean

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.geometry import Centers, Geometry, Measured
    from lwcs.runtime.parallel import Map


@dataclass(frozen=True, slots=True)
class TwoNearest:
    """The nearest and the second nearest center of every row, and the distances d to both."""

    labels: IntArray
    nearest: FloatArray
    seconds: IntArray
    second: FloatArray
    """Infinite if there is only one center."""

    @classmethod
    def of(cls, rows: Measured, centers: Centers, run: Map = map) -> TwoNearest:
        """Find the two nearest centers, some rows at a time."""
        if len(centers) == 1:
            n = len(rows)
            none = np.zeros(n, dtype=np.int64)
            return cls(none, rows.distances_to(centers), none, np.full(n, np.inf))

        def find(part: slice) -> tuple[IntArray, FloatArray, IntArray, FloatArray]:
            own = rows[part]
            apart = np.asarray(own.all_distances(centers), dtype=np.float64)
            each = np.arange(len(apart))
            labels = np.argmin(apart, axis=1)
            nearest = apart[each, labels]
            apart[each, labels] = np.inf
            seconds = np.argmin(apart, axis=1)
            return labels, nearest, seconds, apart[each, seconds]

        step = max(64, PIECE_VALUES // len(centers))
        found = zip(*run(find, pieces(len(rows), step)), strict=True)
        labels, nearest, seconds, second = (np.concatenate(part) for part in found)
        squared = rows.geometry.of_lengths
        return cls(labels, squared(nearest), seconds, squared(second))


def silhouette(
    weights: FloatArray, counts: IntArray, found: TwoNearest, geometry: Geometry
) -> Mean:
    """Mean of (b − a)/max(a, b): a is the distance to the own center, b to the next one.

    From −1 to 1, and with labels of nearest centers from 0: 1 if every row is on its center, 0 if
    all are as near to another one. Squared distances are taken by their roots. A row between
    centers that coincide counts 0.
    """
    return Mean.on_draws(weights, counts, silhouettes(found, geometry))


def silhouettes(found: TwoNearest, geometry: Geometry) -> FloatArray:
    """(b − a)/max(a, b) of every row, as `silhouette` averages it."""
    ratios = np.divide(
        found.nearest, found.second, out=np.ones(len(found.nearest)), where=found.second > 0.0
    )
    return np.asarray(1.0 - geometry.lengths(ratios))


def davies_bouldin(weights: FloatArray, found: TwoNearest, centers: Centers) -> float:
    """Mean over clusters of the worst (s_i + s_j)/m_ij; the smaller, the better apart.

    s is the mean distance of the rows of a cluster from its center, and m the distance between two
    centers (Davies and Bouldin 1979); squared distances are taken by their roots, a divergence
    as the mean of both directions. Clusters without rows do not count; nan if fewer than two have
    rows, or if centers coincide.
    """
    geometry, k = centers.geometry, len(centers)
    own = geometry.lengths(found.nearest)
    totals = np.bincount(found.labels, weights, k)
    filled = np.flatnonzero(totals > 0.0)
    if len(filled) < 2:
        return nan
    spreads = np.bincount(found.labels, weights * own, k)[filled] / totals[filled]
    worst = [
        np.max(np.delete((spreads[i] + spreads) / apart, i))
        for i, apart in enumerate(_between(centers[filled]))
    ]
    return float(np.mean(worst)) if np.isfinite(worst).all() else nan


def _between(centers: Centers) -> list[FloatArray]:
    """Distances from each center to all of them; its own is infinite, 0 where two coincide."""
    geometry, points = centers.geometry, centers.points
    rows = []
    for i, center in enumerate(points):
        apart = geometry.metric.between(points, center).sum(axis=1)
        if geometry.squared:
            apart = np.sqrt(apart)
        else:
            apart = 0.5 * (apart + geometry.metric.between(center, points).sum(axis=1))
        apart[i] = np.inf
        rows.append(np.where(apart > 0.0, apart, np.nan))
    return rows
