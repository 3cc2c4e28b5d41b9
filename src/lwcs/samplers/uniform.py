"""Uniform subsampling, the baseline: rows in proportion to their input weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lwcs.foundation.checks import NotFiniteError
from lwcs.foundation.types import is_sparse
from lwcs.samplers.base import Draws, Run, Summary, check_total
from lwcs.samplers.one_read import draw_by_weight, weight_cells
from lwcs.samplers.two_rounds import PLAN_ROUND, SecondRound, allocate, merge
from lwcs.sources import LocalSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.foundation.types import IntArray, Rows
    from lwcs.sources import Block, Source


@dataclass(frozen=True)
class Uniform:
    """m i.i.d. draws in proportion to the input weights, each of weight Ω/m.

    Only the drawn rows are looked at, so mean and Φ stay unknown.
    """

    name = "uniform"

    def passes(self, source: Source) -> int:
        """One (of the weights alone) where rows can be fetched by number, else two."""
        return 1 if source.can_take else 2

    def draw(self, source: Source, size: int, passes: int, run: Run) -> Draws:
        """Draw m rows in proportion to their weights."""
        if passes == 1 and not isinstance(source, LocalSource):
            raise ValueError(
                f"passes=1 is not possible for {type(source).__name__}, whose rows cannot be "
                "fetched by number; pass passes=2 or 'auto'"
            )
        if passes == 1 and isinstance(source, LocalSource):
            points, rows, counts, summary = self._fetch(source, size, run)
        else:
            points, rows, counts, summary = self._draw_in_two_rounds(source, size, run)
        values = points.data if is_sparse(points) else points
        if not np.isfinite(values).all():
            bad = NotFiniteError.found_in(points, 0, 0)
            row = int(rows[bad.row])
            raise NotFiniteError(0, 0, bad.column, bad.value).explained(
                row, "", source.feature_names
            )
        weights = counts * np.float64(summary.weight / size)
        return Draws(points, rows, counts, weights, summary)

    def _fetch(
        self, source: LocalSource, size: int, run: Run
    ) -> tuple[Rows, IntArray, IntArray, Summary]:
        cells = weight_cells(source)
        check_total(float(cells.sum()))
        drawn = draw_by_weight(source, run.generator(PLAN_ROUND).random(size), cells)
        rows, counts = np.unique(drawn, return_counts=True)
        return source.take(rows), rows, counts, Summary(source.n_rows, float(cells.sum()))

    def _draw_in_two_rounds(
        self, source: Source, size: int, run: Run
    ) -> tuple[Rows, IntArray, IntArray, Summary]:
        tallies = list(run.gather(source, tally, "first pass"))
        total = float(sum(weight for _, weight in tallies))
        check_total(total)
        weights = [weight for _, weight in tallies]
        quotas = allocate(size, weights, [0.0] * len(weights), run.generator(PLAN_ROUND))
        second = SecondRound(run.seed, run.stage, run.kernel, None, None)
        offsets = np.cumsum([0, *(rows for rows, _ in tallies[:-1])])
        picked = merge(run.gather(source, second, "second pass", quotas), offsets)
        n_rows = sum(rows for rows, _ in tallies)
        return picked.points, picked.rows, picked.counts, Summary(n_rows, total)


def tally(blocks: Iterator[Block], _: int) -> tuple[int, float]:
    """Rows of a partition and their weight."""
    rows, weight = 0, 0.0
    for block in blocks:
        rows += block.points.shape[0]
        weight += block.points.shape[0] if block.weights is None else float(block.weights.sum())
    return rows, weight
