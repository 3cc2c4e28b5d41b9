"""The checks of scikit-learn that no estimator here passes, with the reason."""

from __future__ import annotations

from sklearn.base import BaseEstimator


def expected_failures(estimator: BaseEstimator) -> dict[str, str]:
    # As scikit-learn's own KMeans declares; a test of distributions over seeds is in
    # tests/statistical/test_kmeans_weights.py instead.
    return {
        "check_sample_weight_equivalence_on_dense_data": "random draws depend on the rows' order",
        "check_sample_weight_equivalence_on_sparse_data": "random draws depend on the rows' order",
    }
