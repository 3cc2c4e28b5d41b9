"""Coreset: weighted rows that represent a data set, in the library and on the device of X.

The points and weights that users see follow X (`points`, `weights`); code of this package computes
with `host_points` and `host_weights`. A coreset is immutable: it copies arrays that are writeable,
so that an estimate made from it cannot change later. Arrays from users are checked in `arrays`;
what is only needed now and then is imported there: unions and reductions (`combine`), comparisons
and notebooks (`inspection`), tables (`io`).
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from lwcs import kernels
from lwcs.arrays.checks import BadValueError, check_centers, check_count, check_weights, translating
from lwcs.arrays.device import ArrayOrigin, followed, rows_of, storable
from lwcs.arrays.rows import frozen, is_sparse, stored_values
from lwcs.divergences import SquaredEuclidean
from lwcs.geometry import Geometry
from lwcs.passes import quantization_error
from lwcs.runtime.journal import without_timings
from lwcs.runtime.parallel import single_threaded_blas
from lwcs.runtime.randomness import Stage, as_seed, deal, generator, part_of
from lwcs.storage.persistence import Savable, Tabular

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.coreset.streaming import StreamingCoreset
    from lwcs.divergences import Divergence
    from lwcs.samplers import Draws

    ComputedAs = kernels.KernelName | Geometry

ALL_ROWS = "all rows"
"""The method of a coreset of small data: all of its rows, with their own weights."""
PARTITIONS = "partitions"
"""Key in `Coreset.details` of the fingerprints of an engine's partitions."""
DROPPED = "dropped"
"""Key in `Coreset.details` of the number of rows that were dropped for a missing value."""


