"""Targets of `certify`: centers or mixtures, and tests that draws are independent of them.

Arrays, models of this library and models of others can be certified. Others are recognised by their
attributes, so that no other library is imported. Draws that a model was fitted on cost less than
other rows. A model recognises them by its record; centers of any origin that are the means of their
clusters in a coreset are taken to be fitted on it.
"""

from __future__ import annotations

import warnings
from abc import ABC
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaincinv

from lwcs import kernels
from lwcs.arrays.checks import check_centers
from lwcs.coreset.coreset import explaining_points
from lwcs.divergences import SquaredEuclidean, as_divergence
from lwcs.estimators.coreset_kmeans import CoresetKMeans, check_fitted
from lwcs.estimators.coreset_mixture import CoresetMixture
from lwcs.estimators.validation import measured_by
from lwcs.solvers.em import log_likelihoods, prepared
from lwcs.statistics.record import digest, digest_of_data

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.arrays.types import FloatArray, Rows
    from lwcs.coreset.coreset import Coreset
    from lwcs.divergences import Divergence
    from lwcs.geometry import Centers, Geometry, Measured
    from lwcs.statistics.record import FittedOn

# Probability that centers which are independent of the draws pass for fitted on them.
_FALSE_ALARM = 1e-4
# Allowance, as a part of the sampling noise: a solver may end before its centers are the means.
_FAR_BELOW = 0.05
# This many rows are not all among other draws by chance, if those have less than half of all rows.
_MANY = 30
_INSTEAD = (
    "pass the data, a coreset that was built with another random_state, or a part of the draws "
    "that was kept apart by coreset.split before the fit"
)
_ALLOWED = (
    "pass an array of shape (k, n_features), or a fitted model with cluster_centers_, centroids, "
    "or weights_ and score_samples"
)


def as_target(given: Any, divergence: str | Divergence | None) -> Target:
    """The target that an array or a model is, or an error that says what is allowed."""
    if isinstance(given, type):
        raise TypeError(f"centers={given.__name__} is a class; {_ALLOWED}")
    is_mixture = hasattr(given, "score_samples") and hasattr(given, "weights_")
    if isinstance(given, CoresetKMeans | CoresetMixture) or is_mixture:
        if divergence is not None:
            raise ValueError(
                f"divergence={divergence!r} is for centers in an array; a {type(given).__name__} "
                "has its own way of measuring rows, leave out divergence"
            )
        if isinstance(given, CoresetKMeans):
            check_fitted(given)
            geometry = given.geometry_
            return CentersTarget(given, geometry.divergence, given.host_centers(), geometry)
        if not is_mixture:
            raise ValueError(f"this CoresetMixture is not fitted; call fit first, or {_ALLOWED}")
        return MixtureTarget(given, SquaredEuclidean())
    name, centers = _centers_of(given)
    if hasattr(given, "fit") and not name:
        raise ValueError(f"{type(given).__name__} has no centers, or is not fitted; {_ALLOWED}")
    measured = None if divergence is None else as_divergence(divergence)
    return CentersTarget(given, measured, _checked_centers(given, name, centers))


def _centers_of(given: Any) -> tuple[str, Any]:
    """The centers of a model of another library, and the attribute that has them."""
    for name in ("cluster_centers_", "centroids"):
        if getattr(given, name, None) is not None:
            return name, getattr(given, name)
    return "", given


def _checked_centers(given: Any, name: str, centers: Any) -> FloatArray:
    try:
        shape = np.shape(centers)
    except ValueError:
        shape = ()
    if len(shape) != 2 or isinstance(centers, str | bytes):
        owner = f"{type(given).__name__} {name}".rstrip()
        raise TypeError(f"centers={owner} has shape {shape}; {_ALLOWED}")
    return check_centers(centers, int(shape[1]))


