"""Passes over all rows with centers that are known: labels, costs, distances, a Lloyd step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import fsum
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from lwcs import kernels
from lwcs.divergences.measure import EUCLIDEAN
from lwcs.divergences.ready_centers import CLEAR
from lwcs.foundation.checks import BadValueError
from lwcs.foundation.progress import track
from lwcs.foundation.types import is_sparse
from lwcs.solvers.assignment import label_rows, nearest_in, nearest_labels, working_dtype
from lwcs.sources.base import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lwcs.divergences import Measure
    from lwcs.foundation.types import DenseRows, FloatArray, Mask, Rows
    from lwcs.kernels import KernelName
    from lwcs.sources import Block, Source


@dataclass(frozen=True, slots=True)
class CostTask:
    """φ of one partition: Σω·d(x, nearest center)."""

    centers: FloatArray
    measure: Measure
    kernel: KernelName

    def __call__(self, blocks: Iterator[Block], partition: int) -> float:
        """Add up the blocks' costs."""
        costs = []
        for block in blocks:
            with BadValueError.in_partition(partition):
                distances = nearest_in(block, self.centers, self.measure, self.kernel)[1]
            costs.append(distances.sum() if block.weights is None else block.weights @ distances)
        return fsum(costs)


def full_cost(
    source: Source,
    centers: FloatArray,
    measure: Measure = EUCLIDEAN,
    n_jobs: int | None = None,
) -> float:
    """φ_X(Q) over all rows of a source, partition by partition."""
    with source.explaining():
        task = CostTask(centers, measure, kernels.choose(source.n_values))
        return fsum(source.gather(task, n_jobs=n_jobs))


@dataclass(frozen=True, slots=True)
class LabelTask:
    """The label of every row of a block, as int32."""

    centers: FloatArray
    measure: Measure = EUCLIDEAN

    def __call__(self, block: Block) -> npt.NDArray[np.int32]:
        """Label a block."""
        dtype = working_dtype(block.points)
        return nearest_labels(
            block.points, self.centers, self.measure, dtype=dtype, first_row=block.first_row
        )


@dataclass(frozen=True, slots=True)
class DistancesTask:
    """Of every row of a block to every center: not squared, but a divergence as it is."""

    centers: FloatArray
    measure: Measure

    def __call__(self, block: Block) -> DenseRows:
        """By one product."""
        rows = self.measure.rows(block.points, block.first_row)
        find = self._squared if self.measure.squared else self._divergences
        with np.errstate(over="ignore", invalid="ignore"):
            distances = find(rows.astype(np.float64, copy=False))
        if np.isnan(distances.sum()) or (self.measure.squared and np.isinf(distances).any()):
            raise BadValueError.found_in(block.points, block.first_row, 0)
        return distances.astype(working_dtype(block.points))

    def _squared(self, rows: Rows) -> FloatArray:
        centers, scale = self.centers, self.measure.scale
        if not is_sparse(rows):
            # Around the centers' median, an offset of the data costs no digits.
            origin = np.median(centers, axis=0)
            rows, centers = rows - origin, centers - origin
        if scale is not None:
            rows, centers = rows * (1.0 / scale), centers / scale
            rows = rows.tocsr() if is_sparse(rows) else rows
        slopes, offsets = EUCLIDEAN.tangents(centers, sparse=False)
        distances = EUCLIDEAN.phi(rows)[:, None] - (rows @ slopes.T + offsets)
        return np.sqrt(np.maximum(distances, 0.0))

    def _divergences(self, rows: Rows) -> FloatArray:
        """One after the other where a product has not enough digits, or no slope."""
        own = self.measure
        slopes, offsets = own.tangents(self.centers, sparse=is_sparse(rows))
        scores = rows @ slopes.T + offsets
        heights = own.phi(rows)[:, None]
        distances = heights - scores
        size = np.abs(heights) + abs(rows) @ np.abs(slopes).T + np.abs(offsets)
        edges: Mask = np.any(~own.divergence.domain.interior(self.centers), axis=1)
        for j, edge in enumerate(edges):
            clear = distances[:, j] >= CLEAR * size[:, j]
            at = np.arange(len(scores)) if edge else np.flatnonzero(~clear)
            if len(at):
                distances[at, j] = own.own_distances(
                    rows[at], self.centers, np.full(len(at), j, dtype=np.int64)
                )
        return np.asarray(distances)


@dataclass(frozen=True, slots=True)
class FinalPass:
    """The last pass of a fit: writes labels in place, returns the cost of a block."""

    centers: FloatArray
    measure: Measure
    labels: npt.NDArray[np.int32]
    kernel: KernelName
    distances: FloatArray | None = None
    """Where to write the distances too, if they are wanted."""

    def __call__(self, block: Block) -> float:
        """Label and cost a block."""
        start = block.first_row
        labels, distances = nearest_in(block, self.centers, self.measure, self.kernel)
        self.labels[start : start + len(labels)] = labels
        if self.distances is not None:
            self.distances[start : start + len(labels)] = distances
        return float(distances.sum() if block.weights is None else block.weights @ distances)


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """Σω and Σω·x of every cluster of some rows."""

    weights: FloatArray
    points: FloatArray

    def __add__(self, other: ClusterSums) -> ClusterSums:
        """Put the rows of both together."""
        return ClusterSums(self.weights + other.weights, self.points + other.points)


@dataclass(frozen=True, slots=True)
class PolishTask:
    """Σω and Σω·x of every cluster of a partition: half of a Lloyd step on the full data."""

    centers: FloatArray
    measure: Measure
    kernel: KernelName

    def __call__(self, blocks: Iterator[Block], partition: int) -> ClusterSums:
        """Add up the blocks."""
        k, d = self.centers.shape
        total = ClusterSums(np.zeros(k), np.zeros((k, d)))
        for block in blocks:
            with BadValueError.in_partition(partition):
                labels, rows = label_rows(
                    block.points,
                    self.centers,
                    self.measure,
                    dtype=working_dtype(block.points),
                    first_row=block.first_row,
                )
            part = kernels.cluster_sums(
                rows, block.weights, labels, np.ones(k, dtype=bool), self.kernel
            )
            zeros = self.measure.whole(np.zeros(d), rows)
            total += ClusterSums(part[0], part[1] + part[0][:, None] * zeros)
        return total


def polish(
    source: Source,
    centers: FloatArray,
    measure: Measure,
    kernel: KernelName,
    n_jobs: int | None,
    *,
    progress: bool = False,
) -> FloatArray:
    """One Lloyd step on the full data; an empty cluster keeps its center."""
    parts = source.known_partitions
    groups = None if parts is None else -(-parts // GROUP)
    with source.explaining():
        sums = source.gather_sums(PolishTask(centers, measure, kernel), n_jobs=n_jobs)
        total = reduce(add, track(sums, "polish", groups, show=progress))
    there = total.weights > 0.0
    polished = centers.copy()
    polished[there] = total.points[there] / total.weights[there, None]
    return measure.divergence.settled(polished)
