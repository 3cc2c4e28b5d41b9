"""`build`: a sampler draws a coreset from a source.

`BuildContext` decides once how the rows are measured (divergence, scale, kernel, device); whatever
is drawn from the same data later, for example by a fit, uses the same context.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lwcs import kernels
from lwcs.arrays.checks import BadValueError, check_count, check_n_rows
from lwcs.arrays.device import check_device, check_on_device, with_explained_memory
from lwcs.arrays.rows import is_sparse, stack
from lwcs.coreset.coreset import ALL_ROWS, DROPPED, PARTITIONS, Coreset
from lwcs.divergences import SquaredEuclidean, as_divergence
from lwcs.geometry import Centers, Geometry
from lwcs.runtime.journal import TIMINGS, Journal
from lwcs.runtime.parallel import as_threads, single_threaded_blas
from lwcs.runtime.randomness import Stage, as_seed
from lwcs.runtime.warnings import decided
from lwcs.samplers import Draws, Run, as_sampler
from lwcs.samplers.first_pass import MomentsTask, refuse_underflow, summary_of, without_rounding
from lwcs.sources import Block, LocalSource, Source, scan
from lwcs.sources.base import gathered, watched_blocks
from lwcs.sources.memory.local import is_on_device
from lwcs.sources.scan_options import READING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lwcs.divergences import Divergence
    from lwcs.runtime.progress import Callback
    from lwcs.samplers import Sampler


@dataclass(frozen=True, slots=True)
class BuildContext:
    """Rows and how they are measured: source, divergence, scale and kernel, decided once."""

    source: Source
    geometry: Geometry
    """How rows are measured before a pass has found their mean or scale."""

    @classmethod
    def of(
        cls, source: Source, divergence: Divergence, device: str | None = None, *,
        tf32: bool = False,
    ) -> BuildContext:  # fmt: skip
        """Choose kernel and device; refuse a scale for Bregman divergences.

        The device has been checked by `check_device`.
        """
        if source.scale is not None and type(divergence) is not SquaredEuclidean:
            raise ValueError(
                f"scale={source.scale!r} is only for squared Euclidean distances, not for "
                f"{divergence!r}; scan the data without scale="
            )
        source.look_ahead()
        geometry = Geometry(divergence, kernel=kernels.choose())
        geometry = placed(geometry, device, source, tf32)
        decided("kernel", "%s kernels", geometry.kernel)
        decided("source", "%r", source)
        if source.skipped:
            decided("columns", "left out: %s", ", ".join(source.skipped))
        return cls(source if divergence.runs_on_device else source.on_host(), geometry)

    def coreset(
        self, size: int, sampler: Sampler, seed: int, *,
        passes: int | Literal["auto"] = "auto", n_jobs: int | None = None,
        journal: Journal | None = None, stage: Stage = Stage.CORESET,
        check_rows: Callable[[int], None] | None = None,
    ) -> Coreset:  # fmt: skip
        """Draw a coreset; its timings are also added to `journal`.

        Draws of different stages are independent of each other, also with the same seed.
        `check_rows` may refuse the number of rows, as soon as it is known.
        """
        if check_rows is not None and self.source.n_rows is not None:
            check_rows(self.source.n_rows - self.source.dropped)
        journal = Journal() if journal is None else journal.part()
        run = Run(seed, self.geometry, n_jobs, journal, stage, check_rows)
        n_passes = sampler.passes(self.source, self.geometry) if passes == "auto" else passes
        decided(
            "draw", "%d draws by %r in %s passes, %s kernels, %d threads, seed %d",
            size, sampler, n_passes, self.geometry.kernel, as_threads(n_jobs), seed,
        )  # fmt: skip
        # Set once for all steps, since setting the limit takes longer than some of them; on a
        # device nothing is computed by BLAS.
        with nullcontext() if is_on_device(self.source) else single_threaded_blas():
            draws = sampler.draw(self.source, size, n_passes, run)
        if self.source.scale is not None and draws.summary.scale is None:
            raise ValueError(
                f"method={sampler.name!r} does not support scale={self.source.scale!r}: its draws "
                "have no scale; scan the data without it, or return the scale in the Summary"
            )
        self.source.warn_of_identifiers()
        self.source.warn_of_lost_digits()
        return Coreset.drawn(
            draws,
            self.source.like,
            divergence=self.geometry.divergence,
            method=sampler.label,
            seed=seed,
            feature_names=self.source.feature_names,
            details={**draws.details, **self._source_details(), TIMINGS: journal.timings()},
        )

    def _source_details(self) -> dict[str, Any]:
        """The entries of `Coreset.details` about the source."""
        prints = self.source.fingerprints
        details = {
            DROPPED: self.source.dropped,
            "table_version": self.source.version,
            READING: dict(self.source.reading),
            PARTITIONS: None if prints is None else prints.to_details(),
        }
        return {name: value for name, value in details.items() if value}

    def all_rows(self, n_jobs: int | None, journal: Journal | None = None) -> Coreset:
        """All rows as a coreset, for data so small that sampling would only add an error."""
        journal = Journal() if journal is None else journal.part()
        source, geometry = self.source, self.geometry
        decided("draw", "all rows are used, none is drawn")
        block = _read_all(source, n_jobs, journal)
        assert block.weights is not None
        try:
            moments = MomentsTask(source.n_features, geometry)(iter([block]), 0)
        except BadValueError as bad:
            raise source.explain_row(bad) from None
        summary = summary_of([moments], source, geometry)
        if summary.cost is None:
            geometry = summary.geometry(geometry)
            mean = Centers(moments.mean[None, :], geometry)
            total = float(block.weights @ geometry.measured(block.points).distances_to(mean))
            refuse_underflow(total, geometry, summary, block.points)
            summary = replace(summary, cost=without_rounding(total, geometry, summary))
        source.warn_of_identifiers()
        source.warn_of_lost_digits()
        n_rows = len(block.weights)
        kept = np.arange(n_rows) if block.dropped is None else np.flatnonzero(~block.dropped)
        ones = np.ones(len(kept), dtype=np.int64)
        draws = Draws(block.points[kept], kept, ones, block.weights[kept], summary)
        return Coreset.drawn(
            draws,
            source.like,
            divergence=geometry.divergence,
            method=ALL_ROWS,
            feature_names=source.feature_names,
            details={**self._source_details(), TIMINGS: journal.timings()},
        )


def placed(
    geometry: Geometry, device: str | None, rows: Source | Sequence[Any], tf32: bool
) -> Geometry:
    """The geometry on the requested device; refused where these rows cannot be measured there.

    `rows` are a source or arrays; `tf32` allows a GPU to multiply them in tf32.
    """
    if device is not None:
        arrays = _arrays_of(rows) if isinstance(rows, Source) else rows
        if isinstance(rows, Source) and rows.on_cluster:
            raise ValueError(
                f"device={device!r} is for rows that this process reads, not for a "
                f"{type(rows).__name__}; leave out device="
            )
        possible = geometry.divergence.runs_on_device
        if not possible or any(map(is_sparse, arrays)):
            what = "sparse rows are" if possible else f"{geometry.divergence!r} is"
            raise ValueError(
                f"device={device!r} is for dense rows and divergences that take tensors; {what} "
                "computed on the CPU: leave out device="
            )
        check_on_device(device, arrays, "X")
    geometry = replace(geometry, device=device)
    if tf32 and geometry.keeps_rows and geometry.precision_of_products == "data":
        return replace(geometry, precision_of_products="tf32")
    return geometry


def _arrays_of(source: Source) -> list[Any]:
    """The arrays of a source in memory; None for each part of other sources."""
    parts = getattr(source, "parts", [source])
    return [getattr(part, "array", getattr(part, "rows", None)) for part in parts]


def _read_all(source: Source, n_jobs: int | None, journal: Journal) -> Block:
    """All rows as one block, with weights."""
    if isinstance(source, LocalSource):
        step = source.block_rows
        blocks = list(watched_blocks(source.all_blocks(), source, journal, "all rows", step))
    else:
        parts = gathered(source, _all_blocks, "all rows", journal=journal, n_jobs=n_jobs)
        blocks = [block for part in parts for block in part]
    points = blocks[0].points if len(blocks) == 1 else stack([block.points for block in blocks])
    weights = [kernels.unit_weights(each.weights, each.points.shape[0]) for each in blocks]
    dropped = [
        np.zeros(each.points.shape[0], dtype=bool) if each.dropped is None else each.dropped
        for each in blocks
    ]
    is_dropped = np.concatenate(dropped)
    return Block(points, np.concatenate(weights), 0, is_dropped if is_dropped.any() else None)


def _all_blocks(blocks: Iterator[Block], _: int) -> list[Block]:
    return list(blocks)


@with_explained_memory
def build(
    data: Any,
    size: int,
    *,
    method: str | Sampler = "lightweight",
    divergence: str | Divergence = "sqeuclidean",
    n_clusters: int | None = None,
    sample_weight: Any = None,
    passes: int | Literal["auto"] = "auto",
    random_state: object = None,
    n_jobs: int | None = None,
    memory_limit: int | str | None = None,
    progress: bool | Callback = False,
    device: str | None = None,
) -> Coreset:
    """Summarize data by a coreset: a few weighted rows with nearly the same clustering costs.

    Parameters
    ----------
    data : array, memory map, scipy sparse array, table, path, nested list, or Source
        Whatever `lwcs.scan` accepts.
    size : int
        Number of draws m; about 100 per cluster is a good start. It may exceed the number of
        rows.
    method : {"lightweight", "uniform", "sensitivity", "refined"} or sampler, \
            default="lightweight"
        Sampling method. "refined" is the most accurate at a given size, and takes one pass more
        than "lightweight"; "sensitivity" takes one pass per cluster. Samplers are objects such as
        ``lwcs.Lightweight(draws="stratified")``.
    divergence : str or Divergence, default="sqeuclidean"
        Divergence that costs are measured by: the squared Euclidean distance, or a Bregman
        divergence by its name ("kl", "itakura_saito", …; `lwcs.divergences.available`) or as an
        object.
    n_clusters : int, optional
        Number of clusters that the coreset is for. "sensitivity" and "refined" start from an
        initial solution with that many clusters, which need as many rows; the other methods do not
        use it.
    sample_weight : array of shape (n_samples,), optional
        A row with weight 3 counts as that row three times. A weight of 0 leaves a row out.
    passes : "auto" or int, default="auto"
        Number of passes over the data. Two is the paper's procedure, and the default for files.
        Rows that can be fetched by number need only one, which is then the default and draws from
        the same distribution. Rows that can be read only once (a pipe, a generator) are sampled by
        reservoirs, as are files with ``passes=1``: unbiased too, with other weights
        (`Coreset.details`). "auto" makes as many passes as it takes: for a divergence, two over
        rows in memory and three over others. Where there is no choice, only "auto" and the
        number of passes that are made are accepted.
    random_state : None, int or NumPy generator, default=None
        Random seed. The same seed gives the same coreset, whatever the number of threads.
    n_jobs : int, optional
        Number of threads; by default all cores that the container allows, or what joblib's context
        or OMP_NUM_THREADS say.
    memory_limit : int or str, optional
        Maximum memory for rows that are being read, such as ``"512MB"``; see `lwcs.scan`.
    progress : bool or callable, default=False
        Whether to show progress on standard error: a bar on a terminal, else a line every five
        seconds. A function is called with a `lwcs.Progress` instead, several times a second and at
        the end of every stage, by the thread that called `build`; an exception that it raises ends
        the build.
    device : str, optional
        Where distances of dense rows are computed, such as "cuda" or "cuda:1":
        rows of the host and of files go through it block by block. By default where the rows are:
        tensors of torch and arrays of CuPy on a GPU stay there. Points and weights are where the
        data is.

    Returns
    -------
    Coreset

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> X = np.random.default_rng(0).standard_normal((10_000, 4))
    >>> coreset = lwcs.build(X, size=500, random_state=0)
    >>> coreset.size, coreset.n_samples
    (500, 10000)
    >>> full = np.sum(X**2)                      # one center, at the origin
    >>> bool(abs(coreset.cost(np.zeros((1, 4))) / full - 1) < 0.1)
    True
    """
    size = check_count(size, "size")
    _check_passes(passes)
    if n_clusters is not None:
        check_count(n_clusters, "n_clusters")
    sampler, device = as_sampler(method, n_clusters), check_device(device)
    threads, seed = as_threads(n_jobs), as_seed(random_state)
    journal = Journal(progress)
    source = scan(data, weight=sample_weight, memory_limit=memory_limit)
    context = BuildContext.of(source, as_divergence(divergence), device)
    k = getattr(sampler, "n_clusters", None)
    return context.coreset(
        size, sampler, seed, passes=passes, n_jobs=threads, journal=journal,
        check_rows=None if k is None else partial(check_n_rows, k=k),
    )  # fmt: skip


def _check_passes(passes: Any) -> None:
    """Check what does not depend on the data; the sampler checks the rest."""
    integer = isinstance(passes, Integral) and not isinstance(passes, bool)
    if passes != "auto" and not (integer and passes >= 1):
        raise ValueError(
            f"passes={passes!r} is not a number of passes; pass 'auto', or an integer such as 1 "
            "or 2"
        )
