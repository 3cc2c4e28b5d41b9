"""A model that others are compared with: what rows cost by it, and a fresh one like it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
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
"""Sampling error that a fresh fit aims at, as the estimators do."""
_STARTS = 8


@dataclass(frozen=True, slots=True)
class Costs:
    """What every row of a coreset costs, and its clusters: labels, or probabilities of each."""

    values: FloatArray
    memberships: FloatArray | IntArray


@dataclass(frozen=True, slots=True)
class Clusters:
    """Centers, in the units of the data, and how they measure rows."""

    centers: FloatArray
    geometry: Geometry

    soft = False
    remark = ""

    @property
    def k(self) -> int:
        """Number of clusters."""
        return len(self.centers)

    @property
    def unit(self) -> str:
        """What the cost of a row is."""
        return self.geometry.distance_name.replace("_", " ")

    @property
    def divergence(self) -> Divergence:
        """What rows are drawn by."""
        return self.geometry.divergence

    def adapted(self, coreset: Coreset) -> Coreset:
        """A coreset that is measured as these clusters are: by their scale, and their mean."""
        own, mean = self.geometry, self.geometry.mean
        return replace(
            coreset,
            divergence=own.divergence,
            scale=own.scale,
            mean=None if mean is None else own.divergence.from_coordinates(mean),
            total_cost=None,
        )

    def ignored(self, coreset: Coreset) -> str:
        """What is to be said of columns that the model cannot see."""
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

    def costs(self, coreset: Coreset, n_jobs: int | None) -> Costs:
        """The distance of every row from its nearest center, and the label of that."""
        geometry = self.geometry.with_kernel(kernels.choose(coreset.host_points.size))
        centers = geometry.own_centers(self.centers)
        step = max(64, PIECE_VALUES // self.k)
        with explaining_points(coreset):
            rows = geometry.measured(coreset.host_points)
            with workers(n_jobs) as run:
                parts = pieces(len(rows), step)
                found = list(run(lambda part: rows[part].nearest(centers), parts))
            labels, distances = (np.concatenate(each) for each in zip(*found, strict=True))
            if not np.isfinite(distances).all():
                rows.refuse(np.flatnonzero(~np.isfinite(distances)))
        return Costs(distances, labels)

    def fitted_again(
        self, coreset: Coreset, seed: int, n_jobs: int | None, journal: Journal
    ) -> Clusters:
        """As many clusters of a coreset, as CoresetKMeans finds them by default."""
        how = SolverParams(self.k, "auto", None, 300, None, seed, n_jobs, journal)
        wish = FitRequest(how, Lightweight(), None, TARGET, polish=0, labels=False, holdout=0.0)
        found = fit_coreset(coreset, kernels.choose(coreset.host_points.size), wish)
        return Clusters(found.centers, self.geometry)


@dataclass(frozen=True, slots=True)
class Components:
    """A mixture, and the estimator that it is of."""

    model: CoresetMixture
    mixture: Mixture
    remark: str = ""
    """What is to be said of its fit."""

    soft = True
    unit = "minus log-likelihood"

    @property
    def k(self) -> int:
        """Number of components."""
        return len(self.mixture.weights)

    @property
    def divergence(self) -> Divergence:
        """What rows are drawn by."""
        return self.mixture.family.divergence

    def adapted(self, coreset: Coreset) -> Coreset:
        """The same coreset, without a scale: mixtures have variances of their own."""
        return replace(coreset, scale=None)

    def ignored(self, _: Coreset) -> str:
        """Nothing: a mixture sees all columns."""
        return ""

    def costs(self, coreset: Coreset, _: int | None) -> Costs:
        """Minus the log-likelihood of every row, and the probabilities of the components."""
        family, weights = self.mixture.family, self.mixture.weights
        with explaining_points(coreset):
            joint = log_joint(family, weights, prepared(coreset.host_points, family))
            # As logsumexp, and without its copies.
            most = joint.max(axis=1)
            if not np.isfinite(most).all():
                at = int(np.flatnonzero(~np.isfinite(most))[0])
                raise BadValueError.found_in(coreset.host_points[at : at + 1], at, 0)
            joint -= most[:, None]
            np.exp(joint, out=joint)
            total = joint.sum(axis=1)
            joint /= total[:, None]
        return Costs(-(most + np.log(total)), joint)

    def fitted_again(
        self, coreset: Coreset, seed: int, n_jobs: int | None, journal: Journal
    ) -> Components:
        """A mixture of the same family and as many components, from new starts."""
        fresh: CoresetMixture = clone(self.model)
        auto = isinstance(fresh.n_init, str)
        fresh.set_params(
            n_components=self.k, coreset_size="auto", method="lightweight", means_init=None,
            weights_init=None, precisions_init=None, target_error=TARGET, holdout=0.0,
            # Draws are tried from several starts by themselves, all rows are not.
            n_init=_STARTS if auto and coreset.exact else fresh.n_init,
            warm_start=False, random_state=seed, n_jobs=n_jobs, verbose=0,
        )  # fmt: skip
        with warnings.catch_warnings(), journal.stage("fresh fit"):
            warnings.simplefilter("ignore", ConvergenceWarning)
            fresh.fit(coreset)
        remark = ""
        if not fresh.converged_:
            remark = (
                f"the fresh fit did not converge in {fresh.max_iter} iterations, so that "
                "the regret may be larger"
            )
        return Components(self.model, fresh.mixture_, remark)


def judged(model: Any) -> Clusters | Components:
    """A fitted model as what drift needs of it, or an error that says what is expected."""
    if isinstance(model, CoresetMixture):
        check_is_fitted(model, "mixture_")
        return Components(model, model.mixture_)
    if isinstance(model, CoresetKMeans):
        check_fitted(model)
        return Clusters(model.host_centers(), model.geometry_)
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
    return Clusters(np.asarray(on_host(centers, "cluster_centers_")), Geometry())


def _named(model: Any) -> str:
    return f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
