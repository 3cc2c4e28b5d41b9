"""Weight 3 = three copies for the whole estimator, in distribution.

scikit-learn's two sample-weight-equivalence checks ask for equal results of one seed, which
random draws cannot give (its own KMeans is excused, too). In their place: the costs of 300
weighted and of 300 repeated fits have the same distribution, by a two-sample Kolmogorov-Smirnov
test at a false-alarm rate of 1e-4 for each of the four cases.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ks_2samp

from lwcs import CoresetKMeans


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("size", [60, 10_000], ids=["coreset", "all rows"])
def test_weighted_and_repeated_fits_have_the_same_distribution(make, size):
    rng = np.random.default_rng(0)
    X, w = rng.standard_t(3, size=(120, 3)), rng.integers(0, 4, 120)
    repeated = rng.permutation(np.repeat(X, w, axis=0))
    costs = np.empty((2, 300))
    for seed in range(300):
        model = CoresetKMeans(6, coreset_size=size, random_state=seed, n_jobs=1)
        costs[0, seed] = model.fit(make(X), sample_weight=w).inertia_
        model = CoresetKMeans(6, coreset_size=size, random_state=10_000 + seed, n_jobs=1)
        costs[1, seed] = model.fit(make(repeated)).inertia_
    assert ks_2samp(*costs).pvalue > 1e-4
