"""A fit finds the obvious clusters, and says what they cost, at any range."""

from __future__ import annotations

import numpy as np
import pytest

import lwcs

from . import cases, oracle
from .obvious import Obvious, obvious, obvious_too

# What is claimed is the cost, whatever the solver says about its iterations.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
EVERY = pytest.mark.parametrize(("name", "dtype"), obvious_too())
EACH = pytest.mark.parametrize("container", cases.CONTAINERS)


def fitted(given: Obvious, container: str, **options: object) -> lwcs.CoresetKMeans:
    model = lwcs.CoresetKMeans(given.k, divergence=given.divergence, **options)
    return model.fit(cases.contained(given.rows, container))


@EACH
@EVERY
def test_fit_finds_the_obvious_clusters(name: str, dtype: str, container: str) -> None:
    given = obvious(name, dtype)
    want = given.cost()
    for seed in range(2):
        model = fitted(given, container, n_init=4, random_state=seed)
        found = given.exact(model.cluster_centers_).cost()
        assert found * 100 <= want * 105, (
            f"seed {seed}: {oracle.show(found)} against {oracle.show(want)}"
        )


@EACH
@EVERY
def test_inertia_is_the_cost_of_its_own_centers(name: str, dtype: str, container: str) -> None:
    given = obvious(name, dtype)
    for seed in range(2):
        model = fitted(given, container, coreset_size=60, random_state=seed)
        exact = given.exact(model.cluster_centers_)
        exact.assert_nearest(model.labels_, oracle.LABELS[dtype])
        oracle.assert_cost(model.inertia_, exact.cost(), oracle.COSTS[dtype])


@EACH
@EVERY
def test_polish_does_not_raise_the_cost(name: str, dtype: str, container: str) -> None:
    """By at most 1e-9, or by what rounding the exact means to the dtype of centers adds."""
    given, bound = obvious(name, dtype), None
    for steps in (0, 1, 2):
        # One method, so that all start from the same solution.
        own = {"coreset_size": 30, "method": "lightweight", "random_state": 0}
        model = fitted(given, container, **own, polish=steps)
        found = given.exact(model.cluster_centers_).cost()
        assert bound is None or found <= bound * oracle.Fraction(1 + 1e-9), (
            f"{steps} steps: {oracle.show(found)}, not {oracle.show(bound)} or less"
        )
        bound = found
        if given.divergence == "sqeuclidean" and steps < 2:
            exactly = given.exact(given.stepped(model.cluster_centers_)).cost()
            bound = max(found, exactly)


@EACH
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_over_twenty_decades_draw_the_centers(dtype: str, container: str) -> None:
    """The center of a cluster is where its heavy rows are."""
    given = obvious("size 1", dtype)
    weights = 10.0 ** np.random.default_rng(0).uniform(-10, 10, len(given.rows))
    centers = oracle.means(given.rows, given.truth, weights).astype(dtype)
    want = given.exact(centers).cost(weights)
    for seed in range(3):
        model = lwcs.CoresetKMeans(given.k, n_init=4, random_state=seed)
        model.fit(cases.contained(given.rows, container), sample_weight=weights)
        exact = given.exact(model.cluster_centers_).cost(weights)
        oracle.assert_cost(model.inertia_, exact, oracle.COSTS[dtype])
        assert exact * 100 <= want * 105
