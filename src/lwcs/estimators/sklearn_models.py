"""A fitted CoresetKMeans as scikit-learn's KMeans."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from lwcs.arrays.device import on_host
from lwcs.divergences import SquaredEuclidean
from lwcs.solvers.families import Gaussian

if TYPE_CHECKING:
    from lwcs.estimators.kmeans import CoresetKMeans
    from lwcs.estimators.mixture import CoresetMixture


def to_sklearn(model: CoresetKMeans) -> KMeans:
    """A fitted KMeans, of NumPy arrays, with the centers of a model of squared distances."""
    if model.scale_ is not None:
        raise ValueError(
            "this model measures distances in standard deviations, which sklearn's KMeans "
            "cannot; fit it on data that was scaled beforehand"
        )
    if type(model.geometry_.divergence) is not SquaredEuclidean:
        raise ValueError(
            f"this model measures by {model.geometry_.divergence!r}, which sklearn's KMeans cannot"
        )
    centers = np.array(model.host_centers(), order="C")
    converted = KMeans(len(centers), init=centers.copy(), n_init=1, max_iter=1)
    # Fitting on its own centers sets every attribute that this version of scikit-learn has.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        converted.fit(centers)
    converted.cluster_centers_ = centers
    converted.inertia_, converted.n_iter_ = model.inertia_, model.n_iter_
    if "labels_" in vars(model):
        converted.labels_ = on_host(model.labels_, "labels_")
    if hasattr(model, "feature_names_in_"):
        converted.feature_names_in_ = model.feature_names_in_
    return converted.set_params(max_iter=model.max_iter)


def to_gaussian_mixture(model: CoresetMixture) -> GaussianMixture:
    """Convert a model, which must be of Gaussians."""
    family, seed = model.mixture_.family, model.random_state
    if type(family) is not Gaussian:
        raise ValueError(
            f"this model has family={family.name!r}, but sklearn.mixture has Gaussian components "
            "only; use this model as it is, or fit one with family='gaussian'"
        )
    weights, (k, d) = model.mixture_.weights, family.means.shape
    found = GaussianMixture(
        k,
        covariance_type=family.covariance_type,
        init_params="random",
        reg_covar=1.0,
        max_iter=1,
        random_state=0,
    )
    # Any fit sets every attribute that this version of scikit-learn has.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found.fit(np.zeros((max(k, 2), d)))
    found.weights_, found.means_ = weights.copy(), family.means.copy()
    found.covariances_ = family.covariances.copy()
    found.precisions_ = family.precisions
    found.precisions_cholesky_ = family.precisions_cholesky.copy()
    found.converged_, found.n_iter_ = model.converged_, model.n_iter_
    found.lower_bound_, found.lower_bounds_ = model.lower_bound_, list(model.lower_bounds_)
    if hasattr(model, "feature_names_in_"):
        found.feature_names_in_ = model.feature_names_in_
    return found.set_params(
        init_params="kmeans",
        reg_covar=family.reg_covar,
        max_iter=model.max_iter,
        tol=model.tol,
        means_init=family.means.copy(),
        weights_init=weights.copy(),
        precisions_init=family.precisions,
        # A generator of NumPy is not among the seeds of scikit-learn.
        random_state=seed if isinstance(seed, Integral) else None,
    )
