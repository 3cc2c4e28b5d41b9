"""A fitted mixture on the rows of a block: labels, responsibilities and log-likelihoods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from lwcs import kernels
from lwcs.foundation.checks import BadValueError
from lwcs.foundation.device import copied
from lwcs.foundation.rows import stored_values
from lwcs.solvers.mixture import log_joint, prepared

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lwcs.foundation.types import DenseRows, FloatArray
    from lwcs.solvers.families import Family
    from lwcs.sources import Block


@dataclass(frozen=True, slots=True)
class MixtureTask:
    """One result per row of a block: "labels", "responsibilities" or "log-likelihood"."""

    family: Family
    weights: FloatArray
    what: str

    def __call__(self, block: Block) -> DenseRows:
        """Compute the result named by `what`."""
        joint = _joint(self.family, self.weights, block)
        if self.what == "labels":
            return np.argmax(joint, axis=1).astype(np.int32)
        found = logsumexp(joint, axis=1)
        return found if self.what == "log-likelihood" else np.exp(joint - found[:, None])


@dataclass(frozen=True, slots=True)
class LogLikelihoodTask:
    """Σω·ln p and Σω over the rows of a partition."""

    family: Family
    weights: FloatArray

    def __call__(self, blocks: Iterator[Block], partition: int) -> tuple[float, float]:
        """Sum over the blocks."""
        total = weight = 0.0
        for block in blocks:
            with BadValueError.in_partition(partition):
                found = logsumexp(_joint(self.family, self.weights, block), axis=1)
            omega = kernels.unit_weights(block.weights, len(found))
            total += float(omega @ found)
            weight += float(omega.sum())
        return total, weight


def labelled(
    family: Family, weights: FloatArray, block: Block
) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """Most likely component of every row of a block, and the log-likelihood of the row."""
    joint = _joint(family, weights, block)
    return np.argmax(joint, axis=1).astype(np.int32), logsumexp(joint, axis=1)


def _joint(family: Family, weights: FloatArray, block: Block) -> FloatArray:
    points = copied(block.points)
    if not np.isfinite(stored_values(points)).all():
        raise BadValueError.found_in(points, block.first_row, 0)
    rows = prepared(points, family, block.first_row)
    joint = log_joint(family, weights, rows)
    if not np.isfinite(joint.max(axis=1)).all():
        raise BadValueError.found_in(points, block.first_row, 0)
    return joint
