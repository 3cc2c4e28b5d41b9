"""Sensitivity coresets, and D² sampling of all rows for their initial solution.

D² sampling chooses k rows, each in proportion to ω·d(x, rows chosen before) (Arthur and
Vassilvitskii 2007). Local rows keep their distance from round to round, so that a round is one scan
for one more center; rows that the triangle inequality spares are not read, where it spares enough
of them. That pays where clusters are tight, and may begin to pay later, so it is tried again every
16 rounds. Other sources keep nothing: in round j every partition measures its rows against all j
centers and proposes one of them, and one proposal, chosen in proportion to the costs of the
partitions, is the next center. That is one pass per center instead of two, for the same
distribution.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lwcs import kernels
from lwcs.arrays.checks import BadValueError
from lwcs.arrays.rows import stored_values
from lwcs.geometry import Centers
from lwcs.runtime.parallel import workers
from lwcs.runtime.randomness import Round, Stage, generator
from lwcs.samplers.around_centers import (
    Assignment,
    check_n_clusters,
    draw_by_sensitivity,
    require_n_clusters,
)
from lwcs.samplers.first_pass import check_passes, check_total, first_pass, needs_first_pass
from lwcs.samplers.one_read import running_weights
from lwcs.samplers.sampler import Draws, Sampler
from lwcs.sources import LocalSource
from lwcs.sources.memory.local import is_on_device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.arrays.types import FloatArray, Rows
    from lwcs.geometry import Geometry
    from lwcs.runtime.parallel import Map
    from lwcs.samplers.sampler import Run
    from lwcs.sources import Block, LocalSource, Source


# Where fewer rows can be spared, looking for them costs more than their distances.
_SPARE_FROM = 0.25
_ASK_AGAIN = 16
STAGE = "D2 sampling"
"""The name of these passes in a journal, where a row counts once for every pass."""


def d2_sampling(source: LocalSource, k: int, geometry: Geometry, run: Run) -> Assignment:
    """Choose k local rows by D² sampling, or fewer once the cost is zero."""
    uniforms = run.generator(Round.D2).random(k)
    weights = running_weights(source)
    check_total(weights.total)
    row = int(weights.draw(uniforms[:1])[0])
    state = _D2State(source, k, geometry)
    with (
        source.explaining(),
        run.journal.stage(STAGE, k, kind="pass", row_bytes=source.row_bytes()) as stage,
        workers(run.n_jobs) as run_all,
    ):
        for j in range(k):
            costs = state.add(row, run_all)
            stage.passes = j + 1
            stage.step((j + 1) * source.n_rows)
            if j + 1 == k or costs.sum() <= 0.0:
                break
            row = state.draw(uniforms[j + 1], costs)
    return state.result()


class _D2State:
    """The state of D² sampling: the centers so far, a distance and a label per row."""

    def __init__(self, source: LocalSource, k: int, geometry: Geometry) -> None:
        self._source, self._geometry = source, geometry
        self._centers, self._chosen = np.zeros((k, source.n_features)), 0
        self._closest, self._labels = source.empty(np.float64), source.empty(np.int32)
        self._closest[:], self._labels[:] = np.inf, 0
        self._spared = 0
        # Smaller than blocks, so that threads finish a short round together.
        self._step = max(64, source.block_rows // 2)

    def add(self, row: int, run_all: Map) -> FloatArray:
        """Make a row the next center; return the cost of every piece of the data."""
        raw = self._source.take(np.array([row]))
        if not np.isfinite(stored_values(raw)).all():
            raise BadValueError.found_in(raw, row, 0)
        center = self._geometry.measured(raw, row).as_centers()
        label, reach = self._chosen, self._reach(center.points[0])
        self._centers[label] = center.points[0]
        self._chosen += 1
        starts = range(0, self._source.n_rows, self._step)
        measured = list(run_all(lambda at: self._scan(at, center, label, reach), starts))
        self._spared = sum(spared for _, spared in measured)
        return np.array([cost for cost, _ in measured])

    def _reach(self, point: FloatArray) -> FloatArray | None:
        """Distances below which rows of a cluster are not closer to `point`; None if unused."""
        if self._spared <= _SPARE_FROM * self._source.n_rows and self._chosen % _ASK_AGAIN != 1:
            return None
        return Centers(self._centers[: self._chosen], self._geometry).reach(point)

    def _scan(
        self, start: int, center: Centers, label: int, reach: FloatArray | None
    ) -> tuple[float, int]:
        source = self._source
        part = slice(start, min(start + self._step, source.n_rows))
        rows = self._geometry.measured(source.read(part.start, part.stop), start)
        weights = None if source.weights is None else source.weights[part]
        return rows.add_center(
            weights, center, label, reach, self._closest[part], self._labels[part]
        )

    def draw(self, uniform: float, costs: FloatArray) -> int:
        """Draw a row in proportion to ω·d: a piece by its cost, then a row in it."""
        piece, rest = _cross(costs, uniform)
        part = slice(piece * self._step, (piece + 1) * self._step)
        masses, weights = self._closest[part], self._source.weights
        weights = None if weights is None else weights[part]
        if is_on_device(self._source):
            from lwcs.samplers import device_draws

            return part.start + device_draws.cross(masses, weights, rest)
        return part.start + _cross(masses if weights is None else weights * masses, rest)[0]

    def result(self) -> Assignment:
        """The chosen centers, with the label and the distance of every row."""
        centers = Centers(self._centers[: self._chosen], self._geometry)
        return Assignment(centers, self._labels, self._closest)


def _cross(masses: FloatArray, uniform: float) -> tuple[int, float]:
    """Draw an index in proportion to its mass; return it and a new uniform number."""
    sums = np.cumsum(masses)
    target = uniform * sums[-1]
    at = int(np.searchsorted(sums, target, side="right"))
    if at == len(masses):
        at = int(np.flatnonzero(masses)[-1])
    before = sums[at] - masses[at]
    return at, float(np.clip((target - before) / masses[at], 0.0, 1.0 - 1e-16))


def d2_sampling_in_rounds(source: Source, k: int, geometry: Geometry, run: Run) -> Centers:
    """Choose k rows of any source by D² sampling, one pass for each; fewer if the cost is zero."""
    uniforms = run.generator(Round.D2).random(k)
    centers = Centers(np.zeros((0, source.n_features)), geometry)
    for j in range(k):
        task = ProposeTask(run.seed, run.stage, centers)
        proposals = list(run.gather(source, task, STAGE, note=f"pass {j + 1} of {k}"))
        costs = np.array([proposal.cost for proposal in proposals])
        if j == 0:
            if run.check_rows is not None:
                run.check_rows(sum(proposal.rows for proposal in proposals) - source.dropped)
            check_total(float(costs.sum()))
        if costs.sum() <= 0.0:
            break
        chosen = geometry.measured(proposals[_cross(costs, uniforms[j])[0]].row).as_centers()
        centers = Centers(np.vstack([centers.points, chosen.points]), geometry)
    return centers


@dataclass(frozen=True, slots=True)
class Proposal:
    """The cost of a partition in a round of D² sampling, one of its rows, and their number."""

    cost: float
    row: Rows | None
    rows: int


@dataclass(frozen=True, slots=True)
class ProposeTask:
    """A round of D² sampling: a row in proportion to ω·d, or to ω without centers."""

    seed: int
    stage: Stage
    centers: Centers

    def __call__(self, blocks: Iterator[Block], partition: int) -> Proposal:
        """Draw one row in one scan: a block's row replaces the last with its share of the cost."""
        j = len(self.centers)
        rng = generator(self.seed, self.stage, Round.D2_CANDIDATES + j, partition)
        total, row, n_rows = 0.0, None, 0
        for block in blocks:
            n_rows += block.points.shape[0]
            masses = kernels.unit_weights(block.weights, block.points.shape[0])
            if j:
                with BadValueError.in_partition(partition):
                    masses = masses * Assignment(self.centers).of(block)[1]
            cost, (keep, within) = float(masses.sum()), rng.random(2)
            total += cost
            if cost > 0.0 and keep * total < cost:
                at = _cross(masses, within)[0]
                # A copy: a view would keep the whole block.
                row = block.points[at : at + 1].copy()
        return Proposal(total, row, n_rows)


