"""StreamingCoreset: a summary of an unbounded stream of rows, in bounded memory.

Rows pass through the reservoirs of `OnePass`, block by block, so that the size of the batches does
not matter; coresets of rows are merged and reduced in levels. A batch works on copies (`copy`,
`fork`), and what it changes is set in one step at the end: a batch that is refused or interrupted
leaves the stream as it was.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import count
from operator import add
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from lwcs import kernels
from lwcs.arrays.checks import BadValueError, check_choice, check_count
from lwcs.arrays.device import ArrayOrigin
from lwcs.arrays.rows import container, is_narrow, is_sparse, largest_of, single_or_double
from lwcs.coreset.coreset import DROPPED, Coreset, refuse_bad_rows, refuse_sample_weight
from lwcs.divergences import as_divergence
from lwcs.geometry import Geometry
from lwcs.runtime import formatting as markup
from lwcs.runtime.randomness import Stage, as_seed, generator
from lwcs.samplers.first_pass import Extent, weight_of
from lwcs.samplers.lightweight import drawn_by_squared_distance, squared_bound
from lwcs.samplers.one_pass import OnePass
from lwcs.samplers.sampler import Run
from lwcs.sources.base import block_rows
from lwcs.sources.blocks import ArrayBatch, Filling
from lwcs.sources.memory.local import open_local
from lwcs.sources.scan_options import Fitted, ScanOptions, check_not_empty
from lwcs.storage.persistence import Savable

if TYPE_CHECKING:
    import pyarrow as pa

    from lwcs.arrays.types import FloatArray, Rows
    from lwcs.divergences import Divergence
    from lwcs.sources import Block
    from lwcs.sources.memory.local import LocalSource

METHODS = ("lightweight", "uniform")
LARGEST_VALUE = 1e150
"""Distances between larger values overflow."""


class StreamingCoreset(Savable):
    """A coreset of all rows so far, updated batch by batch.

    Memory does not grow with the number of rows: what is kept are two reservoirs, sums, and at
    most one block of rows that is not full yet. The size of the batches does not matter. A stream
    that is saved after any update and loaded again continues as if there had been no interruption.

    Parameters
    ----------
    size : int
        Number of draws of the coreset.
    method : {"lightweight", "uniform"}, default="lightweight"
        Sampling method, as for `lwcs.build`.
    divergence : str or Divergence, default="sqeuclidean"
        Divergence that costs are measured by. Rows are always sampled by squared distances, as
        in the paper.
    random_state : None, int or NumPy generator, default=None
        Random seed.

    Attributes
    ----------
    n_samples : int
        Number of rows so far, including those of merged coresets, without rows that were dropped
        for a missing value (``stream.coreset().details["dropped"]``).

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> rng = np.random.default_rng(0)
    >>> stream = lwcs.StreamingCoreset(size=100, random_state=0)
    >>> for _ in range(10):
    ...     stream.update(rng.normal(size=(1_000, 3)))
    >>> stream.coreset().n_samples
    10000
    """

    like: ArrayOrigin | None = None
    """The library and device of the last batch, which the coreset is given back in."""

    def __init__(
        self,
        size: int,
        *,
        method: str = "lightweight",
        divergence: str | Divergence = "sqeuclidean",
        random_state: object = None,
    ) -> None:
        self.size, self.seed = check_count(size, "size"), as_seed(random_state)
        check_choice(method, "method", METHODS)
        self.method, self.divergence = method, as_divergence(divergence)
        # One kernel throughout, since nobody knows how many rows are to come.
        self._geometry = Geometry(self.divergence, kernel=kernels.choose())
        # The mean is known only once the rows are gone, so they are drawn by squared distances.
        run = Run(self.seed, squared_bound(self._geometry))
        self.state = OnePass.of(self.size, run, uniform=method == "uniform")
        self.filling: Filling | None = None
        self.levels: dict[int, Coreset] = {}
        self.arrived = self.dropped = 0
        self.n_features: int | None = None
        self.feature_names: tuple[str, ...] | None = None
        self.dtype: np.dtype[Any] | None = None
        self.container: str | None = None
        self._extent: Extent | None = None
        """None where it has not been computed, as for a stream that was loaded."""

    @property
    def n_samples(self) -> int:
        """Number of rows so far."""
        waiting = 0 if self.filling is None else self.filling.n_rows
        merged = sum(coreset.n_samples for coreset in self.levels.values())
        return self.state.rows + waiting - self.dropped + merged

    @property
    def total_weight(self) -> float:
        """Total weight of the rows so far."""
        merged = sum(coreset.total_weight for coreset in self.levels.values())
        block = self._waiting()
        waiting = 0.0 if block is None else weight_of(block.weights, block.points.shape[0])
        return float(self.state.by_weight.total + waiting + merged)

    def _waiting(self) -> Block | None:
        """The rows of the block that is not full yet."""
        if self.filling is None or not self.filling.n_rows:
            return None
        return self.filling.block(self.state.rows)

    def update(self, batch: Any, sample_weight: Any = None) -> None:
        """Add rows (an array, a sparse array or a table), or a Coreset of rows.

        Rows on a device are brought to the host, and the coreset is given back on the device of
        the last batch. Later tables need the columns of the first, by name, in any order. A
        stream of float32 rows is continued in float64 once a batch arrives that does not fit into
        float32. A batch that is refused leaves the stream unchanged.
        """
        if isinstance(batch, Coreset):
            refuse_sample_weight(sample_weight)
            self._arrive(batch)
            return
        columns = None if self.feature_names is None else Fitted(self.feature_names)
        source = open_local(batch, ScanOptions(columns=columns, weight=sample_weight))
        if source.n_rows:
            self.add_source(source, source.feature_names)

    def add_source(self, source: LocalSource, names: tuple[str, ...] | None) -> None:
        """Add all rows of a source, at least one; the coreset follows their library and device."""
        on_host = cast("LocalSource", source.on_host())
        rows = on_host.read(0, on_host.n_rows)
        self.add_rows(rows, on_host.weights, names, dropped=source.dropped)
        self.like = source.like

    def add_rows(
        self, rows: Rows, weights: FloatArray | None, names: tuple[str, ...] | None, *,
        dropped: int = 0,
    ) -> None:  # fmt: skip
        """Add at least one row of numbers; the weights have been checked.

        So many of the rows were `dropped` for a missing value; their weight is 0.
        """
        columns = self._columns_with(rows, names, "this batch")
        dtype, (n, d) = columns["dtype"], rows.shape
        if is_sparse(rows) or not is_narrow(rows.dtype):
            # Others are converted block by block.
            with np.errstate(over="ignore"):
                rows = rows.astype(dtype, copy=False)
        try:
            if not largest_of(rows) < LARGEST_VALUE:
                raise BadValueError.found_in(rows, 0, 0)
            new = Extent.of(rows, weight_of(weights, n), self.state.geometry)
        except BadValueError as bad:
            raise bad.explained(0, " of this batch", names) from None
        extent = self._kept_extent() + new
        extent.check(d, "this batch")
        state, filling = self._after(ArrayBatch(rows, n, weights), d, dtype)
        dropped += self.dropped
        vars(self).update(columns, state=state, filling=filling, dropped=dropped, _extent=extent)

    def _columns_with(self, rows: Rows, names: tuple[str, ...] | None, what: str) -> dict[str, Any]:
        """The attributes about columns, once these rows are in; rows of others are refused."""
        check_not_empty(rows.shape)
        n_features, kind = rows.shape[1], container(rows)
        if self.n_features is not None:
            if n_features != self.n_features or kind != self.container:
                raise ValueError(
                    f"{what} has {n_features} columns and is {kind}, but the stream has "
                    f"{self.n_features} columns and is {self.container}"
                )
            if names != self.feature_names:
                raise ValueError(
                    f"{what} has the columns {names}, but the stream has {self.feature_names}"
                )
        if self.dtype is None:
            single = single_or_double(rows.dtype) is np.float32
        else:
            # Once rows arrive that float32 cannot hold, all are kept in float64.
            single = self.dtype == np.float32 and np.can_cast(rows.dtype, np.float32)
        return {
            "n_features": n_features,
            "feature_names": names,
            "container": kind,
            "dtype": np.dtype(np.float32 if single else np.float64),
        }

    def _kept_extent(self) -> Extent:
        """The extent of the rows so far; for a loaded stream, of the rows that it has kept."""
        if self._extent is not None:
            return self._extent
        extent, geometry = self.state.extent(), self.state.geometry
        if (block := self._waiting()) is not None:
            weight = weight_of(block.weights, block.points.shape[0])
            extent += Extent.of(block.points, weight, geometry)
        for coreset in self.levels.values():
            extent += Extent.of(coreset.host_points, _weight(coreset), geometry)
        return extent

    def _after(
        self, batch: ArrayBatch, n_features: int, dtype: np.dtype[Any]
    ) -> tuple[OnePass, Filling | None]:
        """The state and the unfinished block after a batch; the stream's own do not change."""
        step, start = block_rows(n_features), 0
        widened, state, filling = dtype != self.dtype, self.state, None
        if self.filling is not None:
            filling = self.filling.fork(dtype)
        waiting = 0 if filling is None else filling.n_rows
        if widened or waiting + batch.n_rows >= step:
            state = state.copy(dtype)
        while start < batch.n_rows:
            if filling is None:
                filling = Filling(step, n_features, dtype)
            taken = min(step - filling.n_rows, batch.n_rows - start)
            filling.take(batch, start, start + taken)
            start += taken
            if filling.n_rows == step:
                _pass(state, filling.block(state.rows))
                filling = None
        return state, filling

    def coreset(self) -> Coreset:
        """Return the coreset of all rows so far; the stream is not changed."""
        parts = [self._followed(self.levels[level]) for level in sorted(self.levels)]
        if self.n_samples > sum(part.n_samples for part in parts):
            parts.insert(0, self._coreset_of_rows())
        if not parts:
            raise ValueError("there are no rows yet; update this stream with some first")
        whole = reduce(add, parts)
        if len(parts) == 1 or whole.size <= self.size:
            return whole
        return whole.reduce(self.size, random_state=self._reduction(self.arrived, 0))

    def _followed(self, coreset: Coreset) -> Coreset:
        """A merged coreset in the library and on the device of the last batch."""
        if ArrayOrigin.of(coreset.points) == self.like:
            return coreset
        rows = coreset.host_points
        rows = np.asarray(rows) if self.like is None else self.like.wrap(rows)
        return replace(coreset, points=rows, weights=coreset.host_weights)

    def _coreset_of_rows(self) -> Coreset:
        """The coreset of the rows that have passed, and of those of the unfinished block."""
        state = self.state
        if (block := self._waiting()) is not None:
            state = state.copy()
            _pass(state, block)
        draws = state.finish()
        if not self._geometry.cost_follows_from_moments:
            draws = drawn_by_squared_distance(draws)
        return Coreset.drawn(
            draws,
            self.like,
            divergence=self.divergence,
            method=self.method,
            seed=self.seed,
            feature_names=self.feature_names,
            details={**draws.details, **({DROPPED: self.dropped} if self.dropped else {})},
        )

    def merge(self, other: StreamingCoreset) -> None:
        """Add the coreset of another stream, which is not changed."""
        if not isinstance(other, StreamingCoreset):
            raise TypeError(
                f"a {type(other).__name__} is not a StreamingCoreset; pass a Coreset to update()"
            )
        if other.n_samples:
            self._arrive(other.coreset())

    def _arrive(self, coreset: Coreset) -> None:
        """Merge and reduce: two coresets of one level become one of the next.

        So few are kept, and each of n coresets is reduced about log₂ n times (`Coreset.depth`).
        """
        points = coreset.host_points
        columns = self._columns_with(points, coreset.feature_names, "this coreset")
        if coreset.divergence != self.divergence:
            raise ValueError(
                f"this coreset is measured by {coreset.divergence!r}, but the stream by "
                f"{self.divergence!r}"
            )
        if coreset.scale is not None:
            raise ValueError(
                "this coreset measures distances in a scale of its own, which a stream does not; "
                "scale the data beforehand"
            )
        refuse_bad_rows(coreset)
        new = Extent.of(points, _weight(coreset), self.state.geometry)
        extent = self._kept_extent() + new
        extent.check(coreset.n_features, "this coreset")
        arrived, levels, like = self.arrived + 1, dict(self.levels), ArrayOrigin.of(coreset.points)
        if coreset.size > self.size:
            coreset = coreset.reduce(self.size, random_state=self._reduction(arrived, 1))
        for level in count():
            if level not in levels:
                levels[level] = coreset
                break
            coreset = levels.pop(level) + coreset
            if coreset.size > self.size:
                seed = self._reduction(arrived, 2 + level)
                coreset = coreset.reduce(self.size, random_state=seed)
        # Merged coresets keep their dtype, which does not change that of the rows.
        columns["dtype"] = columns["dtype"] if self.dtype is None else self.dtype
        vars(self).update(columns, arrived=arrived, levels=levels, _extent=extent, like=like)

    def _reduction(self, arrival: int, which: int) -> int:
        return int(generator(self.seed, Stage.STREAM, arrival, which).integers(2**63))

    def _table(self) -> pa.Table:
        from lwcs.coreset.streaming_io import to_table

        return to_table(self)

    def _repr_html_(self) -> str:
        """The facts of the stream in a notebook."""
        columns = "not known yet" if self.n_features is None else f"{self.n_features:,}"
        return markup.facts(
            [
                ("StreamingCoreset", f"{self.n_samples:,} rows so far"),
                ("draws", f"{self.size:,}"),
                ("method", self.method),
                ("divergence", repr(self.divergence)),
                ("columns", columns),
                ("total weight", f"{self.total_weight:,.6g}"),
                ("seed", self.seed),
            ]
        )

    def __repr__(self) -> str:
        return (
            f"StreamingCoreset(size={self.size:,}, method={self.method!r}, "
            f"{self.n_samples:,} rows so far)"
        )


def _weight(coreset: Coreset) -> float:
    return max(coreset.total_weight, float(coreset.host_weights.sum()))


def _pass(state: OnePass, block: Block) -> None:
    state.start(block)
    state.update(state.scan(block, state.rows))