@dataclass(frozen=True)
class Target(ABC):
    """Centers or a mixture."""

    model: Any
    """The array or the model that was given."""
    divergence: Divergence | None
    """The divergence that rows are drawn by; None for that of the coreset."""

    @property
    def k(self) -> int:
        """Number of centers or components."""
        return int(self.model.weights_.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.model.n_features_in_)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns of the model, or of a table of centers."""
        model = self.model
        given = getattr(model, "feature_names_in_", getattr(model, "columns", None))
        names = () if given is None or callable(given) else tuple(given)
        named = len(names) == self.n_features and all(isinstance(name, str) for name in names)
        return tuple(map(str, names)) if named else None

    @property
    def scaled(self) -> bool:
        """Whether distances are measured in standard deviations."""
        return False


@dataclass(frozen=True)
class CentersTarget(Target):
    """Centers, in the units of the data."""

    points: npt.NDArray[Any]
    geometry: Geometry | None = None
    """The geometry of a model of this library; others measure rows as they were drawn."""

    @property
    def k(self) -> int:
        """Number of centers."""
        return len(self.points)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.points.shape[1])

    @property
    def scaled(self) -> bool:
        """Whether the model was fitted with a scale."""
        return self.geometry is not None and self.geometry.scale is not None

    def distances(self, coreset: Coreset) -> CenterDistances:
        """Measure every row of a coreset from its nearest center."""
        kernel = kernels.choose()
        if self.geometry is not None:
            centers = self.geometry.with_kernel(kernel).own_centers(self.points)
        else:
            own = coreset if self.divergence is None else measured_by(coreset, self.divergence)
            centers = own.geometry(kernel).centers(self.points)
        with explaining_points(coreset):
            rows = centers.geometry.measured(coreset.host_points)
            return CenterDistances(rows, centers, *rows.nearest(centers))


@dataclass(frozen=True, slots=True)
class CenterDistances:
    """The rows of a coreset, their nearest centers and the distances to these."""

    rows: Measured
    centers: Centers
    labels: npt.NDArray[np.int32]
    to_nearest: FloatArray


@dataclass(frozen=True)
class MixtureTarget(Target):
    """A mixture of this library or of scikit-learn."""

    def log_likelihoods(self, points: Rows) -> FloatArray:
        """The log-likelihood of every row."""
        if isinstance(self.model, CoresetMixture):
            mixture = self.model.mixture_
            rows = prepared(points, mixture.family)
            return log_likelihoods(mixture.family, mixture.weights, rows)
        # Columns have been found by their names already.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*valid feature names")
            return np.asarray(self.model.score_samples(points), dtype=np.float64)


class NotIndependentError(ValueError):
    """Draws that a model was fitted on, so that their estimate of its cost is too low."""


def refuse_fitted(model: Any, coreset: Coreset) -> None:
    """Refuse a coreset that a model of this library was fitted on, by the record of its fit."""
    if coreset.exact:
        return
    record: FittedOn | None = getattr(model, "fitted_on_", None)
    own: Coreset | None = getattr(model, "coreset_", None)
    drawn = digest(coreset)
    if (record is not None and record.draws == drawn) or (own is not None and digest(own) == drawn):
        raise NotIndependentError(
            "the model was fitted on this coreset, on which it costs less than on the data; "
            f"{_INSTEAD}"
        )
    if own is not None and (_is_among(coreset, own) or _is_among(own, coreset)):
        raise NotIndependentError(
            "the draws of this coreset are among those that the model was fitted on, or contain "
            f"them, and there it costs less than on the data; {_INSTEAD}"
        )
    if record is not None and _same_seed(record, coreset):
        raise NotIndependentError(
            "the model was fitted on draws of the same rows with the same seed "
            f"({coreset.seed}), which are not independent of these; {_INSTEAD}"
        )


def _same_seed(record: FittedOn, coreset: Coreset) -> bool:
    # Both parts of a split have one seed, and are independent of each other.
    if record.seed is None or "part_of" in coreset.details:
        return False
    own = (record.seed, record.n_samples, record.total_weight, record.data)
    other = (coreset.seed, coreset.n_samples, coreset.total_weight, digest_of_data(coreset))
    return own == other


def _is_among(part: Coreset, whole: Coreset) -> bool:
    """Whether all draws of one coreset are among those of another, and not by chance."""
    if part.n_samples != whole.n_samples or not _MANY <= len(part) <= len(whole):
        return False
    if 2 * len(whole) > whole.n_samples:
        return False
    rows = np.minimum(np.searchsorted(whole.indices, part.indices), len(whole) - 1)
    same = whole.indices[rows] == part.indices
    return bool(same.all() and (part.counts <= whole.counts[rows]).all())


def appear_fitted(coreset: Coreset, distances: CenterDistances) -> bool:
    """Whether centers are the means of their clusters in a coreset, far below sampling noise.

    Where centers are independent of the draws, the mean of a cluster of weight W is expected to
    differ from its center by Σ w²·d/W or more. The sum of the differences over the clusters is
    compared with a quantile of the χ² distribution, whose degrees of freedom are the effective
    number of clusters: fewer than k, as noisy clusters dominate the sum.
    """
    if coreset.exact:
        return False
    rows, centers, labels = distances.rows, distances.centers, distances.labels
    k, geometry = len(centers), centers.geometry
    weights = coreset.host_weights / coreset.host_weights.max()
    inside, sums = rows.cluster_sums(weights, labels, np.ones(k, dtype=bool), centers)
    moved = geometry.means(centers, inside, sums)
    with np.errstate(all="ignore"):
        missed = inside * geometry.metric.between(moved.points, centers.points).sum(axis=1)
        squares = weights * (weights / coreset.counts) * distances.to_nearest
        noise = np.bincount(labels, squares, minlength=k) / inside
    known = np.isfinite(noise) & (noise > 0.0) & np.isfinite(missed)
    if not known.any():
        return False
    noise, missed = noise[known] / noise[known].max(), missed[known] / noise[known].max()
    freedom = noise.sum() ** 2 / (noise**2).sum()
    # The quantile of χ²; scipy.stats takes a second to import.
    quantile = 2.0 * gammaincinv(freedom / 2.0, _FALSE_ALARM)
    limit = min(quantile / freedom, _FAR_BELOW)
    return bool(missed.sum() <= limit * noise.sum())
