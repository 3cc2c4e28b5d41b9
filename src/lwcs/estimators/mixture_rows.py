"""Rows as a mixture takes them, and what it says of them: labels, shares, log-likelihoods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from lwcs import kernels
from lwcs.divergences.seen import divided
from lwcs.foundation.checks import BadValueError
from lwcs.foundation.types import is_sparse
from lwcs.solvers.mixture import log_joint

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lwcs.foundation.types import DenseRows, FloatArray, Rows
    from lwcs.solvers.families import Family
    from lwcs.sources import Block


@dataclass(frozen=True, slots=True)
class MixtureTask:
    """What a mixture says of every row of a block."""

    family: Family
    weights: FloatArray
    what: str

    def __call__(self, block: Block) -> DenseRows:
        """Labels, shares or log-likelihoods."""
        joint = _joint(self.family, self.weights, block)
        if self.what == "labels":
            return np.argmax(joint, axis=1).astype(np.int32)
        evidence = logsumexp(joint, axis=1)
        return evidence if self.what == "evidence" else np.exp(joint - evidence[:, None])


@dataclass(frozen=True, slots=True)
class EvidenceTask:
    """Σω·ln p and Σω of a partition."""

    family: Family
    weights: FloatArray

    def __call__(self, blocks: Iterator[Block], partition: int) -> tuple[float, float]:
        """Add up the blocks."""
        total = weight = 0.0
        for block in blocks:
            with BadValueError.in_partition(partition):
                evidence = logsumexp(_joint(self.family, self.weights, block), axis=1)
            omega = kernels.unit_weights(block.weights, len(evidence))
            total += float(omega @ evidence)
            weight += float(omega.sum())
        return total, weight


def labelled(
    family: Family, weights: FloatArray, block: Block
) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """The likeliest component of every row of a block, and its log-likelihood."""
    joint = _joint(family, weights, block)
    return np.argmax(joint, axis=1).astype(np.int32), logsumexp(joint, axis=1)


def _joint(family: Family, weights: FloatArray, block: Block) -> FloatArray:
    values = block.points.data if is_sparse(block.points) else block.points
    if not np.isfinite(values).all():
        raise BadValueError.found_in(block.points, block.first_row, 0)
    rows = prepared(block.points, family, block.first_row)
    with np.errstate(over="ignore", invalid="ignore"):
        joint = log_joint(family, weights, rows)
    if not np.isfinite(joint.max(axis=1)).all():
        raise BadValueError.found_in(block.points, block.first_row, 0)
    return joint


def prepared(points: Rows, family: Family, first_row: int = 0) -> Rows:
    """Rows as float64, if they are what the family is made for."""
    if is_sparse(points) and not family.sparse:
        raise TypeError(
            f"family={family.name!r} does not take sparse rows; pass dense ones, X.toarray()"
        )
    family.divergence.check(points, first_row)
    return points.astype(np.float64, copy=False)


def directions(rows: Rows) -> Rows:
    """Rows divided by their sums, so that long documents do not make a cluster of their own."""
    return divided(rows, np.asarray(rows.sum(axis=1)).ravel())
