"""EM as one estimator runs it: from several starts, or on from a mixture that was fitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lwcs.foundation.journal import Journal
from lwcs.solvers.mixture import expected, fit_mixture, maximize
from lwcs.solvers.mixture_start import begin

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.foundation.types import FloatArray, Rows
    from lwcs.solvers.families import Family
    from lwcs.solvers.mixture import Mixture
    from lwcs.solvers.mixture_start import Given


@dataclass(frozen=True, slots=True)
class Runs:
    """How EM is run: the parameters of an estimator, as far as they matter."""

    new_family: Callable[[], Family]
    k: int
    init: str
    given: Given
    max_iter: int
    tol: float
    seed: int
    n_jobs: int
    journal: Journal = field(default_factory=Journal, compare=False)

    def start(self, rows: Rows, weights: FloatArray, attempt: int) -> Mixture:
        """Run EM from start number `attempt`."""
        family = self.new_family()
        mixing = begin(
            rows,
            weights,
            family,
            self.k,
            self.init,
            self.given,
            seed=self.seed,
            attempt=attempt,
            n_jobs=self.n_jobs,
            journal=self.journal,
        )
        return self._run(rows, weights, family, mixing)

    def go_on(self, last: Mixture, rows: Rows, weights: FloatArray) -> Mixture:
        """Run EM from a mixture, which is left as it is."""
        family = self.new_family()
        shared = expected(last.family, last.weights, rows)
        return self._run(rows, weights, family, maximize(rows, weights, family, shared))

    def candidates(
        self, rows: Rows, weights: FloatArray, starts: int, last: Mixture | None
    ) -> list[Mixture]:
        """The mixtures of several starts; or of one, where EM goes on from the last mixture."""
        if last is not None:
            return [self.go_on(last, rows, weights)]
        return [self.start(rows, weights, attempt) for attempt in range(starts)]

    def _run(self, rows: Rows, weights: FloatArray, family: Family, mixing: FloatArray) -> Mixture:
        return fit_mixture(
            rows, weights, family, mixing,
            max_iter=self.max_iter, tol=self.tol, journal=self.journal,
        )  # fmt: skip


def to_continue(before: Mixture | None, family: Family, shape: tuple[int, int]) -> Mixture | None:
    """The mixture of the last fit, if it has this family and as many components and columns."""
    if before is None or type(before.family) is not type(family):
        return None
    return before if before.family.means.shape == shape else None
