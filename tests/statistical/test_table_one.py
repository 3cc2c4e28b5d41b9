"""KDD, k = 100: errors against full scikit-learn are at most those of the paper's Table 1."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from lwcs import CoresetKMeans

SEEDS = 20
PAPER = {1000: 0.185, 2000: 0.121, 5000: 0.068}


@pytest.fixture(scope="module")
def full(kdd) -> float:
    fits = [KMeans(100, n_init=1, random_state=s).fit(kdd).inertia_ for s in range(2)]
    return float(np.mean(fits))


@pytest.mark.parametrize("size", PAPER)
def test_lightweight_is_as_good_as_in_the_paper(kdd, full, size):
    costs = [
        CoresetKMeans(100, coreset_size=size, random_state=seed).fit(kdd).inertia_
        for seed in range(SEEDS)
    ]
    assert np.mean(costs) / full - 1.0 <= PAPER[size]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_all_rows_are_as_good_as_scikit_learn(kdd):
    """Mean cost over ten seeds within 0.5 %, or better, after 20 rounds each, on 20,000 rows."""
    kdd = kdd[:20_000]
    costs = [
        [
            model(100, n_init=1, max_iter=20, random_state=seed, **options).fit(kdd).inertia_
            for seed in range(10)
        ]
        for model, options in ((CoresetKMeans, {"coreset_size": 10**6}), (KMeans, {}))
    ]
    assert np.mean(costs[0]) <= 1.005 * np.mean(costs[1])
