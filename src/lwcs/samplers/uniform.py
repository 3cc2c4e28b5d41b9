"""Uniform subsampling, the baseline: rows in proportion to their input weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from lwcs.foundation.checks import BadValueError
from lwcs.foundation.randomness import Round
from lwcs.foundation.types import is_sparse
from lwcs.samplers.base import (
    Draws,
    FirstRound,
    Moments,
    Run,
    Summary,
    check_passes_possible,
    check_total,
    hindrance_to_one_read,
    looks_first,
    summary_of,
)
from lwcs.samplers.one_pass import draw_in_one_pass
from lwcs.samplers.one_read import draw_by_weight, weight_cells
from lwcs.samplers.two_rounds import SecondRound, allocate, merge
from lwcs.sources import LocalSource
from lwcs.sources.sequence import SequenceSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.divergences import Divergence
    from lwcs.foundation.types import IntArray, Rows
    from lwcs.sources import Block, Source, Task


@dataclass(frozen=True)
class Uniform:
    """m i.i.d. draws in proportion to the input weights, each of weight Ω/m.

    Only the drawn rows are looked at, so mean and Φ stay unknown, unless the data is scanned
    with a scale: that takes two passes.
    """

    name = "uniform"

    def passes(self, source: Source, divergence: Divergence) -> int:
        """One (of the weights alone) where rows can be fetched by number, else two."""
        if self._hindrance(source, divergence) is not None:
            return 2
        return 1 if source.can_take or not source.rereadable else 2

    def draw(self, source: Source, size: int, passes: int, run: Run) -> Draws:
        """Draw m rows in proportion to their weights."""
        check_passes_possible(source, passes, self._hindrance(source, run.divergence))
        if passes == 1 and isinstance(source, SequenceSource):
            drawn = draw_in_one_pass(source, size, run, uniform=True)
            points, rows, counts, summary = drawn.points, drawn.indices, drawn.counts, drawn.summary
        elif passes == 1 and isinstance(source, LocalSource):
            points, rows, counts, summary = self._fetch(source, size, run)
        else:
            points, rows, counts, summary = self._draw_in_two_rounds(source, size, run)
        values = points.data if is_sparse(points) else points
        try:
            if not np.isfinite(values).all():
                raise BadValueError.found_in(points, 0, 0)
            run.divergence.check(points, 0)
        except BadValueError as bad:
            found = BadValueError(0, int(rows[bad.row]), bad.column, bad.value, bad.wants)
            raise source.explain_row(found) from None
        weights = counts * np.float64(summary.weight / size)
        return Draws(points, rows, counts, weights, summary)

    def _hindrance(self, source: Source, divergence: Divergence) -> str | None:
        if divergence.smoothing > 0.0 and source.rereadable:
            return f"by {divergence!r}, whose mean is known only after a pass"
        return hindrance_to_one_read(source)

    def _fetch(
        self, source: LocalSource, size: int, run: Run
    ) -> tuple[Rows, IntArray, IntArray, Summary]:
        cells = weight_cells(source)
        check_total(float(cells.sum()))
        drawn = draw_by_weight(source, run.generator(Round.UNIFORM).random(size), cells)
        rows, counts = np.unique(drawn, return_counts=True)
        return source.take(rows), rows, counts, Summary(source.n_rows, float(cells.sum()))

    def _draw_in_two_rounds(
        self, source: Source, size: int, run: Run
    ) -> tuple[Rows, IntArray, IntArray, Summary]:
        # Values are read only where a scale is asked for.
        first: Task[Moments] = tally
        if looks_first(source, run.divergence):
            first = FirstRound(run.kernel, source.n_features, run.measure)
        moments = list(run.gather(source, first, "first pass"))
        total = reduce(add, moments)
        check_total(total.weight, total.rows)
        weights = [part.weight for part in moments]
        quotas = allocate(size, weights, [0.0] * len(weights), run.generator(Round.PLAN))
        second = SecondRound(run.seed, run.stage, run.kernel, None)
        offsets = np.cumsum([0, *(part.rows for part in moments[:-1])])
        picked = merge(run.gather(source, second, "second pass", quotas), offsets)
        summary = Summary(total.rows, total.weight)
        if looks_first(source, run.divergence):
            summary = summary_of(total, source, run.divergence)
        return picked.points, picked.rows, picked.counts, summary


def tally(blocks: Iterator[Block], _: int) -> Moments:
    """Rows of a partition and their weight; the values are not looked at."""
    rows, weight = 0, 0.0
    for block in blocks:
        rows += block.points.shape[0]
        weight += block.points.shape[0] if block.weights is None else float(block.weights.sum())
    return Moments(rows, weight, np.zeros(0), np.zeros(0))
