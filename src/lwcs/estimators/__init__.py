"""Estimators with the scikit-learn API."""

from lwcs.estimators.kmeans import CoresetKMeans
from lwcs.estimators.mixture import CoresetMixture

__all__ = ["CoresetKMeans", "CoresetMixture"]
