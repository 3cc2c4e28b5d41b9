"""Distances value by value, and as one matrix product: squared distances, Bregman divergences.

With Δ = ∇φ(c) − ∇φ(o) around an origin o, the three-point identity is

    d(x, c) = d(x, o) − score,   score = (x − o)·Δ − d(o, c).

Near o nothing large is subtracted, so that centers far from zero and close together can be told
apart. In columns where the rows are not close together, relative to their size, no origin is
taken: there d(x, c) = φ(x) − score, score = x·∇φ(c) + φ(c) − ∇φ(c)·c. A larger score is nearer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from lwcs.arrays.rows import split_exactly
from lwcs.divergences.divergence import finite_slopes

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Mask
    from lwcs.divergences import Divergence
    from lwcs.geometry import Geometry
    from lwcs.geometry.products import CenterMatrix


# Squares of float32 values within this range neither overflow nor underflow.
_SINGLE_RANGE = (1e-9, 1e9)
_SINGLE_FACTORS = (1e-30, 1e30)
# An origin helps a Bregman divergence where rows differ by no more than this part of their size.
_CONCENTRATED = 0.5


@dataclass(frozen=True, slots=True)
class Frame:
    """The coordinates that products are taken in: (x − origin)·factor, in one precision."""

    origin: FloatArray
    """What is subtracted from every row, exact in `dtype`; zero where there is no origin."""
    around: Mask | None = None
    """Which columns have an origin; None if all of them have."""
    factor: FloatArray | None = None
    """unit/scale per column, for squared distances; None if it is 1."""
    unit: float = 1.0
    """Distances from products are unit² times those of the data."""
    dtype: npt.DTypeLike = np.float64


class Tangents(NamedTuple):
    """Scores are rows·slopes + offsets."""

    slopes: FloatArray
    offsets: FloatArray
    sizes: FloatArray
    """Sum of the absolute values of the terms of every offset."""


class Metric(Protocol):
    """Operations that squared distances and Bregman divergences have in common."""

    def between(self, x: FloatArray, y: FloatArray, columns: Any = slice(None)) -> FloatArray:
        """d(x, y) for every value; `columns` says which columns the values are in."""

    def frame(self, sample: FloatArray, dtype: npt.DTypeLike) -> Frame:
        """Coordinates for products of rows like those in the sample."""

    def heights(self, x: FloatArray, frame: Frame, columns: Any = slice(None)) -> FloatArray:
        """d(x, o) or φ(x) for every value: a distance is the sum of these less the score."""

    def tangents(self, centers: FloatArray, frame: Frame) -> Tangents:
        """Slopes and offsets for rows in the frame's coordinates."""


@dataclass(frozen=True, slots=True)
class SquaredDistance:
    """Σ precision·(x − y)²."""

    precision: FloatArray | None

    def between(self, x: FloatArray, y: FloatArray, columns: Any = slice(None)) -> FloatArray:
        """precision·(x − y)²."""
        squares = (x - y) ** 2
        return squares if self.precision is None else self.precision[columns] * squares

    def frame(self, sample: FloatArray, dtype: npt.DTypeLike) -> Frame:
        """Around the median of some rows; float32 values are scaled to about one.

        The mean would be far from most rows if one of them is far away.
        """
        middle = _median(sample)
        scale = None if self.precision is None else self.precision**-0.5
        if dtype != np.float32 or not (np.abs(middle) < _SINGLE_FACTORS[1]).all():
            factor = None if scale is None else 1.0 / scale
            return Frame(middle, None, factor, 1.0, np.float64)
        origin = middle.astype(np.float32).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            unit = _power_of_two(sample - origin if scale is None else (sample - origin) / scale)
        if scale is None and unit == 1.0:
            return Frame(origin, None, None, 1.0, np.float32)
        factor = np.full(sample.shape[1], unit) if scale is None else unit / scale
        if not ((factor > _SINGLE_FACTORS[0]) & (factor < _SINGLE_FACTORS[1])).all():
            return self.frame(sample, np.float64)
        return Frame(origin, None, factor.astype(np.float32), unit, np.float32)

    def heights(self, x: FloatArray, frame: Frame, columns: Any = slice(None)) -> FloatArray:
        """d(x, o)."""
        return self.between(x, frame.origin[columns], columns)

    def tangents(self, centers: FloatArray, frame: Frame) -> Tangents:
        """2(c − o) and −‖c − o‖²."""
        apart = centers - frame.origin
        if frame.factor is not None:
            apart = apart * frame.factor
        weighted = apart
        if frame.factor is None and self.precision is not None:
            weighted = apart * self.precision
        squares: FloatArray = np.einsum("ij,ij->i", weighted, apart)
        slopes = 2.0 * weighted
        # A center so far away that its square overflows is not nearest to any row.
        slopes[~np.isfinite(squares)] = 0.0
        return Tangents(slopes, -squares, squares)