@dataclass(frozen=True, eq=False, repr=False)
class Coreset(Savable, Tabular):
    """Weighted rows that represent a data set.

    Created by `lwcs.build`, by the union of coresets (``a + b``, ``sum(coresets)``) and by
    `reduce`; `Coreset.from_arrays` makes one from your own arrays, which it checks. A coreset
    cannot be changed: it copies arrays that are writeable. ``len(coreset)`` is the number of its
    distinct rows, and pyarrow, polars, pandas and DuckDB take it as a table.

    Attributes
    ----------
    points : array or CSR array of shape (r, d)
        The distinct rows that were drawn, in the dtype and units of the data, in the order
        of their row numbers; for tensors of torch and arrays of CuPy, on their device.
    weights : float64 array of shape (r,)
        How many rows of the data each row represents, in the library of the points. Their sum is
        unbiased for the total weight of the data, and is not normalized to it (that would double
        the error at the mean).
    indices : int64 array of shape (r,)
        Row numbers in the data, in which rows that were dropped are counted.
    counts : int64 array of shape (r,)
        How often each row was drawn.
    n_samples, total_weight : int, float
        Number of rows of the data that count, and their total weight Ω: rows that were dropped for
        a missing value do not.
    mean, total_cost : array of shape (d,) and float, or None
        Mean of the data and Φ, the cost of that mean as the only center. For a divergence that
        transforms rows (to unit length, to shares, above a floor), the mean is that of the
        transformed rows; for cosine it is not of unit length. Both are None where the sampler did
        not look at all rows (`uniform`); Φ is also None where rows were drawn by another distance.
    scale : array of shape (d,) or None
        Standard deviations that distances are measured in, if the data was scanned with
        ``scale="standard"``. Points, mean and centers keep the units of the data.
    divergence : Divergence
        Divergence that costs are measured by, `lwcs.divergences.SquaredEuclidean()` by default.
    method, seed, feature_names : str, int or None, tuple of str or None
        The sampler ("all rows" where there are so few that nothing was sampled), the random seed
        (None for a union) and the column names.
    depth : int
        0 if drawn from the data directly (also after `reduce`), 1 for a union or arrays of your
        own. Every reduction of these adds one, and an error of its own.
    details : dict
        Further metadata: after one pass over a stream, the kind of the weights, ρ and the
        acceptance rate; the number of dropped rows; the version of a table that has versions; the
        fingerprints of partitions on an engine (`explain_difference`); after the reduction of a
        union, `error_growth`, the error as a multiple of that of one step with ε = 0.1; and
        `timings`: seconds, rows, passes and bytes by stage, where bytes are rows × columns × the
        size of a value (for sparse rows what is stored), or 0 where that is not known.
        Timings and fingerprints do not matter for equality.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> X = np.random.default_rng(0).standard_normal((10_000, 3))
    >>> coreset = lwcs.build(X, 500, random_state=0)
    >>> coreset
    Coreset(485 rows × 3, 500 draws by lightweight, of 10,000 rows)
    >>> (coreset + coreset).reduce(300, random_state=0).n_samples
    20000
    """

    points: Any
    weights: Any
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

    _instead_of_rows = (
        "pass coreset.points, with coreset.weights as weights; coreset.reduce(size) makes a "
        "smaller coreset"
    )

    def __post_init__(self) -> None:
        attributes = vars(self)
        attributes["points"] = storable(self.points)
        origin = ArrayOrigin.of(self.points)
        if origin is not None and isinstance(self.weights, np.ndarray):
            # Kept on the host as well, where most computations with weights run.
            attributes["host_weights"] = frozen(self.weights)
            attributes["weights"] = origin.wrap(self.weights)
        for name, value in list(attributes.items()):
            if isinstance(value, np.ndarray) or is_sparse(value):
                attributes[name] = frozen(value)
        attributes["details"] = dict(self.details)

    def __getstate__(self) -> dict[str, Any]:
        """The fields, without the arrays that are derived from them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        # Arrays come writeable out of a pickle.
        vars(self).update(state)
        self.__post_init__()

    @cached_property
    def host_points(self) -> Rows:
        """The points as code of this package reads them: NumPy, CSR, or a `DeviceArray`."""
        return self.points if ArrayOrigin.of(self.points) is None else rows_of(self.points)

    @cached_property
    def host_weights(self) -> FloatArray:
        """The weights as a NumPy array."""
        if isinstance(self.weights, np.ndarray):
            return self.weights
        return np.asarray(rows_of(self.weights), dtype=np.float64)

    def like_points(self, rows: Rows) -> Any:
        """Rows in the library and on the device of the points."""
        return followed(rows, ArrayOrigin.of(self.points))

    @classmethod
    def from_arrays(
        cls,
        points: Any,
        weights: Any,
        *,
        indices: Any = None,
        counts: Any = None,
        n_samples: int | None = None,
        total_weight: float | None = None,
        mean: Any = None,
        total_cost: float | None = None,
        scale: Any = None,
        divergence: str | Divergence = "sqeuclidean",
        method: str = "given",
        seed: int | None = None,
        feature_names: Sequence[str] | None = None,
        depth: int = 1,
        details: Mapping[str, Any] | None = None,
    ) -> Coreset:
        """Create a coreset from arrays, which are checked and copied.

        Parameters
        ----------
        points : array, sparse array or table of shape (r, d)
            Rows: finite numbers in the domain of the divergence.
        weights : array of shape (r,)
            Their weights: finite, >= 0, and not all 0.
        indices : int array of shape (r,), optional
            Row numbers in the data, all different; rows are sorted by them. By default 0, …, r − 1.
        counts : int array of shape (r,), optional
            How often each row was drawn, at least once; once by default.
        n_samples : int, optional
            Number of rows of the data; by default the largest index + 1. With the rows that were
            dropped, ``details["dropped"]`` if there are any, it is larger than every index.
        total_weight : float, optional
            Total weight of the data; the sum of the weights by default.
        mean, total_cost : array of shape (d,) and float, optional
            Mean of the data and its cost Φ. Not known by default: they are those of the data, and
            a coreset has only estimates of them.
        scale : array of shape (d,), optional
            Standard deviations > 0 that squared Euclidean distances are measured in.
        divergence : str or Divergence, default="sqeuclidean"
            Divergence that costs are measured by.
        method, seed, feature_names, details : optional
            Metadata, which a file can hold. The names of the columns are by default those of a
            table. The method "all rows" says that these are all rows, each counted once.
        depth : int, default=1
            With 1, `reduce` samples the weighted rows by importance. Pass 0 only for independent
            draws of a sampler, of which `reduce` keeps a uniform choice, or for "all rows".

        Examples
        --------
        >>> import lwcs
        >>> coreset = lwcs.Coreset.from_arrays([[0.0, 1.0], [2.0, 3.0]], weights=[10, 30])
        >>> len(coreset), coreset.total_weight
        (2, 40.0)
        """
        from lwcs.coreset.arrays import checked_fields

        return cls(
            **checked_fields(
                points,
                weights,
                indices=indices,
                counts=counts,
                n_samples=n_samples,
                total_weight=total_weight,
                mean=mean,
                total_cost=total_cost,
                scale=scale,
                divergence=divergence,
                method=method,
                seed=seed,
                feature_names=feature_names,
                depth=depth,
                details=details,
            )
        )

    @classmethod
    def drawn(cls, draws: Draws, like: ArrayOrigin | None = None, **how: Any) -> Coreset:
        """Create a coreset from draws; `how` has its method, divergence and further metadata.

        Its points are in the library and on the device of `like`.
        """
        known, metadata = draws.summary, {"details": draws.details, **how}
        return cls(
            points=followed(draws.points, like),
            weights=draws.weights,
            indices=draws.indices,
            counts=draws.counts,
            n_samples=known.rows - metadata["details"].get(DROPPED, 0),
            total_weight=known.weight,
            mean=None if known.mean is None else how["divergence"].from_coordinates(known.mean),
            total_cost=known.cost,
            scale=known.scale,
            **metadata,
        )

    @property
    def _n_dropped(self) -> int:
        """Number of rows that were dropped for a missing value."""
        return int(self.details.get(DROPPED, 0))

    @property
    def _scanned_rows(self) -> int:
        """Number of rows with those that were dropped: row numbers are below it."""
        return self.n_samples + self._n_dropped

    def __len__(self) -> int:
        """Number of distinct rows."""
        return len(self.indices)

    @property
    def size(self) -> int:
        """Number of draws; at least the number of distinct rows."""
        return int(self.counts.sum())

    def geometry(self, computed_as: ComputedAs | None = None) -> Geometry:
        """How rows are measured: the divergence, the scale and the mean to smooth towards.

        `computed_as` is a kernel, or a geometry whose kernel and device are used; by default the
        kernel of this process.
        """
        computed_as = kernels.choose() if computed_as is None else computed_as
        like = computed_as if isinstance(computed_as, Geometry) else Geometry(kernel=computed_as)
        geometry = Geometry(self.divergence, self.scale).computed_as(like)
        if self.mean is not None:
            return replace(geometry, mean=self.divergence.to_coordinates(self.mean))
        if not geometry.needs_mean:
            return geometry
        with explaining_points(self):
            moments = geometry.measured(self.host_points).moments(self.host_weights)
        return replace(geometry, mean=moments.mean)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.points.shape[1])

    def cost(self, centers: Any) -> float:
        """Estimate φ_X(centers), the cost of the whole data.

        The estimate is unbiased for centers that were chosen without this coreset, and biased low
        for centers that were fitted on it.

        Parameters
        ----------
        centers : array of shape (k, d)
            In the units of the data. For a smoothed divergence, centers must be inside of its
            domain, as those of a model are; ``coreset.geometry().smoothed(rows)`` smooths rows of
            the data so that they can be centers.
        """
        measured = self.geometry().in_float64().centers(check_centers(centers, self.n_features))
        with single_threaded_blas(), explaining_points(self):
            return quantization_error(self.host_points, self.host_weights, measured)

    def __add__(self, other: Coreset) -> Coreset:
        """Coreset of the union of two disjoint data sets; rows of `other` come second."""
        if not isinstance(other, Coreset):
            return NotImplemented
        from lwcs.coreset.combine import united

        return united(self, other)

    def __radd__(self, other: object) -> Coreset:
        """Let ``sum`` begin with 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    @property
    def exact(self) -> bool:
        """Whether these are all rows of the data, so that nothing has been sampled."""
        return self.method == ALL_ROWS and self.depth == 0

    def reduce(self, size: int, *, random_state: object = None) -> Coreset:
        """Coreset of this coreset, with `size` draws.

        For a coreset that was drawn directly from data, a uniform choice of its draws is kept:
        the result is a coreset of the data as if built with this size, without additional error
        (stratified draws become a random choice of strata, still unbiased). All rows of small
        data are sampled by the paper's method, which gives such a direct coreset, too. A union is
        sampled a second time, as weighted rows, which adds an error of its own (counted by
        `depth`).

        Parameters
        ----------
        size : int
            Number of draws; for a direct coreset at most its present `size`.
        random_state : None, int or NumPy generator
            Random seed of the choice.
        """
        size, seed = check_count(size, "size"), as_seed(random_state)
        if self.depth > 0:
            from lwcs.coreset.combine import sampled_again

            return sampled_again(self, size, seed)
        if size > self.size:
            raise ValueError(
                f"size={size} is larger than the {self.size} draws of this coreset; "
                f"pass size <= {self.size}, or build a larger one from the data"
            )
        if not self.exact:
            return self._some_draws(self._dealt(size, seed), seed)
        if size == self.size:
            return self
        from lwcs.coreset.combine import sampled

        return sampled(self, size, seed)

    def split(self, size: int, *, random_state: object = None) -> tuple[Coreset, Coreset]:
        """Deal the draws at random into two coresets, of `size` draws and of the others.

        Both are coresets of the data by themselves. For a coreset that was drawn directly from
        data they are independent of each other: the cost of centers that were fitted on one of
        them is estimated without bias by the other.

        Parameters
        ----------
        size : int
            Number of draws of the first coreset, less than the present `size`.
        random_state : None, int or NumPy generator
            Random seed of the choice.
        """
        size, seed = check_count(size, "size"), as_seed(random_state)
        if self.exact:
            raise ValueError(
                "this coreset has all rows of the data, which are no random draws to be split; "
                "build a coreset with lwcs.build, and split that"
            )
        if size >= self.size:
            raise ValueError(
                f"size={size} leaves nothing of the {self.size} draws of this coreset for the "
                f"second part; pass size < {self.size}"
            )
        first = self._dealt(size, seed)
        return self._some_draws(first, seed), self._some_draws(self.counts - first, seed)

    def _dealt(self, size: int, seed: int) -> IntArray:
        """The number of draws of every row in a random choice of `size` draws."""
        return deal(self.counts, [size], generator(seed, Stage.REDUCE))[0]

    def _some_draws(self, counts: IntArray, seed: int) -> Coreset:
        """The coreset of the given number of draws per row, with their weights scaled up."""
        part = part_of(self.host_weights, self.counts, counts)
        # Parts of one seed, unlike other coresets, may be independent of each other.
        details = {**without_timings(self.details), "part_of": self.size}
        least = details.get("least_draws")
        if isinstance(least, int | float):
            # The smallest part of a union keeps the same share of its draws as the whole.
            details["least_draws"] = least * int(part.counts.sum()) / self.size
        return replace(
            self,
            points=self.like_points(self.host_points[part.at]),
            weights=part.weights,
            indices=self.indices[part.at],
            counts=part.counts,
            seed=seed,
            details=details,
        )

    def explain_difference(self, other: Coreset) -> str:
        """Say why two coresets of data of an engine differ: the seed, or which partitions.

        Partitions are compared by the fingerprints that the first round has taken of their rows
        (``details["partitions"]``): the text names those that have other rows, or the same rows in
        another order. Saved coresets have fingerprints, too.
        """
        from lwcs.coreset.inspection import explain_difference

        return explain_difference(self, other)

    def to_arrow(self) -> pa.Table:
        """Convert to a pyarrow table: index, weight, count, features; metadata in its schema."""
        from lwcs.coreset.io import to_table

        return to_table(self)

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Coreset:
        """Convert back from the table of `to_arrow`, whose metadata and checksum are checked.

        The table may have been to a file and back, by a library that keeps the metadata of its
        schema, as pyarrow does.
        """
        from lwcs.coreset.io import KIND, from_table
        from lwcs.storage.persistence import of_kind

        return from_table(*of_kind(table, KIND, cls.__name__), "table")

    def _table(self) -> pa.Table:
        return self.to_arrow()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Coreset):
            return NotImplemented
        from lwcs.coreset.inspection import is_same

        return is_same(self, other)

    __hash__ = None  # type: ignore[assignment]

    def _repr_html_(self) -> str:
        """The facts and the first rows in a notebook."""
        from lwcs.coreset.inspection import to_html

        return to_html(self)

    def __repr__(self) -> str:
        return (
            f"Coreset({len(self):,} rows × {self.n_features:,}, {self.size:,} draws "
            f"by {self.method}, of {self.n_samples:,} rows)"
        )


