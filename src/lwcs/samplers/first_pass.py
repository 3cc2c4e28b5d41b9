"""The first pass over rows: their moments, what these say of all rows, and what is refused.

Weight, mean and scatter merge exactly and stay accurate at any offset, which sums of squares do not
(a float32 column at 1e3 ± 1 already gives a negative Φ). NaN and infinity survive every sum, so
that only a block whose sums are not finite is searched for bad values. `Extent` bounds all costs of
some rows, to refuse rows of a stream whose sums would overflow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from lwcs.arrays.checks import BadValueError
from lwcs.arrays.rows import largest_of
from lwcs.geometry import Geometry
from lwcs.samplers.sampler import Summary
from lwcs.sources.sequence import SequenceSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.arrays.types import FloatArray, Mask, Rows
    from lwcs.geometry import Geometry
    from lwcs.samplers.sampler import Run
    from lwcs.sources import Block, Source


_LARGEST_WEIGHT = 1e200
_LARGEST_COST = 1e307


@dataclass(frozen=True, slots=True)
class Extent:
    """Total weight and largest coordinate of some rows; together they bound every cost."""

    weight: float = 0.0
    largest: float = 0.0

    @classmethod
    def of(cls, rows: Rows, weight: float, geometry: Geometry) -> Extent:
        """The extent of rows as they are measured; rows outside of the domain are refused."""
        zero = abs(geometry.divergence.zero)
        return cls(weight, largest_of(geometry.measured(rows).values) + zero)

    def __add__(self, other: Extent) -> Extent:
        return Extent(self.weight + other.weight, max(self.largest, other.largest))

    def check(self, n_features: int, what: str) -> None:
        """Refuse rows whose costs may overflow: Σω‖x − y‖² ≤ Ω·d·(2·largest)²."""
        with np.errstate(over="ignore"):
            cost = self.weight * (n_features * np.square(2.0 * np.float64(self.largest)))
        if not (self.weight < _LARGEST_WEIGHT and cost < _LARGEST_COST):
            raise ValueError(
                f"with {what}, weights sum to {self.weight:g} and values go up to "
                f"{self.largest:g}, which is so large that costs overflow; scale the weights or "
                "the data down"
            )


def weight_of(weights: FloatArray | None, n_rows: int) -> float:
    """Total weight of rows; each counts as one if they have no weights."""
    return float(n_rows if weights is None else weights.sum())


# Squared distances below this have lost digits to underflow.
_LEAST = 1e-303


@dataclass(frozen=True, slots=True)
class Moments:
    """Number, total weight, mean, and scatter Σω(x − mean)² per column of some rows."""

    rows: int
    weight: float
    mean: FloatArray
    scatter: FloatArray
    lost: Mask | None = None
    """Columns in which rows differ by so little that squares underflow; None if there are none."""

    def __add__(self, other: Moments) -> Moments:
        """Merge two disjoint sets of rows (Chan, Golub, LeVeque 1979)."""
        rows, weight = self.rows + other.rows, self.weight + other.weight
        lost = _either(self.lost, other.lost)
        # One part has no weight; but a NaN in its mean must not be lost.
        if other.weight == 0.0:
            return Moments(rows, weight, self.mean + 0.0 * other.mean, self.scatter, lost)
        if self.weight == 0.0:
            return Moments(rows, weight, other.mean + 0.0 * self.mean, other.scatter, lost)
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.weight / weight)
        leverage = self.weight * (other.weight / weight)
        between = leverage * delta**2
        gone = (between == 0.0) & (delta != 0.0)
        if gone.any():
            lost = _either(lost, gone)
        return Moments(rows, weight, mean, self.scatter + other.scatter + between, lost)

    def cost_around(self, center: FloatArray, precision: FloatArray | None = None) -> float:
        """φ({center}): what these rows cost if `center` were the only center."""
        spread = np.maximum(self.scatter, 0.0) + self.weight * (self.mean - center) ** 2
        return float(spread.sum() if precision is None else precision @ spread)


@dataclass(frozen=True, slots=True)
class MomentsTask:
    """The moments of a partition, in the coordinates of the geometry."""

    n_features: int
    geometry: Geometry = field(default_factory=Geometry)

    def __call__(self, blocks: Iterator[Block], partition: int) -> Moments:
        """Merge the moments of the blocks."""
        total: Moments | None = None
        for block in blocks:
            with BadValueError.in_partition(partition):
                rows = self.geometry.measured(block.points, block.first_row)
            moments = rows.moments(block.weights)
            part = Moments(len(rows), *moments, rows.underflow(moments))
            if not np.isfinite(part.mean.sum() + part.scatter.sum()):
                raise BadValueError.found_in(block.points, block.first_row, partition)
            total = part if total is None else total + part
        if total is None:
            empty = np.zeros(self.n_features)
            return Moments(0, 0.0, empty, empty)
        return total


def first_pass(source: Source, run: Run) -> Summary:
    """Make a pass for the mean and, for squared distances, for Φ and the scale."""
    return summary_of(moments_of(source, run), source, run.geometry)


def moments_of(source: Source, run: Run) -> list[Moments]:
    """The moments of every partition."""
    task = MomentsTask(source.n_features, run.geometry)
    return counted(run, source, list(run.gather(source, task, "first pass")))


def counted(run: Run, source: Source, moments: list[Moments]) -> list[Moments]:
    """Check that there are rows enough; return the moments as they are."""
    if run.check_rows is not None:
        run.check_rows(sum(part.rows for part in moments) - source.dropped)
    return moments


def summary_of(moments: list[Moments], source: Source, geometry: Geometry) -> Summary:
    """The summary of all rows from the moments of the partitions."""
    total = reduce(add, moments)
    check_total(total.weight, total.rows)
    if not geometry.cost_follows_from_moments:
        return Summary(total.rows, total.weight, total.mean)
    scale = standard_scale(total) if source.scale == "standard" else None
    cost = total.cost_around(total.mean, None if scale is None else scale**-2.0)
    check_cost(cost, total.weight, lost=total.lost is not None)
    return Summary(total.rows, total.weight, total.mean, cost, scale)


def needs_first_pass(source: Source, geometry: Geometry) -> bool:
    """Whether rows can be measured only after a pass: for a scale, or a mean to smooth towards."""
    return source.scale is not None or geometry.needs_mean


def why_not_one_pass(source: Source) -> str | None:
    """Why a single pass over a source is impossible, as part of a message; None if it is not."""
    if source.scale is not None:
        return f"with scale={source.scale!r}, which is known only after a pass"
    if not source.can_take and not isinstance(source, SequenceSource):
        return f"for {type(source).__name__}, whose rows cannot be fetched by number"
    return None


def check_passes_possible(source: Source, passes: int, why_not_one: str | None) -> None:
    """Refuse numbers of passes other than one and two, and those of them that are impossible."""
    if why_not_one is not None:
        _refuse_single_reading(source, 2, why_not_one)
        if passes == 1:
            raise ValueError(f"passes=1 is not possible {why_not_one}; pass passes=2 or 'auto'")
    if passes > 1 and not source.rereadable:
        raise ValueError(
            f"passes={passes} is not possible, since these rows can be read only once; pass "
            "passes=1 or 'auto', or write the rows to a file first"
        )
    if passes > 2:
        made = "passes=1, 2" if why_not_one is None else "passes=2"
        raise ValueError(
            f"passes={passes} is not possible: no more than two are needed over this data; pass "
            f"{made} or 'auto'"
        )


def check_passes(source: Source, passes: int, required: int, how: str) -> None:
    """Refuse numbers of passes other than the one that a method makes."""
    _refuse_single_reading(source, required, f"for {how}")
    if passes != required:
        raise ValueError(
            f"passes={passes} is not possible: {how} makes {required} passes over this data; pass "
            f"passes={required} or 'auto'"
        )


def _refuse_single_reading(source: Source, needed: int, why: str) -> None:
    if not source.rereadable:
        raise ValueError(
            f"{max(needed, 2)} passes are needed {why}, but these rows can be read only once; "
            "write them to a file first, or leave out what needs more than one pass"
        )


def standard_scale(moments: Moments) -> FloatArray:
    """Standard deviation of every column; 1 for a constant one, which then counts for nothing."""
    variances = np.maximum(moments.scatter, 0.0) / moments.weight
    small = variances < _LEAST
    if small.any():
        lost = np.zeros(len(small), dtype=bool) if moments.lost is None else moments.lost
        # Refuse a column whose squares underflow: it is not constant.
        check_cost(
            float(moments.scatter[small].max()), moments.weight, lost=bool((lost & small).any())
        )
    scale = np.sqrt(variances)
    scale[scale == 0.0] = 1.0
    return scale


def check_cost(cost: float, weight: float, *, lost: bool = False) -> None:
    """Refuse data whose squared distances are lost to underflow.

    `lost` means that rows differ even if the cost is zero.
    """
    if (lost or cost > 0.0) and cost < _LEAST * weight:
        raise ValueError(
            f"distances are so small (in total {cost:g}) that they underflow; scale the data up, "
            "for example to unit variance"
        )


def without_rounding(cost: float, geometry: Geometry, known: Summary) -> float:
    """Φ of a divergence, or 0 if it is within the rounding error of the mean."""
    return 0.0 if cost <= geometry.noise(known.weight, known.rows, cost, np.float64) else cost


def refuse_underflow(cost: float, geometry: Geometry, known: Summary, some: Rows) -> None:
    """Refuse data whose divergences underflow: rows differ, but Φ is zero or too small."""
    if cost < _LEAST * known.weight and geometry.measured(some).differ():
        check_cost(cost, known.weight, lost=True)


def _either(one: Mask | None, other: Mask | None) -> Mask | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def check_total(weight: float, rows: int = 1) -> None:
    """Refuse data without any rows, or without any weight."""
    if not rows:
        raise ValueError("there are no rows; at least one row is needed")
    if weight <= 0.0:
        raise ValueError("all weights are zero; give at least one row a weight > 0")
