"""describe(): sizes, costs, neighbours and profiles of the clusters of a model, by a coreset.

Figures, the report and the command line show them. Values are estimated from the weighted points of
the coreset, so that no row is read again; a pass that labels all rows counts the clusters exactly,
and shares in the record of such a fit are used instead of estimates. A model in a file has no rows,
so that a loaded one needs a coreset to be described by.

The columns that tell a cluster apart are those with the largest difference from the mean in
standard deviations, for every divergence: contributions to a divergence cannot be compared between
clusters of different size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lwcs.arrays.device import copied
from lwcs.arrays.rows import weighted_moments
from lwcs.coreset.coreset import Coreset, refuse_bad_rows
from lwcs.description.projection import Projection, project
from lwcs.estimators.validation import check_features, coreset_of_stream
from lwcs.evaluation.fitted_models import FittedCenters, as_fitted
from lwcs.geometry import Geometry
from lwcs.runtime.parallel import single_threaded_blas
from lwcs.statistics.indices import TwoNearest, silhouettes
from lwcs.statistics.record import SampleSize, shares_on_draws
from lwcs.storage.fields import SMALLEST_SCALE

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.evaluation.fitted_models import FittedMixture
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
class Description:
    """The clusters of a model as a coreset shows them; arrays have one entry per cluster."""

    model: Any
    coreset: Coreset
    geometry: Geometry
    """Geometry of distances; for a mixture, in standard deviations of the columns."""
    is_mixture: bool
    """Whether the clusters are components of a mixture."""
    names: tuple[str, ...]
    """Names of the columns; their numbers if they have none."""
    points: Rows
    """The rows of the coreset as they are measured (for cosine, of unit length), less `zeros`."""
    zeros: FloatArray
    """The values of zeros of sparse rows as they are measured; 0 for dense rows."""
    labels: IntArray
    """Cluster of every point; the likeliest component of a mixture."""
    costs: FloatArray
    """Cost of every point: its distance from the nearest center, or minus its log-likelihood."""
    centers: FloatArray
    """Centers, or means of components, in the units of the data."""
    share: FloatArray
    """Share of each cluster in the weight of all rows."""
    share_error: FloatArray
    """Its standard error; 0 if all rows are in the coreset."""
    cost: FloatArray
    """Cost of the rows of each cluster; minus their log-likelihood for a mixture."""
    spread: FloatArray
    """Typical distance of a row from its center: the root of the mean square, or a mean."""
    nearest: IntArray
    """The other cluster whose center is nearest; −1 if there is only one cluster."""
    apart: FloatArray
    """The distance between the two centers."""
    mean: FloatArray
    """Mean of all rows, as they are measured."""
    deviation: FloatArray
    """Standard deviations of the columns."""
    own_centers: Centers
    """The centers as they are measured."""

    @property
    def called(self) -> str:
        """The word for one of them: cluster, or component of a mixture."""
        return "component" if self.is_mixture else "cluster"

    @property
    def k(self) -> int:
        """Number of clusters."""
        return len(self.centers)

    @property
    def n_rows(self) -> int:
        """Number of rows of the data, without those that were dropped for missing values."""
        return int(self.coreset.n_samples - self.coreset.details.get("dropped", 0))

    @property
    def size(self) -> FloatArray:
        """Number of rows of each cluster, or their weight if rows have weights."""
        return self.share * self.coreset.total_weight

    @cached_property
    def has_weights(self) -> bool:
        """Whether the rows of the data have weights."""
        return not SampleSize.behind(self.coreset).counted_by(self.coreset.total_weight)

    @property
    def share_interval(self) -> tuple[FloatArray, FloatArray]:
        """Ends of the 95 % intervals of the shares."""
        half = _DEVIATIONS * self.share_error
        return np.maximum(self.share - half, 0.0), np.minimum(self.share + half, 1.0)

    @property
    def score(self) -> FloatArray | None:
        """Stability of each cluster, if `model.stability` was called."""
        known = getattr(self.model, "stability_", None)
        return None if known is None else known.score

    @cached_property
    def profile(self) -> FloatArray:
        """Centers less the overall mean, in standard deviations; 0 in a constant column."""
        around = self.own_centers.points - self.mean
        return np.divide(
            around, self.deviation, out=np.zeros_like(around), where=self.deviation > 0.0
        )

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
        between = self.share @ np.minimum(np.abs(self.profile), 1e150) ** 2
        return np.argsort(-between, kind="stable")

    @cached_property
    def projection(self) -> Projection:
        """The points and centers in two dimensions."""
        return project(self)

    @cached_property
    def silhouette(self) -> FloatArray:
        """Simplified silhouette of every point: (b − a)/max(a, b), a and b to its two centers.

        For a mixture, by distances from the means of the components.
        """
        rows = self.geometry.measured(copied(self.coreset.host_points))
        with single_threaded_blas():
            nearest = TwoNearest.of(rows, self.own_centers)
        if self.k == 1:
            return np.zeros(len(self.labels))
        return silhouettes(nearest, self.geometry)


def describe(model: Any, coreset: Any = None) -> Description:
    """Describe the clusters of a fitted model by a coreset of its data.

    Parameters
    ----------
    model : CoresetKMeans, CoresetMixture, or model of scikit-learn with `cluster_centers_`
        Fitted model.
    coreset : Coreset or StreamingCoreset, optional
        Summary of the rows; the model's own `coreset_` by default. A model that was loaded from a
        file has none.

    Returns
    -------
    Description

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> from lwcs.description import describe
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(c, 0.1, (500, 2)) for c in ((0, 0), (0, 5), (0, 6))])
    >>> found = describe(lwcs.CoresetKMeans(3, random_state=0).fit(X))
    >>> found.share.round(2).tolist(), found.telling(0)[0].column
    ([0.33, 0.33, 0.33], 1)
    """
    judge, given = as_fitted(model), _coreset(model, coreset)
    with single_threaded_blas():
        costs = judge.costs(judge.adapted(given), None)
        memberships, values = costs.memberships, costs.values
        soft = memberships.ndim == 2
        likeliest = memberships.argmax(axis=1) if soft else memberships
        labels: IntArray = likeliest.astype(np.int64, copy=False)
        geometry, centers = _measures(judge, given)
        rows = geometry.measured(copied(given.host_points))
        own_centers = geometry.own_centers(centers)
        share, variance = _shares(model, given, memberships, judge.k)
        distances = rows.distances(own_centers, labels) if soft else values
        mean, deviation = weighted_moments(rows.values, given.host_weights)
        nearest, apart = _nearest(own_centers)
    return Description(
        model=model,
        coreset=given,
        geometry=geometry,
        is_mixture=soft,
        names=_names(model, given),
        points=rows.values,
        labels=labels,
        costs=values,
        centers=centers,
        share=share,
        share_error=np.sqrt(variance),
        cost=_cost(model, given, labels, values, judge.k),
        spread=_spread(distances, labels, given.host_weights, judge.k, geometry),
        nearest=nearest,
        apart=apart,
        mean=mean + rows.zeros,
        zeros=rows.zeros,
        deviation=deviation,
        own_centers=own_centers,
    )


def _coreset(model: Any, given: Any) -> Coreset:
    """Return the given coreset, checked, or that of the model."""
    if given is None:
        own: Coreset | None = getattr(model, "coreset_", None)
        if own is None:
            raise ValueError(
                f"this {type(model).__name__} has no coreset (a model that was loaded from a file "
                "has none); pass one: coreset=lwcs.build(data, 20_000)"
            )
        return own
    given = coreset_of_stream(given)
    if not isinstance(given, Coreset):
        raise TypeError(
            f"coreset is a {type(given).__name__}, not a Coreset; pass "
            "coreset=lwcs.build(data, 20_000)"
        )
    if given.n_features != model.n_features_in_:
        raise ValueError(
            f"the coreset has {given.n_features} columns, but the model was fitted on "
            f"{model.n_features_in_}; pass a coreset of the rows of this model"
        )
    check_features(model, given)
    refuse_bad_rows(given)
    return given


def _measures(
    judge: FittedCenters | FittedMixture, coreset: Coreset
) -> tuple[Geometry, FloatArray]:
    """Return the geometry of distances from the centers, and the centers."""
    if isinstance(judge, FittedCenters):
        return judge.geometry, np.asarray(judge.centers, dtype=np.float64)
    deviation = weighted_moments(copied(coreset.host_points), coreset.host_weights)[1]
    usable = np.isfinite(deviation) & (deviation > SMALLEST_SCALE)
    geometry = Geometry(scale=np.where(usable, deviation, 1.0))
    return geometry, np.asarray(judge.mixture.family.means, dtype=np.float64)


def _shares(
    model: Any, coreset: Coreset, memberships: FloatArray | IntArray, k: int
) -> tuple[FloatArray, FloatArray]:
    """Shares of the clusters and their variances, from the record of the fit or by the draws."""
    record = _own_record(model, coreset)
    if record is not None:
        return record.shares, record.share_variances
    shares, variances = shares_on_draws(coreset.host_weights, coreset.counts, memberships, k)
    return shares, np.zeros(k) if coreset.exact else variances


def _cost(model: Any, coreset: Coreset, labels: IntArray, costs: FloatArray, k: int) -> FloatArray:
    """Cost of every cluster, from the record of the fit or by the draws."""
    record = _own_record(model, coreset)
    if record is not None and record.cost_shares is not None:
        return record.cost_shares * model.inertia_
    return _sums(labels, coreset.host_weights * costs, k)


def _own_record(model: Any, coreset: Coreset) -> FittedOn | None:
    """The record of the fit, if `coreset` is the one that was fitted."""
    own = getattr(model, "coreset_", None)
    return getattr(model, "fitted_on_", None) if coreset is own else None


def _names(model: Any, coreset: Coreset) -> tuple[str, ...]:
    given = getattr(model, "feature_names_in_", coreset.feature_names)
    if given is None:
        return tuple(f"column {j}" for j in range(coreset.n_features))
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


def _spread(
    distances: FloatArray, labels: IntArray, weights: FloatArray, k: int, geometry: Geometry
) -> FloatArray:
    """Typical distance from the center; 0 for a cluster without points."""
    totals, sums = _sums(labels, weights, k), _sums(labels, weights * distances, k)
    means = np.divide(sums, totals, out=np.zeros(k), where=totals > 0.0)
    return geometry.lengths(means)


def _sums(labels: IntArray, values: FloatArray, k: int) -> FloatArray:
    """Sum of the values of every cluster."""
    return np.bincount(labels, values, k).astype(np.float64, copy=False)