@dataclass(frozen=True, slots=True)
class BregmanDistance:
    """d_φ of a divergence that is not a squared distance."""

    divergence: Divergence

    def between(self, x: FloatArray, y: FloatArray, columns: Any = slice(None)) -> FloatArray:
        """d_φ(x, y)."""
        del columns
        return self.divergence.between(x, y)

    def frame(self, sample: FloatArray, dtype: npt.DTypeLike = np.float64) -> Frame:
        """Around the median in columns where rows are close together, relative to their size.

        Other columns have no origin, and no column has one if the divergence cannot compute
        differences of slopes without cancellation (`gradient_difference`).
        """
        del dtype
        middle = _median(sample)
        if not len(sample):
            return Frame(middle, np.zeros(len(middle), dtype=bool))
        spread = sample.max(axis=0) - sample.min(axis=0)
        around = spread <= _CONCENTRATED * np.abs(middle)
        around &= self.divergence.domain.interior(middle)
        if self.divergence.gradient_difference(middle[:0], middle[:0]) is None:
            around[:] = False
        return Frame(np.where(around, middle, 0.0), around)

    def heights(self, x: FloatArray, frame: Frame, columns: Any = slice(None)) -> FloatArray:
        """d(x, o) in columns that have an origin, φ(x) in the others."""
        assert frame.around is not None
        around = frame.around[columns]
        if not around.any():
            return self.divergence.phi(x)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            apart = self.divergence.between(x, frame.origin[columns])
            return np.where(around, apart, self.divergence.phi(x))

    def tangents(self, centers: FloatArray, frame: Frame) -> Tangents:
        """∇φ(c) − ∇φ(o) and −d(o, c); without an origin, ∇φ(c) and φ(c) − ∇φ(c)·c."""
        own, around = self.divergence, frame.around
        slopes = own.slopes(centers)
        parts = own.phi(centers) - slopes * centers
        if around is not None and around.any():
            o, c = frame.origin[around], centers[:, around]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                apart = own.between(o, c)
                # Consistent with the finite slope that stands in for an infinite one.
                finite = own.phi(o) - own.phi(c) - slopes[:, around] * (o - c)
                steeper = own.gradient_difference(c, o)
            assert steeper is not None
            parts[:, around] = -np.where(np.isfinite(apart), apart, finite)
            slopes[:, around] = finite_slopes(steeper)
        return Tangents(slopes, parts.sum(axis=1), np.abs(parts).sum(axis=1))