def explaining_points(coreset: Coreset) -> AbstractContextManager[None]:
    """Let errors about a point of a coreset name its row in the data."""

    def translate(bad: Exception) -> Exception | None:
        if not isinstance(bad, BadValueError):
            return None
        return bad.explained(int(coreset.indices[bad.row]) - bad.row, "", coreset.feature_names)

    return translating(translate)


def check_values(rows: Rows, divergence: Divergence) -> None:
    """Refuse rows that are not finite, or not in the domain of a divergence."""
    if not np.isfinite(stored_values(rows)).all():
        raise BadValueError.found_in(rows, 0, 0)
    divergence.check(rows, 0)


def refuse_bad_rows(coreset: Coreset) -> None:
    """Check the rows and weights of a coreset, which its constructor does not do."""
    check_weights(coreset.host_weights, coreset.host_points.shape[0], "weights of the coreset")
    with explaining_points(coreset):
        check_values(coreset.host_points, coreset.divergence)


def is_streaming_coreset(data: object) -> TypeGuard[StreamingCoreset]:
    """Whether data is a StreamingCoreset; its module is not loaded to find out."""
    streaming = sys.modules.get("lwcs.coreset.streaming")
    return streaming is not None and isinstance(data, streaming.StreamingCoreset)


def refuse_sample_weight(sample_weight: Any) -> None:
    """Refuse weights beside a coreset, which has its own."""
    if sample_weight is not None:
        raise ValueError("a Coreset has its own weights; leave out sample_weight")
