"""A fitted CoresetKMeans as scikit-learn's KMeans."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from lwcs.divergences import SquaredEuclidean
from lwcs.foundation.device import on_host

if TYPE_CHECKING:
    from lwcs.estimators.kmeans import CoresetKMeans


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