@dataclass(frozen=True)
class Sensitivity(Sampler):
    """The paper's CS: D² sampling of all rows as the initial solution.

    Parameters
    ----------
    n_clusters : int, optional
        Rows that D² sampling chooses, one pass each; by default the `n_clusters` of `build`.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> X = np.random.default_rng(0).standard_normal((10_000, 3))
    >>> lwcs.build(X, 500, method=lwcs.Sensitivity(n_clusters=5), random_state=0)
    Coreset(486 rows × 3, 500 draws by sensitivity, of 10,000 rows)
    """

    n_clusters: int | None = None
    name = "sensitivity"
    solves_first = True

    def __post_init__(self) -> None:
        check_n_clusters(self.n_clusters)

    def passes(self, source: Source, geometry: Geometry) -> int:
        """One per cluster; where no row is kept in memory, two more to weigh and to draw."""
        extra = 0 if isinstance(source, LocalSource) else 2
        k = require_n_clusters(self.n_clusters, self.name)
        return k + extra + needs_first_pass(source, geometry)

    def draw(self, source: Source, size: int, passes: int, run: Run) -> Draws:
        """Draw m rows in proportion to their sensitivities."""
        k = require_n_clusters(self.n_clusters, self.name)
        check_passes(source, passes, self.passes(source, run.geometry), f"method={self.name!r}")
        if source.on_cluster:
            warnings.warn(
                f"method='sensitivity' makes {passes} passes over the rows, one per cluster and "
                "two more; method='refined' needs four passes",
                UserWarning,
                stacklevel=3,
            )
        summary = first_pass(source, run) if needs_first_pass(source, run.geometry) else None
        geometry = run.geometry if summary is None else summary.geometry(run.geometry)
        if isinstance(source, LocalSource):
            assignment = d2_sampling(source, k, geometry, run)
        else:
            assignment = Assignment(d2_sampling_in_rounds(source, k, geometry, run))
        return draw_by_sensitivity(source, assignment, k, size, summary, run)
