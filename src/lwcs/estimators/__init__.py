"""What people hold: scikit-learn estimators that cluster a coreset of the data."""

from lwcs.estimators.kmeans import CoresetKMeans

__all__ = ["CoresetKMeans"]
