"""Sensitivity coresets, CS of the paper (Lucic, Bachem, Krause 2016)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lwcs.samplers.around_centers import Assignment
from lwcs.samplers.base import Draws, Run, Sampler
from lwcs.samplers.by_sensitivity import check_n_clusters, draw_by_sensitivity, require_n_clusters
from lwcs.samplers.d2_sampling import d2_sampling, d2_sampling_in_rounds
from lwcs.samplers.first_pass import check_passes, first_pass, needs_first_pass
from lwcs.sources import LocalSource

if TYPE_CHECKING:
    from lwcs.geometry import Geometry
    from lwcs.sources import Source


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
        run = run.for_clusters(source, k)
        known = first_pass(source, run) if needs_first_pass(source, run.geometry) else None
        geometry = run.geometry if known is None else known.geometry(run.geometry)
        if isinstance(source, LocalSource):
            assignment = d2_sampling(source, k, geometry, run)
        else:
            assignment = Assignment(d2_sampling_in_rounds(source, k, geometry, run))
        return draw_by_sensitivity(source, assignment, k, size, known, run)
