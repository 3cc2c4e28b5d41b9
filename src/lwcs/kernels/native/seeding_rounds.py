"""Rounds of k-means++, and swaps of a local search (`core/seeding.cpp`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lwcs.kernels.native.arguments import (
    CORE,
    check_labels,
    doubles,
    integers,
    readable,
    require,
    type_of,
)
from lwcs.kernels.native.teams import CURRENT

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows, FloatArray, IntArray
    from lwcs.kernels.native.tiles import Tiles

_BLOCK = 256
"""Points of a seeding whose sums are taken together, as in `core/seeding.cpp`."""


class TiledSeeding:
    """Rounds of k-means++ over points in tiles.

    In double precision, `points` are the rows themselves, to mend distances that products have
    lost; `unit` is the unit of distances of products.
    """

    def __init__(
        self, tiles: Tiles, points: DenseRows | None, precision: FloatArray | None, unit: float
    ) -> None:
        self._tiles, self.dtype = tiles, tiles.columns.dtype
        points = None if points is None else readable(points)
        dtype = 0 if points is None else type_of(points)
        self._points = (
            self.dtype == np.float64, tiles.columns, tiles._norms, tiles.n_rows,
            tiles.columns.shape[1], dtype, points, doubles(precision), unit,
        )  # fmt: skip

    def distances(self, chosen: IntArray) -> DenseRows:
        """d of all points to some of them, one row per choice."""
        out = np.empty((len(chosen), self._tiles.n_rows), self.dtype)
        CORE.seed_distances(*self._points, self._checked(chosen), len(chosen), out, CURRENT.team)
        return out

    def _checked(self, chosen: IntArray) -> IntArray:
        own: IntArray = integers(chosen)
        check_labels(own, self._tiles.n_rows)
        return own

    def choose(
        self,
        weights: FloatArray,
        uniforms: FloatArray,
        chosen: IntArray,
        stop_at: float,
        at_once: int,
    ) -> IntArray:
        """Choose points until there are as many as rows of `uniforms`, or the cost is `stop_at`.

        `uniforms` has one column per candidate. After `at_once` products, Python may interrupt.
        """
        (k, many), n = uniforms.shape, self._tiles.n_rows
        require(many <= 64, many)
        n_blocks = -(-n // _BLOCK)
        light, closest = np.zeros((2, n_blocks * _BLOCK), self.dtype)
        light[:n] = weights
        closest[:] = np.inf
        CORE.seed_closest(*self._points, self._checked(chosen), len(chosen), closest, CURRENT.team)
        reached = np.empty((n_blocks, many, _BLOCK), self.dtype)
        reached[:, 0] = closest.reshape(n_blocks, _BLOCK)
        picked = np.empty(k, dtype=np.int64)
        picked[: len(chosen)] = chosen
        # The first round has one candidate, which is chosen already.
        candidates = np.repeat(integers(chosen[-1:]), many)
        counts = np.array([len(chosen) - 1, 0, 0], dtype=np.int64)
        rounds = max(1, at_once // (many * self._tiles.columns.size))
        uniform, sums = np.ascontiguousarray(uniforms), np.empty((n_blocks, many))
        while not counts[2]:
            CORE.seed(
                *self._points, light, uniform, k, many, stop_at, candidates, closest, reached,
                sums, picked, counts, rounds, CURRENT.team,
            )  # fmt: skip
        return picked[: counts[0]]


def first_swap(
    distances: DenseRows,
    first: int,
    nearest: DenseRows,
    second: DenseRows,
    weights: FloatArray,
    labels: IntArray,
    losses: FloatArray,
    cancelled: float,
    least_gain: float,
) -> tuple[int, int] | None:
    """Up to the next that pays, whatever the number of candidates."""
    found, (many, n) = np.empty(2, dtype=np.int64), distances.shape
    check_labels(labels, len(losses))
    CORE.try_swaps(
        distances.dtype == np.float64, distances, n, first, many, nearest, second, weights, labels,
        losses, len(losses), cancelled, least_gain, found,
    )  # fmt: skip
    return None if found[0] < 0 else (int(found[0]), int(found[1]))
