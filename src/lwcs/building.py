"""build(): a source and a sampler make a coreset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lwcs import kernels
from lwcs.coreset import Coreset
from lwcs.divergences import Measure, SquaredEuclidean, as_divergence
from lwcs.foundation.checks import BadValueError, check_choice, check_count
from lwcs.foundation.parallel import as_threads
from lwcs.foundation.randomness import as_seed
from lwcs.samplers import Run, as_sampler
from lwcs.samplers.base import FirstRound, summary_of
from lwcs.samplers.two_rounds import stack
from lwcs.sources import Block, LocalSource, scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.divergences import Divergence
    from lwcs.samplers import Sampler
    from lwcs.sources import Source


def everything(
    source: Source,
    kernel: kernels.KernelName,
    n_jobs: int | None,
    divergence: Divergence,
) -> Coreset:
    """All rows as a coreset, for data so small that sampling would only lose."""
    if isinstance(source, LocalSource):
        # Arrays are looked at where they are, not copied.
        blocks = [Block(source.read(0, source.n_rows), source.weights, 0)]
    else:
        blocks = [block for part in source.gather(_keep, n_jobs=n_jobs) for block in part]
    points = blocks[0].points if len(blocks) == 1 else stack([block.points for block in blocks])
    weights = np.concatenate(
        [kernels.unit_weights(block.weights, block.points.shape[0]) for block in blocks]
    )
    try:
        moments = FirstRound(kernel, source.n_features, Measure(divergence))(
            iter([Block(points, weights, 0)]), 0
        )
    except BadValueError as bad:
        raise source.explain_row(bad) from None
    known = summary_of(moments, source, divergence)
    cost = known.cost
    if cost is None:
        measure = known.measure(divergence)
        cost = float(weights @ measure.distances(measure.rows(points), moments.mean))
        if cost <= measure.noise(moments.mean, moments.weight, moments.rows):
            cost = 0.0
    return Coreset(
        points=points.view() if isinstance(points, np.ndarray) else points,
        weights=weights,
        indices=np.arange(len(weights)),
        counts=np.ones(len(weights), dtype=np.int64),
        n_samples=len(weights),
        total_weight=moments.weight,
        mean=divergence.backward(moments.mean),
        total_cost=cost,
        scale=known.scale,
        method="all rows",
        divergence=divergence,
        feature_names=source.feature_names,
    )


def check_scale(source: Source, divergence: Divergence) -> None:
    """Refuse a scale where distances are not squared ones of the columns."""
    if source.scale is not None and type(divergence) is not SquaredEuclidean:
        raise ValueError(
            f"scale={source.scale!r} is for squared distances, not for {divergence!r}; scan the "
            "data without it"
        )


def _keep(blocks: Iterator[Block], _: int) -> list[Block]:
    return list(blocks)


def build(
    data: Any,
    size: int,
    *,
    method: str | Sampler = "lightweight",
    divergence: str | Divergence = "sqeuclidean",
    n_clusters: int | None = None,
    sample_weight: Any = None,
    passes: Literal["auto", 1, 2] = "auto",
    random_state: object = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> Coreset:
    """Summarise data by a coreset: a few weighted rows whose clustering costs match the data's.

    Parameters
    ----------
    data : array, memory map, scipy sparse array, table, list of rows, or Source
        Whatever `lwcs.scan` takes.
    size : int
        Number of draws m; about 100 for every cluster that you look for is a good start. It may
        exceed the number of rows.
    method : {"lightweight", "uniform", "sensitivity", "refined"} or sampler
        "refined" is the most accurate at a given size, and takes one pass more than
        "lightweight"; "sensitivity" takes one pass a cluster.
        ``lwcs.Lightweight(draws="stratified")`` and the like are samplers.
    divergence : str or Divergence, default="sqeuclidean"
        What costs are made of: squared distances, or a Bregman divergence by its name ("kl",
        "itakura_saito", …; `lwcs.divergences.available`) or as an object.
    n_clusters : int, optional
        How many clusters the coreset is for. "sensitivity" and "refined" start from a rough
        solution with so many; the other methods do not look at it.
    sample_weight : array of shape (rows,), optional
        A row of weight 3 counts as that row three times. Zero leaves a row out.
    passes : {"auto", 1, 2}
        Reads of the data. Two is the paper's procedure, and the default for files. Rows that
        can be fetched by number need only one, which is then the default and draws from the
        same distribution. Rows that come once (a pipe, a generator) are drawn by reservoirs, as
        are files with ``passes=1``: unbiased too, with other weights (`Coreset.details`). "auto"
        makes as many as it takes: by a divergence two of rows in memory, three of others.
    random_state : None, int or NumPy generator
        The same seed gives the same coreset, whatever the number of threads.
    n_jobs : int, optional
        Threads; all cores by default.
    progress : bool
        Draw a progress bar on standard error.

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
    check_choice(passes, "passes", ("auto", 1, 2))  # type: ignore[arg-type]
    if n_clusters is not None:
        check_count(n_clusters, "n_clusters")
    sampler = as_sampler(method, n_clusters)
    threads, seed = as_threads(n_jobs), as_seed(random_state)
    source = scan(data, sample_weight=sample_weight)
    measured_by = as_divergence(divergence)
    check_scale(source, measured_by)
    run = Run(seed, kernels.choose(source.n_values), threads, progress, divergence=measured_by)
    made_in = sampler.passes(source, measured_by) if passes == "auto" else passes
    draws = sampler.draw(source, size, made_in, run)
    dropped = {"dropped": source.dropped} if source.dropped else {}
    return Coreset.drawn(
        draws,
        method=sampler.name,
        divergence=measured_by,
        seed=seed,
        feature_names=source.feature_names,
        details={**draws.details, **dropped},
    )
