"""Starts of EM (k-means, random responsibilities, given parameters), and runs from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.arrays.checks import BadValueError, check_choice, check_numbers
from lwcs.geometry import Geometry
from lwcs.runtime.journal import Journal
from lwcs.runtime.randomness import Stage, generator
from lwcs.solvers.em import fit_mixture, loops, maximize, mean_log_likelihood, mixing_weights
from lwcs.solvers.lloyd import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lwcs.arrays.types import FloatArray, Labels, Rows
    from lwcs.solvers.em import Mixture
    from lwcs.solvers.families import Family


INITS = ("k-means", "random")
# Largest distance of the sum of given weights from 1, which float32 weights do not exceed.
_SUM_ERROR = 1e-6
_FAR = (
    "is infinitely far from every row of means_init; pass means nearer to the rows, or scale the "
    "data down, for example to unit variance"
)


@dataclass(frozen=True, slots=True)
class Given:
    """The parameters that a user gives of the mixture that EM starts from; the others are None."""

    means: FloatArray | None = None
    weights: FloatArray | None = None
    precisions: FloatArray | None = None

    @classmethod
    def checked(
        cls, family: Family, k: int, n_features: int, *, means: Any, weights: Any, precisions: Any
    ) -> Given:
        """Check the values of `means_init`, `weights_init` and `precisions_init`."""
        return cls(
            None if means is None else _means(means, family, k, n_features),
            None if weights is None else _weights(weights, k),
            None if precisions is None else family.as_precisions(precisions, k, n_features),
        )


def check_init(init: Any) -> None:
    """Check the parameter `init`."""
    if not isinstance(init, str):
        raise TypeError(
            f"init is of type {type(init).__name__}; pass one of {', '.join(map(repr, INITS))}; "
            "means to start from are passed as means_init=…"
        )
    check_choice(init, "init", INITS)


def begin(rows: Rows, weights: FloatArray, family: Family, runs: Runs, attempt: int) -> FloatArray:
    """Set the components that restart number `attempt` starts from; return their weights.

    Given parameters are used as they are. The others are estimated from rows that are assigned to
    the given means, or to components by `init`.
    """
    given, k = runs.given, runs.k
    if given.means is not None and given.precisions is not None:
        family.start_at(given.means, given.precisions)
        mixing = given.weights
        if mixing is None:
            labels = loops(rows).evaluate(family, np.ones(k), rows, "labels")
            shared = loops(rows).labelled(labels, k, rows)
            mixing = mixing_weights(rows, weights, family, shared)
        return mixing
    if given.means is not None:
        shared = loops(rows).labelled(_nearest(rows, family, given.means), k, rows)
    elif runs.init == "random":
        shared = generator(runs.seed, Stage.SEEDING, attempt).dirichlet(np.ones(k), rows.shape[0])
    else:
        labels = _clusters(rows, weights, family, runs, attempt)
        shared = loops(rows).labelled(labels, k, rows)
    mixing = maximize(rows, weights, family, shared)
    family.start_at(given.means, given.precisions)
    return mixing if given.weights is None else given.weights


def _nearest(rows: Rows, family: Family, means: FloatArray) -> Labels:
    """The nearest mean of every row, by the divergence of the family, without smoothing.

    For families whose only parameter is the mean, that is the component with the largest density,
    since ln p(x) = −d(x, mean) + a constant of x.
    """
    geometry = Geometry(family.divergence)
    measured = geometry.measured(loops(rows).start_rows(family, rows))
    try:
        return measured.label_block(geometry.centers(means))
    except BadValueError as bad:
        raise BadValueError(0, bad.row, None, np.inf, _FAR) from None


def _clusters(rows: Rows, weights: FloatArray, family: Family, runs: Runs, attempt: int) -> Labels:
    """Labels of k-means; the first restart uses the seed of the fit itself."""
    seed = runs.seed
    if attempt:
        seed = int(generator(seed, Stage.RESTART, attempt).integers(2**63))
    points, divergence = loops(rows).start_rows(family, rows), family.start
    mean = (
        loops(rows).weighted_sum(points, weights) / weights.sum() if divergence.smoothing else None
    )
    return cluster(
        points,
        weights,
        Geometry(divergence, mean=mean, kernel=kernels.choose()),
        runs.k,
        seed=seed,
        n_jobs=runs.n_jobs,
        journal=runs.journal,
    ).labels


def _means(given: Any, family: Family, k: int, n_features: int) -> FloatArray:
    why = f"n_components={k} and data of {n_features} columns"
    means = check_numbers(given, "means_init", (k, n_features), why)
    domain = family.divergence.domain
    outside = np.argwhere(domain.outside(means))
    if len(outside):
        row, column = map(int, outside[0])
        raise ValueError(
            f"means_init[{row}, {column}]={means[row, column]} is not allowed: "
            f"family={family.name!r} requires {domain}; pass means in this range"
        )
    return family.as_means(means)


def _weights(given: Any, k: int) -> FloatArray:
    weights = check_numbers(given, "weights_init", (k,), f"n_components={k}")
    negative = np.flatnonzero(weights < 0.0)
    if len(negative):
        raise ValueError(
            f"weights_init[{negative[0]}]={weights[negative[0]]} is not allowed; pass numbers >= 0 "
            "that sum to 1"
        )
    if abs(weights.sum() - 1.0) > _SUM_ERROR:
        raise ValueError(
            f"weights_init sums to {weights.sum():g}; pass weights that sum to 1, such as "
            "weights / weights.sum()"
        )
    return weights


@dataclass(frozen=True, slots=True)
class Runs:
    """The parameters of an estimator that EM needs, and its runs."""

    new_family: Callable[[], Family]
    k: int
    init: str
    given: Given
    max_iter: int
    tol: float
    seed: int
    n_jobs: int
    journal: Journal = field(default_factory=Journal, compare=False)
    resumes: bool = False
    """Whether the last mixture is that of the fit before, whose iterations go on (warm start)."""

    def start(self, rows: Rows, weights: FloatArray, attempt: int) -> Mixture:
        """Run EM from start number `attempt`."""
        family = self.new_family()
        mixing = begin(rows, weights, family, self, attempt)
        return self._run(rows, weights, family, mixing)

    def go_on(self, last: Mixture, rows: Rows, weights: FloatArray) -> Mixture:
        """Run EM from a mixture, which does not change."""
        family = self.new_family()
        shared = loops(rows).expected(last.family, last.weights, rows)
        return self._run(rows, weights, family, maximize(rows, weights, family, shared))

    def resume(self, last: Mixture, rows: Rows, weights: FloatArray) -> Mixture:
        """Go on with EM as if it had not ended: the first iteration starts from `last` itself."""
        bound = mean_log_likelihood(last.family, last.weights, rows, weights)
        family = self.new_family()
        shared = loops(rows).expected(last.family, last.weights, rows)
        mixing = maximize(rows, weights, family, shared)
        return self._run(rows, weights, family, mixing, (last.lower_bound, bound))

    def candidates(
        self, rows: Rows, weights: FloatArray, starts: int, last: Mixture | None
    ) -> list[Mixture]:
        """The mixtures of several starts, or the one that continues from the last mixture."""
        if last is not None:
            go_on = self.resume if self.resumes else self.go_on
            return [go_on(last, rows, weights)]
        return [self.start(rows, weights, attempt) for attempt in range(starts)]

    def _run(
        self, rows: Rows, weights: FloatArray, family: Family, mixing: FloatArray,
        bounds: Sequence[float] = (),
    ) -> Mixture:  # fmt: skip
        return fit_mixture(
            rows, weights, family, mixing,
            max_iter=self.max_iter, tol=self.tol, journal=self.journal, bounds=bounds,
        )  # fmt: skip


def to_continue(before: Mixture | None, family: Family, shape: tuple[int, int]) -> Mixture | None:
    """The mixture of the last fit, if it has this family and as many components and columns."""
    if before is None or type(before.family) is not type(family):
        return None
    return before if before.family.means.shape == shape else None