def _median(sample: FloatArray) -> FloatArray:
    """The upper median of every column: one of its values, and so exact in its dtype."""
    if not len(sample):
        return np.zeros(sample.shape[1])
    return np.asarray(np.sort(sample, axis=0)[len(sample) // 2])


def _power_of_two(rows: DenseRows) -> float:
    """A power of two that scales most rows to about one; 1 if they are close to that."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    there = largest[(largest > 0.0) & np.isfinite(largest)]
    typical = float(np.sort(there)[len(there) // 2]) if len(there) else 1.0
    if _SINGLE_RANGE[0] < typical < _SINGLE_RANGE[1]:
        return 1.0
    return float(2.0 ** -np.floor(np.log2(typical)))


SPLIT = 2.0**27 + 1.0
# Larger numbers overflow when they are split.
LARGEST_SPLIT = 1e290


@dataclass(frozen=True, eq=False)
class Centers:
    """k centers in the coordinates of a `Geometry`, made by it or from `Measured` rows.

    Cached properties are computed once, at first use, and shared by all blocks of a pass. Centers
    of divergences stay in float64 for float32 rows: rounded, one may be at an end of the domain.
    """

    points: FloatArray
    geometry: Geometry

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, at: slice | IntArray) -> Centers:
        """Some of the centers."""
        return Centers(self.points[at], self.geometry)

    @cached_property
    def tangents(self) -> Tangents:
        """Slopes and offsets without an origin."""
        metric, d = self.geometry.metric, self.points.shape[1]
        # A center so far away that its square overflows is not nearest to any row.
        with np.errstate(over="ignore", invalid="ignore"):
            return metric.tangents(self.points, self.geometry.plain_frame(d))

    @cached_property
    def sparse_center_matrix(self) -> CenterMatrix:
        """Slopes and offsets for sparse rows, without an origin."""
        from lwcs.geometry.sparse_rows import sparse_center_matrix

        return sparse_center_matrix(self.tangents, self.geometry.zeros(self.points.shape[1]))

    @cached_property
    def edges(self) -> Mask | None:
        """Values whose slope is infinite, where a finite one is used; None if there are none."""
        edges: Mask = ~self.geometry.divergence.domain.interior(self.points)
        return edges if edges.any() else None

    @cached_property
    def zero_costs(self) -> ZeroCosts:
        """Cost of a row of zeros at every center."""
        with np.errstate(over="ignore", invalid="ignore"):
            return ZeroCosts.of(self)

    @cached_property
    def references(self) -> FloatArray:
        """The centers with half of their digits, around which rows are averaged.

        Differences to them are then often exact, and so is a mean that a float can hold.
        """
        if not np.abs(self.points).max(initial=0.0) < LARGEST_SPLIT:
            return self.points
        # Veltkamp's splitting: the upper 26 bits.
        shifted = SPLIT * self.points
        rest = shifted - self.points
        return np.subtract(shifted, rest, out=rest)

    def reach(self, point: FloatArray) -> FloatArray | None:
        """Squared distance per center up to which its rows are certain not to be closer to `point`.

        It is a quarter of the squared distance between the two; None where the triangle inequality
        does not hold.
        """
        if not self.geometry.squared:
            return None
        apart = self.geometry.metric.between(self.points, point).sum(axis=1)
        # Reduced by more than the rounding of distances.
        return np.asarray(0.25 * (1.0 - 1e-9) * apart)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out cached properties, since tasks are sent to workers."""
        return {"points": self.points, "geometry": self.geometry}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


@dataclass(frozen=True, slots=True)
class ZeroCosts:
    """Cost of a row of implicit zeros at every center, from which sparse distances are computed.

    A row's distance takes the sum over all columns less the sum over its stored values, which
    cancels where one column is large; both parts of `split_exactly` are therefore kept.
    """

    zeros: FloatArray
    """The value that an implicit zero stands for, per column."""
    shares: tuple[tuple[FloatArray, FloatArray], ...]
    """Two arrays (centers × columns) that add up to the costs, each with its sum over columns."""
    totals: FloatArray
    sizes: FloatArray
    """Size of the terms of a distance by tangents: the totals, and φ of all zeros."""
    infinite: Mask
    """Columns where a zero is infinitely far; they are counted, since ∞ − ∞ is undefined."""
    n_infinite: FloatArray

    @classmethod
    def of(cls, centers: Centers) -> ZeroCosts:
        """Cost of every column at every center."""
        zeros = centers.geometry.zeros(centers.points.shape[1])
        costs = centers.geometry.metric.between(zeros, centers.points)
        infinite = np.isinf(costs)
        costs[infinite] = 0.0
        parts = zip(*map(split_exactly, costs), strict=True)
        shares = tuple((array, array.sum(axis=1)) for array in map(np.array, parts))
        totals: FloatArray = np.add(*(total for _, total in shares))
        with np.errstate(divide="ignore"):
            heights = np.abs(centers.geometry.divergence.phi(zeros))
        sizes = totals + heights[np.isfinite(heights)].sum()
        return cls(zeros, shares, totals, sizes, infinite, infinite.sum(axis=1))
