"""Fitted models of any kind by one interface: what rows cost, and a fresh fit of the same kind.

`drift` compares a model with a fresh one, and `describe` tells what its clusters are like. Models
of this library measure rows by their own divergence and scale; those of scikit-learn by squared
distances.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from lwcs import kernels
from lwcs.arrays.checks import BadValueError
from lwcs.arrays.device import on_host
from lwcs.arrays.rows import is_sparse, pieces
from lwcs.coreset.coreset import explaining_points
from lwcs.estimators.coreset_kmeans import CoresetKMeans, check_fitted
from lwcs.estimators.coreset_mixture import CoresetMixture
from lwcs.geometry import Geometry
from lwcs.geometry.products import PIECE_VALUES
from lwcs.runtime.parallel import workers
from lwcs.samplers import Lightweight
from lwcs.sizing.fitting import fit_coreset
from lwcs.sizing.levels import SolverParams
from lwcs.sizing.solution import FitRequest
from lwcs.solvers.em import log_joint, prepared

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.coreset.coreset import Coreset
    from lwcs.divergences import Divergence
    from lwcs.runtime.journal import Journal
    from lwcs.solvers.em import Mixture

TARGET = 0.02
"""Sampling error that a fresh fit aims at, the default of the estimators."""
_STARTS = 8


def as_fitted(model: Any) -> FittedCenters | FittedMixture:
    """The common interface of a fitted model, or an error that says what is expected."""
    if isinstance(model, CoresetMixture):
        check_is_fitted(model, "mixture_")
        return FittedMixture(model, model.mixture_)
    if isinstance(model, CoresetKMeans):
        check_fitted(model)
        return FittedCenters(model.host_centers(), model.geometry_)
    if isinstance(model, type) or not hasattr(model, "get_params"):
        raise TypeError(
            f"model is {_named(model)}, not a fitted model; pass a CoresetKMeans, a "
            "CoresetMixture, or a model of scikit-learn with cluster_centers_, such as KMeans"
        )
    centers = getattr(model, "cluster_centers_", None)
    if centers is None:
        check_is_fitted(model)
        raise TypeError(
            f"model is {_named(model)}, which has no cluster_centers_; pass a CoresetKMeans, a "
            "CoresetMixture, or a model of scikit-learn that has them, such as KMeans"
        )
    return FittedCenters(np.asarray(on_host(centers, "cluster_centers_")), Geometry())


@dataclass(frozen=True, slots=True)
class RowCosts:
    """The cost of every row of a coreset, and its label, or the probabilities of components."""

    values: FloatArray
    memberships: FloatArray | IntArray


@dataclass(frozen=True, slots=True)
class FittedCenters:
    """Centers, in the units of the data, and the geometry that measures rows."""

    centers: FloatArray
    geometry: Geometry

    soft = False
    least = 0.0
    """The least cost that a row can have."""
    remark = ""
    """A note on the fit for the user, or an empty text."""

    @property
    def k(self) -> int:
        """Number of clusters."""
        return len(self.centers)

    @property
    def unit(self) -> str:
        """Name of the cost of a row."""
        return self.geometry.distance_name.replace("_", " ")

    @property
    def divergence(self) -> Divergence:
        """The divergence that rows are drawn by."""
        return self.geometry.divergence

    def adapted(self, coreset: Coreset) -> Coreset:
        """A coreset that is measured as these clusters are: by their scale, and their mean."""
        divergence, scale, mean = self.divergence, self.geometry.scale, self.geometry.mean
        mean = None if mean is None else divergence.from_coordinates(mean)
        return replace(coreset, divergence=divergence, scale=scale, mean=mean, total_cost=None)

    def ignored(self, coreset: Coreset) -> str:
        """A note on columns that the model cannot see, or an empty text."""
        own, mean = self.geometry, self.geometry.mean
        blind = np.flatnonzero(~own.varying(coreset.n_features))
        if mean is None or not blind.size:
            return ""
        points, ends = coreset.host_points[:, blind], own.divergence.from_coordinates(mean)[blind]
        if not (points.count_nonzero() if is_sparse(points) else np.any(points != ends)):
            return ""
        return (
            f"{blind.size:,} columns were at the end of their domain in all rows that the model "
            "was fitted on, so that it does not see what they are now"
        )

    def costs(self, coreset: Coreset, n_jobs: int | None) -> RowCosts:
        """The distance of every row from its nearest center, and the label of that center."""
        geometry = self.geometry.with_kernel(kernels.choose())
        centers = geometry.own_centers(self.centers)
        step = max(64, PIECE_VALUES // self.k)
        with explaining_points(coreset):
            rows = geometry.measured(coreset.host_points)
            with workers(n_jobs) as run:
                nearest = run(lambda part: rows[part].nearest(centers), pieces(len(rows), step))
                labels, distances = map(np.concatenate, zip(*nearest, strict=True))
            if not np.isfinite(distances).all():
                rows.refuse(np.flatnonzero(~np.isfinite(distances)))
        return RowCosts(distances, labels)

    def fitted_again(
        self, coreset: Coreset, seed: int, n_jobs: int | None, journal: Journal
    ) -> FittedCenters:
        """Fit as many centers to a coreset, with the defaults of CoresetKMeans."""
        params = SolverParams(self.k, "auto", None, 300, None, seed, n_jobs, journal)
        request = FitRequest(params, Lightweight(), None, TARGET, 0, labels=False, holdout=0.0)
        result = fit_coreset(coreset, kernels.choose(), request)
        return FittedCenters(result.centers, self.geometry)


@dataclass(frozen=True, slots=True)
class FittedMixture:
    """A mixture, and the estimator that has fitted it."""

    model: CoresetMixture
    mixture: Mixture
    remark: str = ""
    """A note on the fit for the user, or an empty text."""

    soft = True
    least = -inf
    unit = "minus log-likelihood"

    @property
    def k(self) -> int:
        """Number of components."""
        return len(self.mixture.weights)

    @property
    def divergence(self) -> Divergence:
        """The divergence that rows are drawn by."""
        return self.mixture.family.divergence

    def adapted(self, coreset: Coreset) -> Coreset:
        """A coreset without its scale, since mixtures have variances of their own."""
        return replace(coreset, scale=None)

    def ignored(self, _: Coreset) -> str:
        """An empty text: a mixture sees all columns."""
        return ""

    def costs(self, coreset: Coreset, _: int | None) -> RowCosts:
        """Minus the log-likelihood of every row, and the probabilities of the components."""
        family, weights = self.mixture.family, self.mixture.weights
        with explaining_points(coreset):
            joint = log_joint(family, weights, prepared(coreset.host_points, family))
            # logsumexp without its copies.
            most = joint.max(axis=1)
            if not np.isfinite(most).all():
                row = int(np.flatnonzero(~np.isfinite(most))[0])
                raise BadValueError.found_in(coreset.host_points[row : row + 1], row, 0)
            joint -= most[:, None]
            np.exp(joint, out=joint)
            total = joint.sum(axis=1)
            joint /= total[:, None]
        return RowCosts(-(most + np.log(total)), joint)

    def fitted_again(
        self, coreset: Coreset, seed: int, n_jobs: int | None, journal: Journal
    ) -> FittedMixture:
        """Fit a mixture of the same family and as many components, from new starts."""
        fresh: CoresetMixture = clone(self.model)
        auto = isinstance(fresh.n_init, str)
        fresh.set_params(
            n_components=self.k, coreset_size="auto", method="lightweight", means_init=None,
            weights_init=None, precisions_init=None, target_error=TARGET, holdout=0.0,
            # A fit tries several starts on draws by default, but only one on all rows.
            n_init=_STARTS if auto and coreset.exact else fresh.n_init,
            warm_start=False, random_state=seed, n_jobs=n_jobs, verbose=0,
        )  # fmt: skip
        with warnings.catch_warnings(), journal.stage("fresh fit"):
            warnings.simplefilter("ignore", ConvergenceWarning)
            fresh.fit(coreset)
        late = (
            f"the fresh fit did not converge in {fresh.max_iter} iterations, so that the regret "
            "may be larger"
        )
        return FittedMixture(self.model, fresh.mixture_, "" if fresh.converged_ else late)


def weighted_rows(coreset: Coreset) -> Coreset:
    """A coreset without its rows of weight 0."""
    rows = np.flatnonzero(coreset.host_weights)
    if len(rows) == len(coreset):
        return coreset
    return replace(
        coreset, points=coreset.like_points(coreset.host_points[rows]),
        weights=coreset.host_weights[rows], indices=coreset.indices[rows],
        counts=coreset.counts[rows],
    )  # fmt: skip


def _named(model: Any) -> str:
    return f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
