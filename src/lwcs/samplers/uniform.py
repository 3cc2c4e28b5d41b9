"""Uniform subsampling, the baseline: rows in proportion to their input weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from lwcs.arrays.checks import BadValueError
from lwcs.arrays.rows import stored_values
from lwcs.runtime.randomness import Round
from lwcs.samplers.first_pass import (
    Moments,
    MomentsTask,
    check_passes_possible,
    check_total,
    counted,
    needs_first_pass,
    summary_of,
    why_not_one_pass,
)
from lwcs.samplers.lightweight import MeanDrawTask
from lwcs.samplers.one_read import running_weights
from lwcs.samplers.sampler import Draws, Run, Sampler, Summary
from lwcs.samplers.two_rounds import allocate, merge
from lwcs.sources import LocalSource
from lwcs.sources.sequence import SequenceSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.arrays.types import IntArray, Rows
    from lwcs.geometry import Geometry
    from lwcs.sources import Block, Source, Task


@dataclass(frozen=True)
class Uniform(Sampler):
    """Uniform sampler: independent draws in proportion to the input weights, each of weight Ω/m.

    Only the drawn rows are looked at, so mean and Φ stay unknown, unless the data is scanned
    with a scale: that takes two passes.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> X = np.random.default_rng(0).standard_normal((10_000, 3))
    >>> coreset = lwcs.build(X, 500, method=lwcs.Uniform(), random_state=0)  # or "uniform"
    >>> float(coreset.weights.sum())
    10000.0
    """

    name = "uniform"

    def passes(self, source: Source, geometry: Geometry) -> int:
        """One (of the weights alone) where rows can be fetched by number, else two."""
        if self._why_not_one(source, geometry) is not None:
            return 2
        return 1 if source.can_take or not source.rereadable else 2

    def draw(self, source: Source, size: int, passes: int, run: Run) -> Draws:
        """Draw m rows in proportion to their weights."""
        check_passes_possible(source, passes, self._why_not_one(source, run.geometry))
        if passes == 1 and isinstance(source, SequenceSource):
            from lwcs.samplers.one_pass import draw_in_one_pass

            drawn = draw_in_one_pass(source, size, run, uniform=True)
            draws = _weighted(drawn.points, drawn.indices, drawn.counts, size, drawn.summary)
        elif passes == 1 and isinstance(source, LocalSource):
            draws = self._fetch(source, size, run)
        else:
            draws = self._draw_in_two_rounds(source, size, run)
        try:
            if not np.isfinite(stored_values(draws.points)).all():
                raise BadValueError.found_in(draws.points, 0, 0)
            run.geometry.divergence.check(draws.points, 0)
        except BadValueError as bad:
            named = BadValueError(0, int(draws.indices[bad.row]), bad.column, bad.value, bad.wants)
            raise source.explain_row(named) from None
        return draws

    def _why_not_one(self, source: Source, geometry: Geometry) -> str | None:
        if geometry.needs_mean and source.rereadable:
            return f"by {geometry.divergence!r}, which needs the mean of all rows first"
        return why_not_one_pass(source)

    def _fetch(self, source: LocalSource, size: int, run: Run) -> Draws:
        weights = running_weights(source)
        check_total(weights.total)
        drawn = weights.draw(run.generator(Round.UNIFORM).random(size))
        rows, counts = np.unique(drawn, return_counts=True)
        summary = Summary(source.n_rows, weights.total)
        return _weighted(source.take(rows), rows, counts, size, summary)

    def _draw_in_two_rounds(self, source: Source, size: int, run: Run) -> Draws:
        # Values are read only where a scale or a mean is needed.
        first: Task[Moments] = tally
        if needs_first_pass(source, run.geometry):
            first = MomentsTask(source.n_features, run.geometry)
        moments = counted(run, source, list(run.gather(source, first, "first pass")))
        total = reduce(add, moments)
        check_total(total.weight, total.rows)
        weights = [part.weight for part in moments]
        quotas = allocate(size, [weights, [0.0] * len(weights)], run.generator(Round.PLAN))
        second = MeanDrawTask(run.seed, run.stage)
        drawn = run.gather(source, second, "second pass", quotas)
        picked = merge(drawn, [part.rows for part in moments])
        summary = Summary(total.rows, total.weight)
        if needs_first_pass(source, run.geometry):
            summary = summary_of(moments, source, run.geometry)
        return _weighted(picked.points, picked.rows, picked.counts, size, summary)


def _weighted(points: Rows, rows: IntArray, counts: IntArray, size: int, summary: Summary) -> Draws:
    """Draws of weight Ω/m each."""
    return Draws(points, rows, counts, counts * np.float64(summary.weight / size), summary)


def tally(blocks: Iterator[Block], _: int) -> Moments:
    """Number and weight of the rows of a partition, without reading their values."""
    rows, weight = 0, 0.0
    for block in blocks:
        rows += block.points.shape[0]
        weight += block.points.shape[0] if block.weights is None else float(block.weights.sum())
    return Moments(rows, weight, np.zeros(0), np.zeros(0))
