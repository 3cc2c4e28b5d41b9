"""A rough solution B, and every row's distance to it: what sensitivities are made of.

D² sampling draws k rows, each in proportion to ω·d(x, rows drawn before) (Arthur and
Vassilvitskii 2007). Local rows keep their distance from round to round, so a round is one
scan for one more center. Other sources keep nothing: in round j every partition measures
its rows against all j centers and proposes one of them, and the proposal of one partition,
chosen in proportion to its cost, is the next center.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lwcs import kernels
from lwcs.foundation.checks import BadValueError
from lwcs.foundation.parallel import workers
from lwcs.foundation.progress import track
from lwcs.foundation.randomness import Round, Stage, generator
from lwcs.foundation.types import is_sparse
from lwcs.kernels import Pivot
from lwcs.samplers.base import check_total
from lwcs.samplers.one_read import draw_by_weight, weight_cells
from lwcs.solvers.assignment import nearest_in, refuse_infinite
from lwcs.solvers.passes import FinalPass

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lwcs.divergences import Measure
    from lwcs.foundation.parallel import Map
    from lwcs.foundation.types import FloatArray, Rows
    from lwcs.kernels import KernelName
    from lwcs.samplers.base import Run
    from lwcs.sources import Block, LocalSource, Source

# Asking whether a row can be spared costs more than its distance where few can be.
_SPARE_FROM = 0.25
_LOOK_AGAIN = 16


@dataclass(frozen=True, slots=True)
class Rough:
    """Centers; and of local rows, the nearest center and the distance to it."""

    centers: FloatArray
    measure: Measure
    labels: npt.NDArray[np.int32] | None = None
    distances: FloatArray | None = None

    def nearest(self, block: Block, kernel: KernelName) -> tuple[npt.NDArray[np.int32], FloatArray]:
        """Nearest center and distance of every row of a block, by a matrix product."""
        return nearest_in(block, self.centers, self.measure, kernel)


def assign(source: LocalSource, centers: FloatArray, measure: Measure, run: Run) -> Rough:
    """Measure local rows against given centers, in one pass of matrix products."""
    labels, distances = np.empty(source.n_rows, dtype=np.int32), np.empty(source.n_rows)
    task = FinalPass(centers, measure, labels, run.kernel, distances)
    for _ in run.each_block(source, task, "assigning"):
        pass
    return Rough(centers, measure, labels, distances)


def d2_sampling(source: LocalSource, k: int, measure: Measure, run: Run) -> Rough:
    """Choose k local rows by D² sampling, or fewer once the cost is zero."""
    uniforms = run.generator(Round.D2).random(k)
    cells = weight_cells(source)
    check_total(float(cells.sum()))
    row = int(draw_by_weight(source, uniforms[:1], cells)[0])
    seeding = _Seeding(source, k, measure, run.kernel)
    with workers(run.n_jobs) as run_all, source.explaining():
        for j in track(range(k), "seeding", k, show=run.progress):
            costs = seeding.add(row, run_all)
            if j + 1 == k or costs.sum() <= 0.0:
                break
            row = seeding.draw(uniforms[j + 1], costs)
    return seeding.result()


class _Seeding:
    """The state of D² sampling: the centers so far, a distance and a label a row."""

    def __init__(self, source: LocalSource, k: int, measure: Measure, kernel: KernelName) -> None:
        self._source, self._kernel, self._measure = source, kernel, measure
        self._centers, self._chosen = np.zeros((k, source.n_features)), 0
        self._closest = np.full(source.n_rows, np.inf)
        self._labels = np.zeros(source.n_rows, dtype=np.int32)
        self._spared = 0
        # Finer than blocks, so that threads end a short round together.
        self._step = max(64, source.block_rows // 2)

    def add(self, row: int, run_all: Map) -> FloatArray:
        """Make a row the next center; return what every piece of the data costs then."""
        raw = self._source.take(np.array([row]))
        if not np.isfinite(raw.data if is_sparse(raw) else raw).all():
            raise BadValueError.found_in(raw, row, 0)
        point = self._measure.full(self._measure.rows(raw, row))[0]
        center, label = Pivot(point, self._measure.precision), self._chosen
        reach = self._reach(point) if self._measure.squared else None
        self._centers[label] = point
        self._chosen += 1
        starts = range(0, self._source.n_rows, self._step)
        measured = list(run_all(lambda at: self._scan(at, center, label, reach), starts))
        self._spared = sum(spared for _, spared in measured)
        return np.array([cost for cost, _ in measured])

    def _reach(self, point: FloatArray) -> FloatArray | None:
        """How near to its center, by center, a row is sure not to be nearer to `point`."""
        if self._spared <= _SPARE_FROM * self._source.n_rows and self._chosen % _LOOK_AGAIN != 1:
            return None
        apart = (self._centers[: self._chosen] - point) ** 2
        precision = self._measure.precision
        total = apart.sum(axis=1) if precision is None else apart @ precision
        # A quarter, since distances are squared; and less by more than they are rounded.
        reach: FloatArray = 0.25 * (1.0 - 1e-9) * total
        return reach

    def _scan(
        self, start: int, center: Pivot, label: int, reach: FloatArray | None
    ) -> tuple[float, int]:
        source = self._source
        part = slice(start, min(start + self._step, source.n_rows))
        points = source.read(part.start, part.stop)
        rows = self._measure.rows(points, start)
        weights = None if source.weights is None else source.weights[part]
        closest, labels = self._closest[part], self._labels[part]
        if self._measure.squared:
            cost, spared = kernels.closer(
                rows, weights, center, label, reach, closest, labels, self._kernel
            )
        else:
            distances = self._measure.distances(rows, center.point)
            cost, spared = kernels.keep_closer(distances, weights, label, closest, labels), 0
        if not np.isfinite(cost):
            if not self._measure.squared:
                refuse_infinite(points, closest, self._measure, start)
            raise BadValueError.found_in(points, start, 0)
        return cost, spared

    def draw(self, uniform: float, costs: FloatArray) -> int:
        """Draw a row in proportion to ω·d: a piece by its cost, then a row in it."""
        piece, rest = _cross(costs, uniform)
        part = slice(piece * self._step, (piece + 1) * self._step)
        masses, weights = self._closest[part], self._source.weights
        return part.start + _cross(masses if weights is None else weights[part] * masses, rest)[0]

    def result(self) -> Rough:
        """What was chosen, and where that leaves every row."""
        return Rough(self._centers[: self._chosen], self._measure, self._labels, self._closest)


def _cross(masses: FloatArray, uniform: float) -> tuple[int, float]:
    """Draw an index in proportion to its mass; what is left of `uniform` is uniform again."""
    sums = np.cumsum(masses)
    target = uniform * sums[-1]
    at = int(np.searchsorted(sums, target, side="right"))
    if at == len(masses):
        at = int(np.flatnonzero(masses)[-1])
    before = sums[at] - masses[at]
    return at, float(np.clip((target - before) / masses[at], 0.0, 1.0 - 1e-16))


def d2_sampling_in_rounds(source: Source, k: int, measure: Measure, run: Run) -> FloatArray:
    """Choose k rows of any source by D² sampling, one pass for each; or fewer, as above."""
    uniforms = run.generator(Round.D2).random(k)
    centers = np.zeros((0, source.n_features))
    for j in range(k):
        task = Propose(run.seed, run.stage, run.kernel, Rough(centers, measure))
        label = f"seeding, pass {j + 1} of {k}"
        proposals = list(run.gather(source, task, label))
        costs = np.array([proposal.cost for proposal in proposals])
        if j == 0:
            check_total(float(costs.sum()))
        if costs.sum() <= 0.0:
            break
        chosen = proposals[_cross(costs, uniforms[j])[0]].row
        centers = np.vstack([centers, measure.full(measure.rows(chosen))])
    return centers


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a partition sends home in a round of D² sampling: its cost, and one of its rows."""

    cost: float
    row: Rows | None


@dataclass(frozen=True, slots=True)
class Propose:
    """A round of D² sampling: a row in proportion to ω·d; to ω before there is a center."""

    seed: int
    stage: Stage
    kernel: KernelName
    rough: Rough

    def __call__(self, blocks: Iterator[Block], partition: int) -> Proposal:
        """Draw one row in one scan: a block's draw replaces the last by its share so far."""
        j = len(self.rough.centers)
        rng = generator(self.seed, self.stage, Round.D2_CANDIDATES + j, partition)
        total, row = 0.0, None
        for block in blocks:
            masses = kernels.unit_weights(block.weights, block.points.shape[0])
            if j:
                with BadValueError.in_partition(partition):
                    masses = masses * self.rough.nearest(block, self.kernel)[1]
            cost, (keep, within) = float(masses.sum()), rng.random(2)
            total += cost
            if cost > 0.0 and keep * total < cost:
                at = _cross(masses, within)[0]
                # A copy: a view would keep the whole block.
                row = block.points[at : at + 1].copy()
        return Proposal(total, row)
