"""Passes over all rows with given centers: labels, costs, distances, and a Lloyd step."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lwcs import kernels
from lwcs.arrays.checks import BadValueError
from lwcs.geometry import Geometry
from lwcs.runtime.journal import Journal
from lwcs.sources.base import gathered, summed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows, FloatArray, Rows
    from lwcs.geometry import Centers, Measured
    from lwcs.kernels import KernelName
    from lwcs.sources import Block, Source

_COUNTED_AT_ONCE = 2**20


def measured(block: Block, centers: Centers) -> Measured:
    """Measure the rows of a block in the coordinates of some centers."""
    return centers.geometry.measured(block.points, block.first_row)


@dataclass(frozen=True, slots=True)
class CostTask:
    """φ of one partition: Σω·d(x, nearest center)."""

    centers: Centers
    adds_up: ClassVar[bool] = True
    """Whether results are only summed, so that partitions may be processed together."""

    def __call__(self, blocks: Iterator[Block], partition: int) -> float:
        """Add up the costs of the blocks."""
        costs = []
        for block in blocks:
            with BadValueError.in_partition(partition):
                costs.append(measured(block, self.centers).cost(self.centers, block.weights))
        return fsum(costs)


def full_cost(source: Source, centers: Centers, n_jobs: int | None = None) -> float:
    """φ_X(Q) over all rows of a source, partition by partition."""
    with source.explaining():
        return fsum(gathered(source, CostTask(centers), "cost", n_jobs=n_jobs))


def euclidean_cost(source: Source, centers: DenseRows, n_jobs: int | None = None) -> float:
    """φ_X(Q) by squared Euclidean distances, for centers in the units of the data."""
    geometry = Geometry(kernel=kernels.choose())
    return full_cost(source, geometry.centers(centers), n_jobs)


def quantization_error(points: Rows, weights: FloatArray, centers: Centers) -> float:
    """φ_C(Q) = Σ w·d(x, Q) of weighted rows in memory (section 2 of the paper)."""
    return centers.geometry.measured(points).cost(centers, weights)


@dataclass(frozen=True, slots=True)
class LabelTask:
    """The label of every row of a block, as int32."""

    centers: Centers

    @property
    def shared(self) -> KernelName:
        """The kernels whose threads may share long stretches of rows, which are not copied."""
        own = self.centers.geometry
        return own.kernel if own.keeps_rows and own.device is None else "numpy"

    def __call__(self, block: Block) -> Any:
        """Label a block, on the device of its rows."""
        return measured(block, self.centers).label_block(self.centers)


@dataclass(frozen=True, slots=True)
class DistancesTask:
    """Distances of every row of a block to every center: not squared, but a divergence as it is."""

    centers: Centers

    def __call__(self, block: Block) -> Any:
        """Measure a block in the precision of the data, on the device of its rows."""
        return measured(block, self.centers).distance_block(self.centers)


@dataclass(frozen=True, slots=True)
class AssignTask:
    """Labels of a block, and distances if wanted, written in place; the result is its cost."""

    centers: Centers
    labels: Any
    distances: Any = None

    def __call__(self, block: Block) -> float:
        """Label and cost a block."""
        rows = measured(block, self.centers)
        part = slice(block.first_row, block.first_row + len(rows))
        return rows.assign_into(
            self.centers, block.weights, self.labels, self.distances, part, block.dropped
        )


def cluster_weights(
    labels: npt.NDArray[np.int32], weights: FloatArray | None, k: int
) -> FloatArray:
    """Weight of every cluster from the labels of all rows; dropped rows have negative labels."""
    total = np.zeros(k)
    # In parts, since NumPy copies the labels to twice as many bits to count them.
    for start in range(0, len(labels), _COUNTED_AT_ONCE):
        part = slice(start, start + _COUNTED_AT_ONCE)
        some, omega = labels[part], None if weights is None else weights[part]
        if some.min() < 0:
            kept = some >= 0
            some, omega = some[kept], None if omega is None else omega[kept]
        total += np.bincount(some, omega, k)
    return total


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """Σω and Σω·(x − reference) of every cluster of some rows (`Measured.cluster_sums`)."""

    weights: FloatArray
    points: FloatArray
    cost: float
    """Σω·d of the rows, around the centers that they were assigned to."""

    def __add__(self, other: ClusterSums) -> ClusterSums:
        """Sums over the rows of both."""
        return ClusterSums(
            self.weights + other.weights, self.points + other.points, self.cost + other.cost
        )


@dataclass(frozen=True, slots=True)
class Polished:
    """Centers after a Lloyd step on the full data, and the cost of those before it."""

    centers: Centers
    cost_before: float


@dataclass(frozen=True, slots=True)
class PolishTask:
    """The sums of every cluster over one partition, from which `polish` computes means."""

    centers: Centers

    def __call__(self, blocks: Iterator[Block], partition: int) -> ClusterSums:
        """Add up the blocks."""
        k, d = self.centers.points.shape
        total = ClusterSums(np.zeros(k), np.zeros((k, d)), 0.0)
        for block in blocks:
            with BadValueError.in_partition(partition):
                rows = measured(block, self.centers)
                total += ClusterSums(*rows.cluster_step(self.centers, block.weights))
        return total


def polish(
    source: Source, centers: Centers, n_jobs: int | None, journal: Journal | None = None
) -> Polished:
    """One Lloyd step on the full data; an empty cluster keeps its center."""
    with source.explaining():
        total = summed(
            source, PolishTask(centers), "polish", journal=journal or Journal(), n_jobs=n_jobs
        )
    moved = centers.geometry.means(centers, total.weights, total.points)
    return Polished(moved, total.cost)
