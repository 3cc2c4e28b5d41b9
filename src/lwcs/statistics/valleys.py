"""Histograms of draws on the lines between neighbouring centers, and the valleys they show.

`separation` explains what is projected, and why. An entry of a draw says in which cell of which
pair it is; with weights, entries become histograms, for all draws or for a resample of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels, Mask
    from lwcs.geometry import Centers, Measured

# Cells of a histogram of t, from the first to the last value that counts.
_FROM, _TO, _CELLS = -0.25, 1.25, 30
_PER_CELL = (_TO - _FROM) / _CELLS
# A valley has this number of cells, and begins at one of these.
_VALLEY = 4
_VALLEYS = range(_CELLS // 2 - _VALLEY // 2 - 3, _CELLS // 2 - _VALLEY // 2 + 4)
# A side reaches from the valley to its center, or a quarter of the way beyond; with the cells on
# both sides of the center, where all draws are if they have the same value.
_BEYOND = (0, 4)
# At the border, the density is below this part of that on both sides...
_SHALLOW = 0.5
# ... and no more likely to be so by chance in one cluster, at one place and side of it.
LEVEL = 0.03
# Two clusters touch if both have at least this part of the draws between them, relative to the
# weight of the smaller one: the first if there are no draws at the border, else the second.
TOUCHING, HARDLY_TOUCHING = 0.25, 0.1
# A draw that is nearly all of its cluster is taken for this part of it.
_LARGEST_SHARE = 0.9
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True)
class JudgedDraws:
    """Draws with their labels and weights, and the size of every cluster."""

    rows: Measured
    weights: FloatArray
    squares: FloatArray
    """w²/counts: their sum is the variance of a sum of weights."""
    labels: Labels
    factors: FloatArray
    """Factors on the distances to centers that leave out the draw itself."""
    sizes: FloatArray
    """Effective number of draws of every cluster."""
    totals: FloatArray
    """Weight of every cluster."""

    @classmethod
    def of(
        cls, rows: Measured, weights: FloatArray, counts: IntArray, labels: Labels,
        fitted: FloatArray, k: int,
    ) -> JudgedDraws:  # fmt: skip
        """Draws of k clusters whose centers were fitted with some weights."""
        # Only ratios of weights matter, whose squares may be out of range.
        weights, fitted = weights / weights.max(), fitted / max(fitted.max(), TINY)
        squares = weights * (weights / counts)
        totals: FloatArray = np.bincount(labels, weights, k).astype(np.float64)
        sizes = totals**2 / np.maximum(np.bincount(labels, squares, k), TINY)
        shares = fitted / np.maximum(np.bincount(labels, fitted, k)[labels], TINY)
        factors = (1.0 - np.minimum(shares, _LARGEST_SHARE)) ** -2.0
        return cls(rows, weights, squares, labels, factors, sizes, totals)


@dataclass(frozen=True, slots=True)
class Histograms:
    """Histograms of t, one row per pair of clusters."""

    keys: IntArray
    """i·k + j of the pairs, in order."""
    weights: DenseRows
    squares: DenseRows
    seconds: DenseRows
    """Weight of the draws of either cluster whose second nearest is the other."""

    @classmethod
    def together(cls, parts: list[Histograms]) -> Histograms:
        """The sums of the histograms of several parts."""
        keys, at = np.unique(np.concatenate([each.keys for each in parts]), return_inverse=True)
        sums = []
        for name in ("weights", "squares", "seconds"):
            values = np.concatenate([getattr(each, name) for each in parts])
            total = np.zeros((len(keys), values.shape[1]))
            np.add.at(total, at, values)
            sums.append(total)
        found = cls(keys, *sums)
        # Pairs that are not the two nearest centers of any draw do not touch.
        near = np.flatnonzero(found.seconds.any(axis=1))
        return cls(found.keys[near], *(each[near] for each in sums))


@dataclass(frozen=True, slots=True)
class Entries:
    """Where draws are between pairs of clusters: one entry per draw and pair that it counts for."""

    keys: IntArray
    """i·k + j of the pairs, in order."""
    pairs: IntArray
    """The pair of every entry, as an index of keys."""
    rows: IntArray
    cells: IntArray
    """The cell of t; negative, or too large, outside of the histogram."""
    sides: IntArray
    """0 or 1 for draws of i or j whose second nearest center is the other one, else -1."""

    @classmethod
    def of(cls, draws: JudgedDraws, at: IntArray, centers: Centers) -> Entries:
        """The entries of some draws."""
        k, rows, each = len(centers), draws.rows[at], np.arange(len(at))
        distances: Any = rows.all_distances(centers)
        if rows.geometry.squared:
            np.square(distances, out=distances)
        distances[each, draws.labels[at]] *= draws.factors[at]
        own = np.argmin(distances, axis=1)
        nearest = distances[each, own]
        distances[each, own] = np.inf
        second = np.argmin(distances, axis=1)
        # The mean of both distances is at most the third for the second nearest center, and for
        # others at most the second.
        row, other = np.nonzero(distances <= (2.0 * distances[each, second] - nearest)[:, None])
        ahead = own[row] < other
        i, j = np.where(ahead, own[row], other), np.where(ahead, other, own[row])
        keys, pairs = np.unique(i * k + j, return_inverse=True)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            nearer = (distances[row, other] - nearest[row]) / spans(centers, keys)[pairs]
            cells = np.floor((0.5 - np.where(ahead, nearer, -nearer) - _FROM) / _PER_CELL)
        cells = np.where((cells >= 0) & (cells < _CELLS), cells, -1).astype(np.int64)
        sides = np.where(other == second[row], own[row] == j, -1)
        return cls(keys, pairs, at[row], cells, sides)

    def of_pairs(self, keys: IntArray) -> Entries:
        """Only the entries of some pairs."""
        place = np.searchsorted(keys, self.keys)
        known = keys[np.minimum(place, len(keys) - 1)] == self.keys
        at = np.flatnonzero(known[self.pairs])
        pairs = place[self.pairs[at]]
        return Entries(keys, pairs, self.rows[at], self.cells[at], self.sides[at])

    def profiles(self, weights: FloatArray, squares: FloatArray) -> Histograms:
        """The histograms of these entries, where draws have some weights."""
        n, inside = len(self.keys), np.flatnonzero(self.cells >= 0)
        places = self.pairs[inside] * _CELLS + self.cells[inside]
        sums, spreads = (
            np.bincount(places, values[self.rows[inside]], n * _CELLS).reshape(-1, _CELLS)
            for values in (weights, squares)
        )
        near = np.flatnonzero(self.sides >= 0)
        sides = 2 * self.pairs[near] + self.sides[near]
        seconds = np.bincount(sides, weights[self.rows[near]], 2 * n).reshape(-1, 2)
        return Histograms(self.keys, sums, spreads, seconds)


def spans(centers: Centers, keys: IntArray) -> FloatArray:
    """d(c_i, c_j) + d(c_j, c_i) of the pairs; twice the one that is finite, if only one is."""
    k, points, metric = len(centers), centers.points, centers.geometry.metric
    one, other = points[keys // k], points[keys % k]
    with np.errstate(all="ignore"):
        there = metric.between(one, other).sum(axis=1)
        back = metric.between(other, one).sum(axis=1)
        finite = np.where(np.isfinite(there), there, back)
        return np.asarray(finite + np.where(np.isfinite(back), back, finite))


@dataclass(frozen=True, slots=True)
class Valleys:
    """Results of the test for some pairs."""

    apart: Mask
    """Whether there is a valley, or next to no draws between the centers."""
    ratio: FloatArray
    """Density in the clearest valley, as a part of that on both sides."""
    p_value: FloatArray
    contact: FloatArray
    """Weight between the centers on the side that has less, relative to the smaller cluster."""


def find_valleys(
    profiles: Histograms, totals: FloatArray, supposed: float | None = None
) -> Valleys:
    """Test pairs of clusters with some weights.

    With `supposed`, as if every valley had this part of the density beside it.
    """
    k = len(totals)
    first, second = profiles.keys // k, profiles.keys % k
    ratios, p_values = _valleys(profiles, supposed)
    apart = (ratios < _SHALLOW) & (p_values < LEVEL)
    ends = np.cumsum(np.pad(profiles.weights, ((0, 0), (1, 0))), axis=1)
    empty = np.any([ends[:, at + _VALLEY] == ends[:, at] for at in _VALLEYS], axis=0)
    left, right = ends[:, _CELLS // 2], ends[:, -1] - ends[:, _CELLS // 2]
    smaller = np.minimum(totals[first], totals[second])
    between = np.minimum(left, right) / np.maximum(smaller, TINY)
    apart |= between < np.where(empty, TOUCHING, HARDLY_TOUCHING)
    return Valleys(apart, ratios, p_values, between)


def _valleys(profiles: Histograms, supposed: float | None) -> tuple[FloatArray, FloatArray]:
    """The clearest valley of every pair: its density as a part of that on the sides, and p.

    The sides are judged one by one, and the one that is less clear counts.
    """
    sums = [
        np.cumsum(np.pad(each, ((0, 0), (1, 0))), axis=1)
        for each in (profiles.weights, profiles.squares)
    ]
    ratios, p_values = np.full(len(profiles.keys), np.inf), np.ones(len(profiles.keys))
    for low in _VALLEYS:
        high = low + _VALLEY
        left = [_lower(sums, (low, high), (beyond, low), supposed) for beyond in _BEYOND]
        right = [_lower(sums, (low, high), (high, _CELLS - beyond), supposed) for beyond in _BEYOND]
        (ratio, p), (other_ratio, other_p) = _clear(left), _clear(right)
        ratio, p = np.maximum(ratio, other_ratio), np.maximum(p, other_p)
        clearer = (p < p_values) & (ratio < 1.0)
        ratios, p_values = np.where(clearer, ratio, ratios), np.where(clearer, p, p_values)
    return ratios, p_values


def _clear(found: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    """Judge a side by both of its widths.

    The wide one has more draws, and tells more from chance. But it must be deep beside the narrow
    one, too: a ring that was cut in two is densest beyond its centers.
    """
    (ratio, p), (other_ratio, other_p) = found
    return np.maximum(ratio, other_ratio), np.minimum(p, other_p)


def _lower(
    sums: list[FloatArray],
    valley: tuple[int, int],
    side: tuple[int, int],
    supposed: float | None,
) -> tuple[FloatArray, FloatArray]:
    """How much lower the density is in a valley than on a side, and how likely by chance.

    With one density on both, the draws of the valley are binomial; weighted draws are taken for
    the number of equal ones whose sum has the same relative variance.
    """
    from scipy.special import betainc

    (inside, spread), (peak, peak_spread) = (
        [each[:, high] - each[:, low] for each in sums] for low, high in (valley, side)
    )
    widths = valley[1] - valley[0], side[1] - side[0]
    if supposed is not None:
        # As many draws as such a valley would have.
        spread = peak_spread * supposed * (widths[0] / widths[1])
        inside = peak * supposed * (widths[0] / widths[1])
    total = inside + peak
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (inside / widths[0]) / (peak / widths[1])
        n = total**2 / (spread + peak_spread)
        hits = n * (inside / total)
        # P(at most `hits` of n), which the incomplete beta function continues to real numbers.
        p = betainc(n - hits, hits + 1.0, widths[1] / sum(widths))
    known = (peak > 0.0) & np.isfinite(p)
    return np.where(known, ratio, np.inf), np.where(known, p, 1.0)
