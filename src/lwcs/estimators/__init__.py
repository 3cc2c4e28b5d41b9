"""What people hold: estimators in scikit-learn's grammar."""

from lwcs.estimators.kmeans import CoresetKMeans
from lwcs.estimators.mixture import CoresetMixture

__all__ = ["CoresetKMeans", "CoresetMixture"]
