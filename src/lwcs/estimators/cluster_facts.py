"""Facts about the clusters of a model: sizes, costs, neighbours, what tells each one apart.

The summary, figures, the report and the command line show them, so that a number is computed once.
Sizes and costs are those of the record of the fit, which are exact where a pass has labelled all
rows; all else is from the weighted points of the coreset, so that no row is read again. A file of a
model has no coreset, but what the coreset says (`RowFacts`), so that a loaded model is described by
the same numbers.

The columns that tell a cluster apart are those with the largest difference from the mean in
standard deviations, for every divergence: contributions to a divergence cannot be compared between
clusters of different size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lwcs.estimators.fitted_models import FittedCenters, FittedMixture, as_fitted
from lwcs.estimators.row_facts import (
    LabelledCoreset,
    RowFacts,
    in_deviations,
    profile_of,
    sums,
    telling_columns,
)
from lwcs.geometry import Geometry
from lwcs.runtime.parallel import single_threaded_blas
from lwcs.statistics.record import SampleSize, shares_on_draws

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.coreset.coreset import Coreset
    from lwcs.geometry import Centers
    from lwcs.statistics.record import FittedOn

# Half the width of a 95 % interval, in standard errors.
_DEVIATIONS = 1.959964
# A smaller difference, in standard deviations, is 0 to two decimals.
_LEAST_DIFFERENCE = 0.005


class Difference(NamedTuple):
    """The difference of a cluster from the mean of all rows in one column."""

    column: int
    name: str
    deviations: float
    """Difference of its center from the overall mean, in standard deviations of the column."""


@dataclass(frozen=True, eq=False)
class ClusterFacts:
    """The clusters of a model; arrays have one entry per cluster."""

    model: Any
    geometry: Geometry
    """Geometry of distances; for a mixture, in standard deviations of the columns."""
    is_mixture: bool
    """Whether the clusters are components of a mixture."""
    names: tuple[str, ...]
    """Names of the columns; their numbers if they have none."""
    n_rows: int
    """Number of rows of the data, without those that were dropped for missing values."""
    total_weight: float
    has_weights: bool
    """Whether the rows of the data have weights."""
    centers: FloatArray
    """Centers, or means of components, in the units of the data."""
    own_centers: Centers
    """The centers as they are measured."""
    share: FloatArray
    """Share of each cluster in the weight of all rows."""
    share_error: FloatArray
    """Its standard error; 0 if all rows are in the coreset."""
    cost: FloatArray | None
    """Cost of the rows of each cluster; minus their log-likelihood for a mixture, if known."""
    spread: FloatArray
    """Typical distance of a row from its center: the root of the mean square, or a mean."""
    nearest: IntArray
    """The other cluster whose center is nearest; −1 if there is only one cluster."""
    apart: FloatArray
    """The distance between the two centers."""
    rows: RowFacts

    @property
    def called(self) -> str:
        """The word for one of them: cluster, or component of a mixture."""
        return "component" if self.is_mixture else "cluster"

    @property
    def k(self) -> int:
        """Number of clusters."""
        return len(self.centers)

    @property
    def mean(self) -> FloatArray:
        """Mean of all rows, as they are measured."""
        return self.rows.mean

    @property
    def deviation(self) -> FloatArray:
        """Standard deviations of the columns."""
        return self.rows.deviation

    @property
    def size(self) -> FloatArray:
        """Number of rows of each cluster, or their weight if rows have weights."""
        return self.share * self.total_weight

    @cached_property
    def by_size(self) -> IntArray:
        """The clusters, the largest first; of equally large ones the smaller number."""
        return np.argsort(-self.share, kind="stable")

    @property
    def share_interval(self) -> tuple[FloatArray, FloatArray]:
        """Ends of the 95 % intervals of the shares."""
        half = _DEVIATIONS * self.share_error
        return np.maximum(self.share - half, 0.0), np.minimum(self.share + half, 1.0)

    @cached_property
    def profile(self) -> FloatArray:
        """Centers less the overall mean, in standard deviations; 0 in a constant column."""
        return profile_of(self.own_centers.points, self.mean, self.deviation)

    def telling(self, cluster: int, n: int = 3) -> list[Difference]:
        """The columns in which a cluster differs most from the mean, the largest first."""
        profile = self.profile[cluster]
        order = np.argsort(-np.abs(profile), kind="stable")[:n]
        return [
            Difference(int(j), self.names[j], float(profile[j]))
            for j in order
            if abs(profile[j]) >= _LEAST_DIFFERENCE
        ]

    @cached_property
    def telling_columns(self) -> IntArray:
        """All columns, those that tell clusters apart best first: by Σ share·profile²."""
        return telling_columns(self.profile, self.share)

    def quantiles_of(self, cluster: int, column: int) -> tuple[float, float, float] | None:
        """10 % quantile, median and 90 % quantile of a column in a cluster, if they are known."""
        at = int(np.searchsorted(self.rows.columns, column))
        if at == len(self.rows.columns) or self.rows.columns[at] != column:
            return None
        low, median, high = map(float, self.rows.quantiles[:, cluster, at])
        return low, median, high


def facts_of(
    model: Any, coreset: Coreset | None = None, labelled: LabelledCoreset | None = None
) -> ClusterFacts:
    """The clusters of a model, by a coreset: a given one, its own, or what its file keeps of it."""
    judge = as_fitted(model)
    with single_threaded_blas():
        if labelled is None and (own := own_coreset(model) if coreset is None else coreset):
            labelled = LabelledCoreset.of(judge, own)
        record = _record_for(model, labelled)
        if labelled is None:
            return _saved_facts(model, judge, record)
        coreset, k = labelled.coreset, judge.k
        if record is not None:
            share, variance = record.shares, record.share_variances
        else:
            weights, counts = coreset.host_weights, coreset.counts
            share, variance = shares_on_draws(weights, counts, labelled.memberships, k)
            variance = np.zeros(k) if coreset.exact else variance
        rows = RowFacts.of(labelled, share)
        cost = _known_cost(model, record)
        if cost is None:
            cost = sums(labelled.labels, coreset.host_weights * labelled.costs, k)
    weighted = not SampleSize.behind(coreset).counted_by(coreset.total_weight)
    names = _names(model, coreset.feature_names, coreset.n_features)
    return _facts(
        model, labelled.geometry, labelled.centers, judge.soft, rows,
        names=names, n_rows=coreset.n_samples, total_weight=coreset.total_weight,
        has_weights=weighted, share=share, share_error=np.sqrt(variance), cost=cost,
    )  # fmt: skip


def known_facts(model: Any) -> ClusterFacts | None:
    """The clusters of a model as far as it remembers its rows; None if it does not."""
    knows = own_coreset(model) is not None or vars(model).get("_row_facts") is not None
    return facts_of(model) if knows else None


def saved_row_facts(model: Any) -> dict[str, Any] | None:
    """The facts about a coreset that the file of its model keeps, as metadata."""
    known: RowFacts | None = vars(model).get("_row_facts")
    if (own := own_coreset(model)) is not None:
        with single_threaded_blas():
            labelled = LabelledCoreset.of(as_fitted(model), own)
            known = RowFacts.of(labelled, model.fitted_on_.shares)
    return None if known is None else known.saved()


def own_coreset(model: Any) -> Coreset | None:
    """The coreset that a model was fitted on; a loaded model has none."""
    found: Coreset | None = getattr(model, "coreset_", None)
    return found


def _saved_facts(
    model: Any, judge: FittedCenters | FittedMixture, record: FittedOn | None
) -> ClusterFacts:
    rows: RowFacts | None = vars(model).get("_row_facts")
    if rows is None or record is None:
        raise ValueError(
            f"this {type(model).__name__} has no coreset, and its file says nothing of the rows "
            "beside its centers (files of lwcs since 0.6 do); pass a coreset of the rows: "
            "model.summary(lwcs.build(data, 20_000))"
        )
    weighted = not record.rows.counted_by(record.total_weight)
    if isinstance(judge, FittedCenters):
        geometry, centers = judge.geometry, np.asarray(judge.centers, dtype=np.float64)
    else:
        geometry = in_deviations(rows.deviation)
        centers = np.asarray(judge.mixture.family.means, dtype=np.float64)
    return _facts(
        model, geometry, centers, judge.soft, rows,
        names=_names(model, None, centers.shape[1]),
        n_rows=record.n_samples if weighted else round(record.rows.n),
        total_weight=record.total_weight, has_weights=weighted,
        share=record.shares, share_error=np.sqrt(record.share_variances),
        cost=_known_cost(model, record),
    )  # fmt: skip


def _facts(
    model: Any, geometry: Geometry, centers: FloatArray, soft: bool, rows: RowFacts, *,
    share: FloatArray, total_weight: float, cost: FloatArray | None, **known: Any,
) -> ClusterFacts:  # fmt: skip
    """Facts that follow from the centers, beside those that are known."""
    own_centers = geometry.own_centers(centers)
    nearest, apart = _nearest(own_centers)
    spread, size = rows.spread, share * total_weight
    if cost is not None and not soft:
        means = np.divide(cost, size, out=np.zeros(len(cost)), where=size > 0.0)
        spread = geometry.lengths(means)
    return ClusterFacts(
        model=model, geometry=geometry, is_mixture=soft, centers=centers, own_centers=own_centers,
        nearest=nearest, apart=apart, rows=rows, share=share, total_weight=total_weight, cost=cost,
        spread=spread, **known,
    )  # fmt: skip


def _record_for(model: Any, labelled: LabelledCoreset | None) -> FittedOn | None:
    """The record of the fit, if there is no coreset but the one that was fitted."""
    if labelled is not None and labelled.coreset is not own_coreset(model):
        return None
    return getattr(model, "fitted_on_", None)


def _known_cost(model: Any, record: FittedOn | None) -> FloatArray | None:
    if record is None or record.cost_shares is None:
        return None
    return record.cost_shares * model.inertia_


def _names(model: Any, known: tuple[str, ...] | None, n_features: int) -> tuple[str, ...]:
    given = getattr(model, "feature_names_in_", known)
    if given is None:
        return tuple(f"column {j}" for j in range(n_features))
    return tuple(map(str, given))


def _nearest(centers: Centers) -> tuple[IntArray, FloatArray]:
    """The nearest other center of every center, and the distance to it."""
    k, geometry = len(centers), centers.geometry
    nearest, apart = np.full(k, -1), np.full(k, np.inf)
    if k == 1:
        return nearest, apart
    for j, center in enumerate(centers.points):
        with np.errstate(over="ignore"):
            distances = geometry.metric.between(center, centers.points).sum(axis=1)
        distances[j] = np.inf
        nearest[j] = int(np.argmin(distances)) if np.isfinite(distances).any() else (j + 1) % k
        apart[j] = distances[nearest[j]]
    return nearest, geometry.lengths(apart)
