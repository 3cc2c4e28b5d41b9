"""Whether draws know nothing of an answer: if it was fitted on them, it costs less there."""

from __future__ import annotations

import warnings
from abc import ABC
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaincinv

from lwcs import kernels
from lwcs.arrays.checks import check_centers
from lwcs.coreset.coreset import Coreset, explaining_points
from lwcs.divergences import SquaredEuclidean, as_divergence
from lwcs.estimators.coreset_kmeans import CoresetKMeans, check_fitted
from lwcs.estimators.coreset_mixture import CoresetMixture
from lwcs.estimators.validation import measured_by
from lwcs.solvers.em import log_likelihoods, prepared
from lwcs.statistics.record import digest, digest_of_data

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from lwcs.arrays.types import FloatArray, Rows
    from lwcs.coreset.coreset import Coreset
    from lwcs.divergences import Divergence
    from lwcs.geometry import Centers, Geometry, Measured
    from lwcs.statistics.record import FittedOn


# Probability that centers which know nothing of the draws are so close to the means there.
_FALSE_ALARM = 1e-4
# As part of the sampling noise: a solver may have ended before its centers were the means.
_FAR_BELOW = 0.05
# So many rows are not all among those of other draws by chance, if these are less than half of all.
_MANY = 30
_INSTEAD = (
    "pass the data, a coreset that was built with another random_state, or a part of the draws "
    "that was kept apart by coreset.split before the fit"
)


class NotIndependentError(ValueError):
    """Draws know of a fit, so that what they say of its cost is too low."""


def refuse_fitted(model: Any, coreset: Coreset) -> None:
    """Refuse a coreset that a model of ours was fitted on, as far as it remembers."""
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
    """Whether all draws are among others, and that not by chance."""
    if part.n_samples != whole.n_samples or not _MANY <= len(part) <= len(whole):
        return False
    if 2 * len(whole) > whole.n_samples:
        return False
    at = np.minimum(np.searchsorted(whole.indices, part.indices), len(whole) - 1)
    same = whole.indices[at] == part.indices
    return bool(same.all() and (part.counts <= whole.counts[at]).all())


def look_fitted(coreset: Coreset, costs: Costs) -> bool:
    """Whether centers are the means of their clusters in a coreset, far below sampling noise.

    Means of independent draws miss any centers that know nothing of them by Σ w²·d/W in a cluster
    of weight W, or by more. The sum over clusters of what they miss is compared with that of a χ²
    distribution with as many degrees of freedom as there are clusters of comparable noise, which
    is fewer than there are.
    """
    if coreset.exact:
        return False
    rows, centers, labels = costs.rows, costs.centers, costs.labels
    k, geometry = len(centers), centers.geometry
    weights = coreset.host_weights / coreset.host_weights.max()
    inside, sums = rows.cluster_sums(weights, labels, np.ones(k, dtype=bool), centers)
    moved = geometry.means(centers, inside, sums)
    with np.errstate(all="ignore"):
        missed = inside * geometry.metric.between(moved.points, centers.points).sum(axis=1)
        squares = weights * (weights / coreset.counts) * costs.distances
        noise = np.bincount(labels, squares, minlength=k) / inside
    at = np.isfinite(noise) & (noise > 0.0) & np.isfinite(missed)
    if not at.any():
        return False
    noise, missed = noise[at] / noise[at].max(), missed[at] / noise[at].max()
    freedom = noise.sum() ** 2 / (noise**2).sum()
    # The quantile of χ²; scipy.stats takes a second to import.
    quantile = 2.0 * gammaincinv(freedom / 2.0, _FALSE_ALARM)
    limit = min(quantile / freedom, _FAR_BELOW)
    return bool(missed.sum() <= limit * noise.sum())


_ALLOWED = (
    "pass an array of shape (k, n_features), or a fitted model with cluster_centers_, centroids, "
    "or weights_ and score_samples"
)


@dataclass(frozen=True, slots=True)
class Costs:
    """The rows of a coreset around centers."""

    rows: Measured
    centers: Centers
    labels: npt.NDArray[np.int32]
    distances: FloatArray


@dataclass(frozen=True)
class Target(ABC):
    """Centers or a mixture."""

    k: int
    n_features: int
    names: tuple[str, ...] | None
    """Names of the columns, by which they are found in a table."""
    model: Any
    """What was given."""
    divergence: Divergence | None
    """What rows are to be drawn by; None for that of the coreset."""

    @property
    def scaled(self) -> bool:
        """Whether distances are measured in standard deviations."""
        return False


