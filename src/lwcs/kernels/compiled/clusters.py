"""Rows that have labels: sums of clusters, distances to the own center, second best scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lwcs.kernels.compiled.jit import REASSOCIATE, jit

if TYPE_CHECKING:
    from lwcs.foundation.types import DenseRows, FloatArray, IntArray, Labels, Mask


@jit()
def _cluster_sums(points, weights, labels, wanted, around, totals, sums):  # type: ignore[no-untyped-def]
    for i in range(points.shape[0]):
        j, omega = labels[i], weights[i]
        if not wanted[j]:
            continue
        totals[j] += omega
        for column in range(points.shape[1]):
            sums[j, column] += omega * (np.float64(points[i, column]) - around[j, column])


def cluster_sums(
    points: DenseRows, weights: FloatArray, labels: Labels, wanted: Mask, around: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Σω and Σω·(x − around) of the clusters that are wanted, zeros for the others."""
    totals, sums = np.zeros(len(wanted)), np.zeros((len(wanted), points.shape[1]))
    _cluster_sums(points, weights, labels, wanted, around, totals, sums)
    return totals, sums


@jit(fastmath=REASSOCIATE)
def _own_distances(points, centers, labels, precision, out):  # type: ignore[no-untyped-def]
    for i in range(points.shape[0]):
        own = labels[i]
        distance = 0.0
        for j in range(points.shape[1]):
            offset = np.float64(points[i, j]) - centers[own, j]
            if precision is None:
                distance += offset * offset
            else:
                distance += precision[j] * (offset * offset)
        out[i] = distance


def own_distances(
    points: DenseRows, centers: FloatArray, labels: Labels, precision: FloatArray | None
) -> FloatArray:
    """d of every row to the center that its label names."""
    out = np.empty(len(points))
    _own_distances(points, centers, labels, precision, out)
    return out


@jit(fastmath={"reassoc", "nnan", "nsz"})
def _second_best(scores, best, at, out):  # type: ignore[no-untyped-def]
    # Whoever called looks at the best score, which is NaN where any is.
    for row in range(len(at)):
        i = at[row]
        label, most = best[i], -np.inf
        for j in range(label):
            most = max(most, scores[i, j])
        for j in range(label + 1, scores.shape[1]):
            most = max(most, scores[i, j])
        out[row] = most


def second_best(scores: DenseRows, best: IntArray, at: IntArray | None) -> DenseRows:
    """The largest score of some rows, or all, but for their best one."""
    at = np.arange(len(scores)) if at is None else at
    out = np.empty(len(at), dtype=scores.dtype)
    _second_best(scores, best, at, out)
    return out
