"""Rows of numbers that were quantized, times their scale: each block is scaled as it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import check_numbers
from lwcs.arrays.device import DeviceArray, on_device
from lwcs.arrays.rows import scaled_by, single_or_double
from lwcs.sources.memory.local import LocalSource

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray, Mask, Rows


def factors_of(scale: Any, n_features: int) -> FloatArray:
    """A scale as one factor per column."""
    shape = (n_features,) if np.ndim(scale) else ()
    factors = check_numbers(scale, "scale", shape, f"data of {n_features} columns, or one number")
    if not (factors > 0.0).all():
        raise ValueError(f"scale has the value {factors.min()}; pass numbers > 0")
    return np.broadcast_to(factors, (n_features,))


def scaled(source: LocalSource, scale: Any) -> LocalSource:
    """A source whose rows are those of another one, times a scale."""
    factors = factors_of(scale, source.n_features)
    array = getattr(source, "array", None)
    if not isinstance(array, DeviceArray):
        return ScaledSource(source, factors)
    from lwcs.sources.memory.tensors import DeviceSource

    # On a device there is a copy, in float32: its samplers read the whole tensor.
    kind = single_or_double(array.dtype)
    tensor = array.tensor.double() if kind is np.float64 else array.tensor.float()
    own = DeviceSource(DeviceArray(tensor * on_device(factors.astype(kind), tensor)))
    own.like = source.like
    return own


class ScaledSource(LocalSource):
    """The rows of another source, times one factor per column; in float32 where that holds them."""

    def __init__(self, whole: LocalSource, factors: FloatArray) -> None:
        self.whole, self.factors = whole, factors
        self.n_rows, self.n_features = whole.n_rows, whole.n_features
        self.feature_names, self.skipped = whole.feature_names, whole.skipped
        self.selection, self.like = whole.selection, whole.like
        self.weighted, self.weights = whole.weighted, whole.weights
        self.dtype = None if whole.dtype is None else np.dtype(single_or_double(whole.dtype))

    @property
    def block_rows(self) -> int:
        """Number of rows per block, as in the whole source."""
        return self.whole.block_rows

    def row_bytes(self) -> float:
        """Bytes per row of the whole source."""
        return self.whole.row_bytes()

    def limit_memory(self, limit: int) -> None:
        """Limit the memory of the whole source."""
        self.whole.limit_memory(limit)

    def _jobs(self, n_jobs: int | None) -> int | None:
        """As many threads as the whole source has memory for."""
        return self.whole._jobs(n_jobs)

    def read(self, start: int, stop: int) -> Rows:
        """Rows start … stop, scaled."""
        return scaled_by(self.whole.read(start, stop), self.factors)

    def take(self, rows: IntArray) -> Rows:
        """Copy the requested rows, scaled."""
        return scaled_by(self.whole.take(rows), self.factors)

    def _missing_rows(self) -> Mask:
        return self.whole._missing_rows()
