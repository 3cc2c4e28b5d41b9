"""Quantities of data that the theorems need: kurtosis, and similarity of a divergence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.arrays.checks import BadValueError
from lwcs.coreset.coreset import Coreset, refuse_sample_weight
from lwcs.divergences import as_divergence
from lwcs.geometry import Geometry
from lwcs.runtime.parallel import as_threads
from lwcs.samplers.first_pass import MomentsTask, check_total, standard_scale
from lwcs.sources import scan
from lwcs.sources.base import gathered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.divergences import Divergence
    from lwcs.sources import Block


def similarity(data: Any, divergence: Divergence | str, *, n_jobs: int | None = None) -> float:
    """Similarity μ of a divergence to a squared distance on given data, by section 6.

    μ·d_A ≤ d ≤ d_A holds for a squared distance d_A on the range of values in the data. For μ near
    1, the divergence is almost a squared distance; for μ near 0, the sizes of section 6 are too
    large to be useful. Values are taken after the floor and the smoothing of the divergence.

    Parameters
    ----------
    data : array, sparse array, table, path or Source
        Anything that `lwcs.scan` accepts. It is read once, or twice if the divergence is smoothed.
    divergence : str or Divergence
        One of `lwcs.divergences.available()`, or an instance of your own class.
    n_jobs : int, optional
        Number of threads; all cores by default.

    Examples
    --------
    >>> import numpy as np
    >>> from lwcs import theory
    >>> from lwcs.divergences import KL
    >>> theory.similarity(np.array([[1.0, 2.0], [4.0, 2.0]]), KL(smoothing=0))
    0.25
    """
    own, threads = as_divergence(divergence), as_threads(n_jobs)
    source = scan(data)
    geometry = Geometry(own, kernel=kernels.choose())
    with source.explaining():
        if geometry.needs_mean:
            first = MomentsTask(source.n_features, geometry)
            mean = reduce(add, gathered(source, first, "first pass", n_jobs=threads)).mean
            geometry = replace(geometry, mean=mean)
        ends = list(gathered(source, _Extent(geometry), "range", n_jobs=threads))
    return own.similarity(min(end[0] for end in ends), max(end[1] for end in ends))


@dataclass(frozen=True, slots=True)
class _Extent:
    """Task for the smallest and the largest value of a partition, after floor and smoothing."""

    geometry: Geometry

    def __call__(self, blocks: Iterator[Block], partition: int) -> tuple[float, float]:
        low, high = np.inf, -np.inf
        for block in blocks:
            with BadValueError.in_partition(partition):
                ends = self.geometry.measured(block.points, block.first_row).extent()
            if np.isnan(ends).any() or ends[1] == np.inf or ends[0] == -np.inf:
                raise BadValueError.found_in(block.points, block.first_row, partition)
            low, high = min(low, ends[0]), max(high, ends[1])
        return float(low), float(high)


def kurtosis(data: Any, *, sample_weight: Any = None, n_jobs: int | None = None) -> float:
    """Kurtosis K = E‖x−μ‖⁴/(E‖x−μ‖²)² of data, or its estimate from a coreset.

    K is 1 if all rows have the same distance from the mean, 1 + 2/d for a d-dimensional standard
    Gaussian, and hundreds for heavy tails.

    Parameters
    ----------
    data : array, sparse array, table, path, Source or Coreset
        Anything that `lwcs.scan` accepts, read twice; or a coreset.
    sample_weight : array, optional
        Weights of the rows. A coreset has its own weights.
    n_jobs : int, optional
        Number of threads; all cores by default.

    Examples
    --------
    >>> import numpy as np
    >>> from lwcs import theory
    >>> rng = np.random.default_rng(0)
    >>> round(theory.kurtosis(rng.standard_normal((100_000, 2))), 1)
    2.0
    >>> theory.kurtosis(rng.lognormal(sigma=2.0, size=(100_000, 2))) > 100
    True
    """
    scale = None
    if isinstance(data, Coreset):
        refuse_sample_weight(sample_weight)
        source, scale = scan(data.host_points, weight=data.host_weights), data.scale
    else:
        source = scan(data, weight=sample_weight)
    threads = as_threads(n_jobs)
    geometry = Geometry(kernel=kernels.choose())
    with source.explaining():
        first = MomentsTask(source.n_features, geometry)
        total = reduce(add, gathered(source, first, "first pass", n_jobs=threads))
        check_total(total.weight)
        if source.scale == "standard":
            scale = standard_scale(total)
        geometry = replace(geometry, scale=scale, mean=total.mean)
        scatter = total.scatter if scale is None else total.scatter / scale**2
        unit = _unit(float(scatter.sum() / total.weight))
        task = _PowersTask(geometry, unit)
        second, fourth = np.sum(list(gathered(source, task, "second pass", n_jobs=threads)), axis=0)
    if second <= 0.0:
        raise ValueError(
            "all rows are equal, so their kurtosis is not defined; pass rows that differ"
        )
    weight = _unit(total.weight)
    with np.errstate(over="ignore", invalid="ignore"):
        found = float(fourth / weight * (total.weight / weight) / (second / weight) ** 2)
    if not np.isfinite(found):
        raise ValueError(
            "some rows are so far away that the fourth power of their distance overflows; scale "
            "the data down, or leave such rows out"
        )
    return found


def _unit(size: float) -> float:
    """A power of two near a size. Dividing by it is exact, and keeps squares in range."""
    return float(2.0 ** np.clip(np.frexp(size)[1], -1021, 1023)) if size > 0.0 else 1.0


@dataclass(frozen=True, slots=True)
class _PowersTask:
    """Task for Σω·d and Σω·d² of a partition, where d is the squared distance to the mean."""

    geometry: Geometry
    unit: float
    """Distances are divided by this, so that their squares are in the range of numbers."""

    def __call__(self, blocks: Iterator[Block], _: int) -> tuple[float, float]:
        assert self.geometry.mean is not None
        second, fourth = 0.0, 0.0
        for block in blocks:
            rows, distances = self.geometry.measured(block.points), np.empty(block.points.shape[0])
            rows.kernels.scan(rows.values, block.weights, rows.pivot(self.geometry.mean), distances)
            # Sums that overflow are refused at the end.
            with np.errstate(over="ignore", invalid="ignore"):
                distances /= self.unit
                second += kernels.weighted_sum(block.weights, distances)
                fourth += kernels.weighted_sum(block.weights, distances**2)
        return second, fourth
