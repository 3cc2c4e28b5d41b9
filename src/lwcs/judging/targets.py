"""What is certified: centers or a mixture, whoever fitted them, and what rows cost by them."""

from __future__ import annotations

import warnings
from abc import ABC
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.coreset import Coreset, explaining_points
from lwcs.divergences import SquaredEuclidean, as_divergence
from lwcs.estimators import CoresetKMeans, CoresetMixture
from lwcs.estimators.inputs import measured_by
from lwcs.estimators.kmeans import check_fitted
from lwcs.foundation.checks import check_centers
from lwcs.solvers.mixture import log_likelihoods, prepared

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from lwcs.divergences import Divergence
    from lwcs.foundation.types import FloatArray, Rows
    from lwcs.geometry import Centers, Geometry, Measured

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
        kernel = kernels.choose(coreset.rows.size * self.k)
        if self.geometry is not None:
            centers = self.geometry.with_kernel(kernel).own_centers(self.points)
        else:
            own = coreset if self.divergence is None else measured_by(coreset, self.divergence)
            centers = own.geometry(kernel).centers(check_centers(self.points, self.n_features))
        with explaining_points(coreset):
            rows = centers.geometry.measured(coreset.rows)
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
