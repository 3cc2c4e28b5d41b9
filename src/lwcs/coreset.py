"""The Coreset: a small weighted summary of many rows, with what is known of all of them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.divergences import Measure, SquaredEuclidean
from lwcs.foundation import storage
from lwcs.foundation.checks import BadValueError, check_centers, check_count
from lwcs.foundation.parallel import single_threaded_blas
from lwcs.foundation.randomness import Stage, as_seed, generator
from lwcs.foundation.types import is_sparse
from lwcs.samplers import Lightweight, Run
from lwcs.samplers.two_rounds import stack
from lwcs.solvers.assignment import quantization_error
from lwcs.sources import scan

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from lwcs.divergences import Divergence
    from lwcs.foundation.types import FloatArray, IntArray, Rows
    from lwcs.samplers import Draws


@dataclass(frozen=True, eq=False, repr=False)
class Coreset:
    """Weighted rows that stand for a data set; made by `lwcs.build`, unions and `reduce`.

    Attributes
    ----------
    points : array or CSR array of shape (r, d)
        The distinct rows that were drawn, in the dtype and units of the data, in the order
        of their row numbers.
    weights : float64 array of shape (r,)
        What each row stands for. Their sum is unbiased for the total weight of the data, and
        is not normalised to it (that would double the error at the mean).
    indices : int64 array of shape (r,)
        Row numbers in the data.
    counts : int64 array of shape (r,)
        How often each row was drawn.
    n_samples, total_weight : int, float
        Rows of the data, and their total weight Ω.
    mean, total_cost : array of shape (d,) and float, or None
        Mean of the data (as its divergence sees rows: of unit length, as shares, above a floor) and
        Φ, what rows cost around it (of cosine, a mean that is not of unit length); None where the
        sampler did not look at all rows (`uniform`), Φ also where rows were drawn by another
        distance.
    scale : array of shape (d,) or None
        Standard deviations in which distances are measured, if the data was scanned with
        ``scale="standard"``. Points, mean and centers keep the units of the data.
    divergence : Divergence
        What costs are made of: `lwcs.divergences.SquaredEuclidean()`, or another.
    method, seed, feature_names : str, int or None, tuple of str or None
        How it was made: the sampler and the seed of the last draw, None for a union.
    depth : int
        0 if drawn from the data directly (also after `reduce`), 1 for a union; every reduction
        of a union adds one, and an error of its own.
    details : dict
        What else there is to know of how it was drawn: after one pass over a stream the law of
        its weights, ρ and the acceptance; rows that were dropped; after a reduction of a union
        `error_growth`, the error as a multiple of that of one step, if one step has ε = 0.1.
    """

    points: Rows
    weights: FloatArray
    indices: IntArray
    counts: IntArray
    n_samples: int
    total_weight: float
    mean: FloatArray | None
    total_cost: float | None
    scale: FloatArray | None = None
    method: str = "lightweight"
    divergence: Divergence = field(default_factory=SquaredEuclidean)
    seed: int | None = None
    feature_names: tuple[str, ...] | None = None
    depth: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def drawn(cls, draws: Draws, **how: Any) -> Coreset:
        """Put a coreset together from what a sampler drew, and how: method, seed, names."""
        known = draws.summary
        return cls(
            points=draws.points,
            weights=draws.weights,
            indices=draws.indices,
            counts=draws.counts,
            n_samples=known.rows,
            total_weight=known.weight,
            mean=None if known.mean is None else how["divergence"].backward(known.mean),
            total_cost=known.cost,
            scale=known.scale,
            **{"details": draws.details, **how},
        )

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            parts = (value.data, value.indices, value.indptr) if is_sparse(value) else (value,)
            for part in parts:
                if isinstance(part, np.ndarray):
                    part.flags.writeable = False

    @property
    def size(self) -> int:
        """Number of draws; at least the number of distinct rows."""
        return int(self.counts.sum())

    @property
    def measure(self) -> Measure:
        """What "far" means for the rows that this stands for."""
        mean = self.mean
        if mean is None and self.divergence.smoothing:
            seen = Measure(self.divergence)
            with explaining_points(self):
                rows = seen.rows(self.points)
            own = kernels.moments(rows, self.weights, "portable").mean
            return Measure(self.divergence, self.scale, seen.whole(own, rows))
        inward = None if mean is None else self.divergence.inward(mean)
        return Measure(self.divergence, self.scale, inward)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.points.shape[1])

    def cost(self, centers: Any) -> float:
        """Estimate φ_X(centers), the cost of the whole data.

        Unbiased for centers chosen without this coreset; for centers that were fitted on it,
        biased low.

        Parameters
        ----------
        centers : array of shape (k, d)
            In the units of the data. Of a smoothed divergence, centers must be inside of its
            domain, as those of a model are; rows become so by ``coreset.measure.smoothed(rows)``.
        """
        measure = self.measure
        own = measure.centers(check_centers(centers, self.n_features))
        with single_threaded_blas(), explaining_points(self):
            return quantization_error(self.points, self.weights, own, measure)

    def __add__(self, other: Coreset) -> Coreset:
        """Coreset of the union of two disjoint data sets; `other`'s row numbers come after ours."""
        if not isinstance(other, Coreset):
            return NotImplemented
        _check_alike(self, other)
        mean, cost = _merged(self, other)
        return replace(
            self,
            points=stack([self.points, other.points]),
            weights=np.concatenate([self.weights, other.weights]),
            indices=np.concatenate([self.indices, other.indices + self.n_samples]),
            counts=np.concatenate([self.counts, other.counts]),
            n_samples=self.n_samples + other.n_samples,
            total_weight=self.total_weight + other.total_weight,
            mean=mean,
            total_cost=cost,
            method=self.method if self.method == other.method else "mixed",
            seed=None,
            depth=max(self.depth, other.depth, 1),
            details={},
        )

    def reduce(self, size: int, *, random_state: object = None) -> Coreset:
        """Coreset of this coreset, with `size` draws.

        Drawn directly from data, it keeps a uniform choice of its draws: that is a coreset of
        the data as if built with this size, and loses nothing more (stratified draws become a
        random choice of strata, still unbiased). A union is sampled a second time, as weighted
        rows, which adds an error of its own (`depth` counts it).

        Parameters
        ----------
        size : int
            At most the present `size` for a direct coreset.
        random_state : None, int or NumPy generator
            Choice of the draws.
        """
        size, seed = check_count(size, "size"), as_seed(random_state)
        if self.depth > 0:
            return self._resampled(size, seed)
        if size > self.size:
            raise ValueError(
                f"size={size} is larger than the {self.size} draws of this coreset; "
                f"pass size <= {self.size}, or build a larger one from the data"
            )
        rng = generator(seed, Stage.REDUCE)
        kept = rng.multivariate_hypergeometric(self.counts, size, method="marginals")
        at = np.flatnonzero(kept)
        share = (kept[at] / self.counts[at]) * (self.size / size)
        return replace(
            self,
            points=self.points[at],
            weights=self.weights[at] * share,
            indices=self.indices[at],
            counts=kept[at],
            seed=seed,
        )

    def _resampled(self, size: int, seed: int) -> Coreset:
        """Importance sampling of the weighted rows, by Algorithm 1 around their own mean."""
        rows = self.points if self.scale is None else self.points * (1.0 / self.scale)
        source = scan(rows, sample_weight=self.weights)
        kernel = kernels.choose(source.n_values)
        run = Run(seed, kernel, stage=Stage.REDUCE, divergence=self.divergence)
        draws = Lightweight().draw(source, size, 2, run)
        at = draws.indices
        return replace(
            self,
            points=self.points[at],
            weights=draws.weights,
            indices=self.indices[at],
            counts=draws.counts,
            method=Lightweight().name,
            seed=seed,
            depth=self.depth + 1,
            details={"error_growth": round(reduced_epsilon(0.1, self.depth + 1) / 0.1, 3)},
        )

    def to_arrow(self) -> pa.Table:
        """A pyarrow table: index, weight, count and the features, metadata in the schema."""
        from lwcs.coreset_table import to_table

        return to_table(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as Parquet, which any tool reads as a plain table; whole or not at all."""
        storage.write_table(self.to_arrow(), path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Coreset):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Coreset({len(self.weights):,} rows × {self.n_features:,}, {self.size:,} draws "
            f"by {self.method}, of {self.n_samples:,} rows)"
        )


@contextmanager
def explaining_points(coreset: Coreset) -> Iterator[None]:
    """Name the row of the data, if one of a coreset cannot be measured."""
    try:
        yield
    except BadValueError as bad:
        row = int(coreset.indices[bad.row]) - bad.row
        raise bad.explained(row, "", coreset.feature_names) from None


def reduced_epsilon(epsilon: float, depth: int) -> float:
    """ε of a union (depth 1) that was reduced until its depth, if every step has this ε.

    A step of ε₂ on a coreset of ε₁ gives ε₁ + ε₂(1 + 1.5ε₁).
    """
    total = epsilon
    for _ in range(depth - 1):
        total += epsilon * (1.0 + 1.5 * total)
    return total


def _same(one: Any, other: Any) -> bool:
    if is_sparse(one) and is_sparse(other):
        # Whether column numbers are int32 or int64 is not content.
        numbers = all(
            np.array_equal(getattr(one, part), getattr(other, part))
            for part in ("shape", "indices", "indptr")
        )
        return numbers and _same(one.data, other.data)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and bool(one == other)


def _check_alike(one: Coreset, other: Coreset) -> None:
    if one.n_features != other.n_features:
        raise ValueError(
            f"a coreset with {one.n_features} columns and one with {other.n_features} "
            "have no union; build both from the same columns"
        )
    for name in ("feature_names", "divergence"):
        if getattr(one, name) != getattr(other, name):
            raise ValueError(
                f"the coresets differ in {name}: {getattr(one, name)!r} and "
                f"{getattr(other, name)!r}; build both alike"
            )
    if not _same(one.scale, other.scale):
        raise ValueError(
            "the coresets measure distances in different scales; scale the data beforehand by "
            "the same factors, and build both without scale="
        )
    if is_sparse(one.points) != is_sparse(other.points):
        raise ValueError("one coreset is sparse and the other dense; build both alike")


def _merged(one: Coreset, other: Coreset) -> tuple[FloatArray | None, float | None]:
    """Mean and Φ of the union, exact, since both are known of both parts."""
    if one.mean is None or other.mean is None:
        return None, None
    own, (first, second) = one.divergence, (one.total_weight, other.total_weight)
    mean = one.mean + (other.mean - one.mean) * (second / (first + second))
    # If rows are smoothed, it is towards another mean than before, and their costs are others.
    if one.total_cost is None or other.total_cost is None or own.smoothing:
        return mean, None
    measure, center = Measure(own, one.scale), own.inward(mean)
    apart = [measure.between(own.inward(each), center).sum() for each in (one.mean, other.mean)]
    cost = one.total_cost + other.total_cost + first * apart[0] + second * apart[1]
    return mean, float(cost)