@dataclass(frozen=True)
class CentersTarget(Target):
    """Centers, in the units of the data."""

    points: npt.NDArray[Any]
    geometry: Geometry | None
    """How our own model measures rows; others measure them as they were drawn."""

    @property
    def scaled(self) -> bool:
        """Whether the model was fitted with a scale."""
        return self.geometry is not None and self.geometry.scale is not None

    def costs(self, coreset: Coreset) -> Costs:
        """Measure every row of a coreset against its nearest center."""
        kernel = kernels.choose(coreset.host_points.size * self.k)
        if self.geometry is not None:
            centers = self.geometry.with_kernel(kernel).own_centers(self.points)
        else:
            own = coreset if self.divergence is None else measured_by(coreset, self.divergence)
            centers = own.geometry(kernel).centers(check_centers(self.points, self.n_features))
        with explaining_points(coreset):
            rows = centers.geometry.measured(coreset.host_points)
            return Costs(rows, centers, *rows.nearest(centers))


@dataclass(frozen=True)
class MixtureTarget(Target):
    """A mixture, by the log-likelihood of rows."""

    log_likelihoods: Callable[[Rows], FloatArray]


def as_target(given: Any, divergence: str | Divergence | None) -> Target:
    """Tell by its attributes what is to be certified; no other library is imported."""
    if isinstance(given, type):
        raise TypeError(f"centers={given.__name__} is a class; {_ALLOWED}")
    if isinstance(given, CoresetKMeans):
        _refuse_divergence(given, divergence)
        check_fitted(given)
        return CentersTarget(
            **_of(given, given.cluster_centers_.shape[0], given.n_features_in_),
            divergence=given.geometry_.divergence,
            points=given.host_centers(),
            geometry=given.geometry_,
        )
    if isinstance(given, CoresetMixture) or _is_mixture(given):
        _refuse_divergence(given, divergence)
        return _mixture(given)
    if hasattr(given, "fit") and not _centers_of(given)[0]:
        raise ValueError(f"{type(given).__name__} has no centers, or is not fitted; {_ALLOWED}")
    points = _as_points(given)
    return CentersTarget(
        **_of(given, len(points), points.shape[1]),
        divergence=None if divergence is None else as_divergence(divergence),
        points=points,
        geometry=None,
    )


def _of(model: Any, k: int, n_features: int) -> dict[str, Any]:
    """What every target has; a table of centers and most models know the names of columns."""
    given = getattr(model, "feature_names_in_", getattr(model, "columns", None))
    names = () if given is None or callable(given) else tuple(given)
    named = len(names) == n_features and all(isinstance(name, str) for name in names)
    return {
        "k": k,
        "n_features": int(n_features),
        "names": tuple(map(str, names)) if named else None,
        "model": model,
    }


def _refuse_divergence(model: Any, divergence: object) -> None:
    if divergence is not None:
        raise ValueError(
            f"divergence={divergence!r} is for centers in an array; a {type(model).__name__} has "
            "its own way of measuring rows, leave out divergence"
        )


def _centers_of(model: Any) -> tuple[str, Any]:
    """The centers of a model of another library, and the attribute that has them."""
    for name in ("cluster_centers_", "centroids"):
        if getattr(model, name, None) is not None:
            return name, getattr(model, name)
    return "", model


def _as_points(given: Any) -> npt.NDArray[Any]:
    name, centers = _centers_of(given)
    try:
        shape = np.shape(centers)
    except ValueError:
        shape = ()
    if len(shape) != 2 or isinstance(centers, str | bytes):
        raise TypeError(
            f"centers={type(given).__name__} {name} has shape {shape}".replace("  ", " ")
            + f"; {_ALLOWED}"
        )
    return check_centers(centers, int(shape[1]))


def _is_mixture(given: Any) -> bool:
    return hasattr(given, "score_samples") and hasattr(given, "weights_")


def _mixture(given: Any) -> MixtureTarget:
    if isinstance(given, CoresetMixture):
        if not hasattr(given, "mixture_"):
            raise ValueError(f"this CoresetMixture is not fitted; call fit first, or {_ALLOWED}")
        mixture = given.mixture_

        def values(points: Rows) -> FloatArray:
            return log_likelihoods(
                mixture.family, mixture.weights, prepared(points, mixture.family)
            )
    else:

        def values(points: Rows) -> FloatArray:
            # Columns were found by their names already.
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*valid feature names")
                return np.asarray(given.score_samples(points), dtype=np.float64)

    return MixtureTarget(
        **_of(given, given.weights_.shape[0], given.n_features_in_),
        divergence=SquaredEuclidean(),
        log_likelihoods=values,
    )
