"""StreamingCoreset: a summary of an unbounded stream of rows, in bounded memory."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.coreset import Coreset, refuse_sample_weight
from lwcs.divergences import as_divergence
from lwcs.foundation import storage
from lwcs.foundation.checks import BadValueError, check_choice, check_count
from lwcs.foundation.randomness import Stage, as_seed, generator
from lwcs.foundation.rows import container, stored_values
from lwcs.geometry import Geometry
from lwcs.samplers.around_mean import drawn_by_squared_distance, squared_bound
from lwcs.samplers.base import Run
from lwcs.samplers.one_pass import OnePass
from lwcs.sources.base import block_rows
from lwcs.sources.batches import ArrayBatch, Filling
from lwcs.sources.local import open_local
from lwcs.sources.options import ScanOptions

if TYPE_CHECKING:
    import os

    from lwcs.divergences import Divergence
    from lwcs.sources import Block, LocalSource

METHODS = ("lightweight", "uniform")
_LARGEST = 1e150


class StreamingCoreset:
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
        Number of rows so far, including those of merged coresets.

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
        # One kernel for good: how much is to come is not known.
        self._geometry = Geometry(self.divergence, kernel=kernels.choose(kernels.COMPILED_FROM))
        # The mean is known only once the rows are gone, so they are drawn by squared distances.
        run = Run(self.seed, squared_bound(self._geometry))
        self.state = OnePass.of(self.size, run, uniform=method == "uniform")
        self.filling: Filling | None = None
        self.levels: dict[int, Coreset] = {}
        self.arrived = 0
        self.n_features: int | None = None
        self.feature_names: tuple[str, ...] | None = None
        self.dtype: np.dtype[Any] | None = None
        self.container: str | None = None

    @property
    def n_samples(self) -> int:
        """Rows so far."""
        waiting = 0 if self.filling is None else self.filling.n_rows
        merged = sum(coreset.n_samples for coreset in self.levels.values())
        return self.state.rows + waiting + merged

    def update(self, batch: Any, sample_weight: Any = None) -> None:
        """Add rows (an array, a sparse array or a table), or a Coreset of rows.

        A batch that is refused leaves the stream unchanged.
        """
        if isinstance(batch, Coreset):
            refuse_sample_weight(sample_weight)
            self._arrive(batch)
            return
        source = open_local(batch, ScanOptions(weight=sample_weight))
        if source.n_rows == 0:
            return
        rows = source.read(0, source.n_rows)
        self._check(source, rows)
        self._take(ArrayBatch(rows, source.n_rows, source.weights))

    def _check(self, source: LocalSource, rows: Any) -> None:
        self._check_alike(source.n_features, source.feature_names, rows, "this batch")
        with np.errstate(over="ignore"):
            stored = rows if self.dtype is None else rows.astype(self.dtype, copy=False)
        values = stored_values(stored)
        # Beyond this, their distances overflow, and everything that came before is lost.
        if values.size and not float(np.abs(values).max()) < _LARGEST:
            raise BadValueError.found_in(stored, 0, 0).explained(
                0, " of this batch", source.feature_names
            )
        try:
            self.divergence.check(rows, 0)
        except BadValueError as bad:
            raise bad.explained(0, " of this batch", source.feature_names) from None
        self._note(source.n_features, source.feature_names, rows)

    def _check_alike(
        self, n_features: int, names: tuple[str, ...] | None, rows: Any, what: str
    ) -> None:
        if self.n_features is None:
            return
        if n_features != self.n_features or container(rows) != self.container:
            raise ValueError(
                f"{what} has {n_features} columns and is {container(rows)}, but the stream has "
                f"{self.n_features} columns and is {self.container}"
            )
        if names != self.feature_names:
            raise ValueError(
                f"{what} has the columns {names}, but the stream has {self.feature_names}"
            )

    def _note(self, n_features: int, names: tuple[str, ...] | None, rows: Any) -> None:
        if self.n_features is None:
            self.n_features, self.feature_names = n_features, names
            self.container = container(rows)
            self.dtype = rows.dtype if rows.dtype == np.float32 else np.dtype(np.float64)

    def _take(self, batch: ArrayBatch) -> None:
        assert self.n_features is not None
        assert self.dtype is not None
        step, start = block_rows(self.n_features), 0
        while start < batch.n_rows:
            if self.filling is None:
                self.filling = Filling(step, self.n_features, self.dtype)
            taken = min(step - self.filling.n_rows, batch.n_rows - start)
            self.filling.take(batch, start, start + taken)
            start += taken
            if self.filling.n_rows == step:
                block, self.filling = self.filling.block(self.state.rows), None
                _pass(self.state, block)

    def coreset(self) -> Coreset:
        """Return the coreset of all rows so far; the stream is not changed."""
        parts = [self.levels[level] for level in sorted(self.levels)]
        if self.n_samples > sum(part.n_samples for part in parts):
            parts.insert(0, self._own())
        if not parts:
            raise ValueError("there are no rows yet; update this stream with some first")
        whole = parts[0]
        for part in parts[1:]:
            whole = whole + part
        if len(parts) == 1 or whole.size <= self.size:
            return whole
        return whole.reduce(self.size, random_state=self._reduction(self.arrived, 0))

    def _own(self) -> Coreset:
        state = self.state
        if self.filling is not None and self.filling.n_rows:
            state = state.copy()
            _pass(state, self.filling.block(state.rows))
        draws, exact = state.finish(), self._geometry.cost_follows_from_moments
        return Coreset.drawn(
            draws if exact else drawn_by_squared_distance(draws),
            method=self.method,
            divergence=self.divergence,
            seed=self.seed,
            feature_names=self.feature_names,
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

        So there are few, and one of n arrivals is reduced about log₂ n times; `Coreset.depth`
        counts how often.
        """
        self._check_alike(coreset.n_features, coreset.feature_names, coreset.points, "this coreset")
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
        for other in self.levels.values():
            _ = coreset + other  # refuses what does not go together, before anything is changed
        self._note(coreset.n_features, coreset.feature_names, coreset.points)
        self.arrived += 1
        if coreset.size > self.size:
            coreset = coreset.reduce(self.size, random_state=self._reduction(self.arrived, 1))
        for level in count():
            if level not in self.levels:
                self.levels[level] = coreset
                return
            coreset = self.levels.pop(level) + coreset
            if coreset.size > self.size:
                seed = self._reduction(self.arrived, 2 + level)
                coreset = coreset.reduce(self.size, random_state=seed)

    def _reduction(self, arrival: int, which: int) -> int:
        return int(generator(self.seed, Stage.STREAM, arrival, which).integers(2**63))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint to a Parquet file, atomically; `lwcs.load` reads it."""
        from lwcs.streaming_table import to_table

        storage.write_table(to_table(self), path)

    def __repr__(self) -> str:
        return (
            f"StreamingCoreset(size={self.size:,}, method={self.method!r}, "
            f"{self.n_samples:,} rows so far)"
        )


def _pass(state: OnePass, block: Block) -> None:
    state.start(block)
    state.update(state.scan(block, state.rows))
