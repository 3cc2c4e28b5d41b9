"""What the kernels of a device share: their results, and the checks of what they are given."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

Tensor: TypeAlias = Any
"""A torch tensor: torch is not installed everywhere, so its types are not read."""

Mode: TypeAlias = Literal["tf32x3", "tf32"]


class ScanSums(NamedTuple):
    """The sums of a scan around a pivot, and those of every cell of rows."""

    shift: Tensor
    """Σω(x − pivot) per column."""
    cost: Tensor
    """Σω·d(x, pivot), without dimensions."""
    cells: Tensor
    """Σω·d(x, pivot) of every cell."""


class Scan(NamedTuple):
    """The distance of every row to a pivot, and the sums of a scan around it."""

    distances: Tensor
    shift: Tensor
    cost: Tensor


class Hits(NamedTuple):
    """Rows that were hit, the bound h of each, and its distance to the mean."""

    rows: Tensor
    bounds: Tensor
    distances: Tensor


class Nearest(NamedTuple):
    """The nearest center of every row, −1 for a row that is not finite."""

    labels: Tensor
    distances: Tensor | None
    n_unclear: Tensor
    """How many rows were decided by differences; without dimensions."""


class Moments(NamedTuple):
    """Weight, mean and scatter Σω(x − mean)² per column."""

    weight: Tensor
    mean: Tensor
    scatter: Tensor
