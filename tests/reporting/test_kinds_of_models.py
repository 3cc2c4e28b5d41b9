"""Reports on all kinds of models and data open in a browser, and none is larger than 6 MB."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans

import lwcs
from tests.reporting.browser import opened

MOST_BYTES = 6_000_000


def blobs(k: int, d: int, n: int = 600, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 8, (k, d))[rng.integers(0, k, n)] + rng.normal(0, 1, (n, d))


def counts(n: int = 400, d: int = 300) -> sp.csr_array:
    rng = np.random.default_rng(0)
    rates = rng.gamma(0.1, 1.0, (3, d))[rng.integers(0, 3, n)]
    dense = rng.poisson(rates)
    dense[:, 0] += 1
    return sp.csr_array(dense.astype(np.float64))


def fitted(k: int, d: int) -> tuple[object, None, int]:
    return lwcs.CoresetKMeans(k, random_state=0).fit(blobs(max(k, 2), d)), None, k


def kl_of_sparse_rows() -> tuple[object, None, int]:
    return lwcs.CoresetKMeans(3, divergence="kl", random_state=0).fit(counts()), None, 3


def mixture() -> tuple[object, None, int]:
    return lwcs.CoresetMixture(2, random_state=0).fit(blobs(2, 3)), None, 2


def largest() -> tuple[object, lwcs.Coreset, int]:
    """More points than a map has room for, 500 clusters, all of what a point can carry."""
    rng = np.random.default_rng(0)
    X = blobs(500, 6, 120_000).astype(np.float32)
    coreset = lwcs.Coreset.from_arrays(
        X, rng.gamma(2.0, 50.0, len(X)), indices=10_000 * np.arange(len(X))
    )
    return KMeans(500, init=X[:500], n_init=1, max_iter=1).fit(X[:500]), coreset, 500


KINDS = {
    "one column": lambda: fitted(2, 1),
    "two columns": lambda: fitted(3, 2),
    "three columns, one cluster": lambda: fitted(1, 3),
    "784 columns": lambda: fitted(3, 784),
    "kl of sparse rows": kl_of_sparse_rows,
    "a mixture": mixture,
    "500 clusters, 120,000 points": largest,
}
WORDS = {
    "two columns": "The mean silhouette is",
    "three columns, one cluster": "The only cluster has all rows",
    "784 columns": "the 30 columns of 784",
    "kl of sparse rows": "Kullback–Leibler divergences (kl)",
    "a mixture": "The mean log-likelihood is",
    "500 clusters, 120,000 points": "Shown are 100,000 of 120,000 points",
}


@pytest.mark.parametrize("kind", KINDS)
def test_opens_in_a_browser(browser, folder, kind):
    model, coreset, k = KINDS[kind]()
    path = folder / f"{kind}.html"
    lwcs.report(model, path, coreset)
    assert path.stat().st_size <= MOST_BYTES
    with opened(browser, path) as found:
        page = found.page
        assert found.problems == []
        assert found.requests == []
        assert page.locator("#table tbody tr").count() == k
        points = len(model.coreset_) if coreset is None else 100_000
        assert found.shown_points() == points
        assert page.locator(".figure canvas").count() >= 8
        page.select_option("#alone", str(k - 1))
        assert 0 < found.shown_points() < points or k == 1
        assert WORDS.get(kind, "") in page.locator("main").inner_text()
        assert found.problems == []


def test_many_clusters_are_shown_at_first_in_part(browser, folder):
    model, coreset, _ = fitted(60, 2)
    path = folder / "sixty.html"
    lwcs.report(model, path, coreset)
    with opened(browser, path) as found:
        rows = found.page.locator("#table tbody tr:visible")
        assert rows.count() == 50
        found.page.locator("#table thead button", has_text="Cluster").click()
        assert rows.first.get_attribute("data-cluster") == "0"
        found.page.locator("#table thead button", has_text="Cluster").click()
        assert rows.first.get_attribute("data-cluster") == "59"
        assert rows.count() == 50
        found.page.click("#more")
        assert rows.count() == 60
        assert found.page.locator("#more:visible").count() == 0
