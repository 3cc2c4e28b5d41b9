"""A fitted mixture on the rows of a block: labels, responsibilities and log-likelihoods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from lwcs import kernels
from lwcs.arrays.checks import BadValueError
from lwcs.arrays.device import DeviceArray, on_device
from lwcs.arrays.rows import pieces, stored_values
from lwcs.solvers.device_em import answers
from lwcs.solvers.em import log_joint, prepared
from lwcs.sources import base

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lwcs.arrays.types import FloatArray
    from lwcs.solvers.families import Family
    from lwcs.sources import Block


@dataclass(frozen=True, slots=True)
class MixtureTask:
    """One result per row of a block: "labels", "responsibilities" or "log-likelihood"."""

    family: Family
    weights: FloatArray
    what: str

    def __call__(self, block: Block) -> Any:
        """Compute the result named by `what`, where the rows are."""
        return _answer(self.family, self.weights, block.points, block.first_row, self.what)


@dataclass(frozen=True, slots=True)
class LogLikelihoodTask:
    """Σω·ln p and Σω over the rows of a partition."""

    adds_up: ClassVar[bool] = True
    family: Family
    weights: FloatArray

    def __call__(self, blocks: Iterator[Block], partition: int) -> tuple[float, float]:
        """Sum over the blocks."""
        total = weight = 0.0
        for block in blocks:
            with BadValueError.in_partition(partition):
                found = _answer(
                    self.family, self.weights, block.points, block.first_row, "log-likelihood"
                )
            own, of_block = _sums(block.weights, found)
            total += own
            weight += of_block
        return total, weight


def labelled(
    family: Family, weights: FloatArray, block: Block
) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """Most likely component of every row of a block, and the log-likelihood of the row."""
    joint = _joint(family, weights, block.points, block.first_row)
    return np.argmax(joint, axis=1).astype(np.int32), logsumexp(joint, axis=1)


def _answer(family: Family, weights: FloatArray, points: Any, first_row: int, what: str) -> Any:
    if isinstance(points, DeviceArray):
        return _on_device(family, weights, points, first_row, what)
    joint = _joint(family, weights, points, first_row)
    if what == "labels":
        return np.argmax(joint, axis=1).astype(np.int32)
    found = logsumexp(joint, axis=1)
    return found if what == "log-likelihood" else np.exp(joint - found[:, None])


def _on_device(
    family: Family, weights: FloatArray, points: DeviceArray, first_row: int, what: str
) -> DeviceArray:
    """The same for rows on a device; of a family that is not computed there, piece by piece."""
    step = base.block_rows(points.shape[1])
    if not family.on_device:
        parts = [
            _answer(family, weights, np.asarray(points[at]), first_row + at.start, what)
            for at in pieces(len(points), step)
        ]
        return DeviceArray(on_device(np.concatenate(parts), points.tensor))
    prepared(points, family, first_row)
    found, lost = answers(family, weights, points, what)
    if lost is not None:
        # As on the host, the row is named that has the largest value of its block.
        start = lost // step * step
        raise BadValueError.found_in(points[start : start + step], first_row + start, 0)
    return found[0]


def _sums(weights: Any, values: Any) -> tuple[float, float]:
    """Σω·value and Σω, of one value per row."""
    if isinstance(values, DeviceArray):
        if weights is None:
            return float(values.tensor.sum()), float(len(values))
        omega = on_device(weights, values.tensor)
        return float(omega @ values.tensor), float(omega.sum())
    omega = kernels.unit_weights(weights, len(values))
    return float(omega @ values), float(omega.sum())


def _joint(family: Family, weights: FloatArray, points: Any, first_row: int) -> FloatArray:
    if not np.isfinite(stored_values(points)).all():
        raise BadValueError.found_in(points, first_row, 0)
    joint = log_joint(family, weights, prepared(points, family, first_row))
    if not np.isfinite(joint.max(axis=1)).all():
        raise BadValueError.found_in(points, first_row, 0)
    return joint
