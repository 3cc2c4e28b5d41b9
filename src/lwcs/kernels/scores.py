"""Scores of many centers: the best of every row, and what has changed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.kernels.choice import as_floats, csr, module_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Rows
    from lwcs.kernels.choice import KernelName

# From this many scores per row on, NumPy finds the largest faster than a compiled loop (measured).
_MANY_CENTERS = 192
TILE = 256
"""Rows that compiled loops compare with centers at a time; only cuts at its multiples keep bits."""


def nearest(
    points: Rows,
    origin: DenseRows,
    factor: DenseRows | None,
    matrix: DenseRows,
    sizes: FloatArray,
    limits: tuple[float, float, float, float],
    centers: FloatArray,
    precision: FloatArray | None,
    labels: npt.NDArray[np.int32],
    distances: FloatArray | None,
) -> IntArray:
    """Label dense rows by squared distances in compiled loops; return rows not certain."""
    return module_of("compiled").nearest(
        as_floats(points),
        origin,
        factor,
        np.ascontiguousarray(matrix),
        sizes,
        limits,
        centers,
        precision,
        labels,
        distances,
    )


def assign(
    rows: DenseRows,
    matrix: DenseRows,
    moved: IntArray,
    place: IntArray,
    some: DenseRows,
    found: Any,
    watch: Any,
) -> int:
    """One iteration's assignment of dense rows, compiled (`products.Products.assign`)."""
    return int(module_of("compiled").assign(rows, matrix, moved, place, some, found, watch))


def best_of_sparse(
    rows: Any,
    matrix: FloatArray,
    offsets: FloatArray,
    labels: IntArray,
    scores: FloatArray,
    others: FloatArray,
) -> None:
    """Write the largest score of every CSR row, whose it is, and the second, compiled."""
    module_of("compiled").best_scores_sparse(*csr(rows), matrix, offsets, labels, scores, others)


def second_best(
    scores: DenseRows, best: IntArray, at: IntArray | None, kernel: KernelName
) -> DenseRows:
    """The largest score of some rows, or all, but for their best one; −∞ if there is only one.

    A maximum does not round, so the faster loop is used: the compiled one if it is loaded
    already, but for many centers NumPy's, which uses vector registers.
    """
    loaded = kernel == "compiled" or "lwcs.kernels.compiled" in sys.modules
    few = scores.shape[1] < _MANY_CENTERS
    return module_of("compiled" if loaded and few else "portable").second_best(scores, best, at)


def seeding(kernel: KernelName) -> Any:
    """The compiled kernels of k-means++ for squared distances; None where NumPy does it."""
    return getattr(module_of(kernel), "seeding_rounds", None)
