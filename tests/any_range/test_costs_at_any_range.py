"""A cost is the cost of the nearest centers, at any range, with weights of any size."""

from __future__ import annotations

import numpy as np
import pytest

import lwcs

from . import cases, oracle

EVERY = pytest.mark.parametrize(("name", "dtype"), [*cases.single_too(), *cases.others_too()])
EACH = pytest.mark.parametrize("container", cases.CONTAINERS)
WEIGHTS = 10.0 ** np.random.default_rng(0).uniform(-10, 10, cases.N)


@EACH
@EVERY
def test_score_and_coreset_of_all_rows_give_the_cost(name: str, dtype: str, container: str) -> None:
    given = cases.case(name, dtype)
    rows = cases.contained(given.rows, container)
    model = cases.model_with(rows, given.centers, given.divergence)
    assert len(model.coreset_.weights) == cases.N
    for found in (-model.score(rows), model.coreset_.cost(given.centers)):
        oracle.assert_cost(found, given.exact.cost(), oracle.COSTS[dtype])


@EACH
@EVERY
def test_drawn_coreset_gives_the_cost_of_its_own_rows(
    name: str, dtype: str, container: str
) -> None:
    given = cases.case(name, dtype)
    rows = cases.contained(given.rows, container)
    coreset = lwcs.build(rows, 200, divergence=given.divergence, random_state=0)
    part = oracle.Exact(given.exact.distances[coreset.indices])
    found = coreset.cost(given.centers)
    oracle.assert_cost(found, part.cost(coreset.weights), oracle.COSTS[dtype])


@EACH
@EVERY
def test_weights_over_twenty_decades_are_those_of_the_cost(
    name: str, dtype: str, container: str
) -> None:
    given = cases.case(name, dtype)
    rows = cases.contained(given.rows, container)
    if name == "size 1e+150":
        pytest.skip("times such weights, squares leave the range of float64")
    model = cases.model_with(rows, given.centers, given.divergence, WEIGHTS)
    want, tol = given.exact.cost(WEIGHTS), oracle.COSTS[dtype]
    oracle.assert_cost(-model.score(rows, sample_weight=WEIGHTS), want, tol)
    oracle.assert_cost(model.coreset_.cost(given.centers), want, tol)


@EACH
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("wide", [1.0, 1e10, 3e22, 1e30])
def test_distances_in_standard_deviations(wide: float, dtype: str, container: str) -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(cases.N, 4))
    rows[:, 2] *= wide
    rows = rows.astype(dtype)
    centers = rows[:5].astype(np.float64) * 1.01
    model = cases.model_with(lwcs.scan(cases.contained(rows, container), scale="standard"), centers)
    exact = oracle.squared(rows, centers, model.scale_)
    data = cases.contained(rows, container)
    exact.assert_nearest(model.predict(data), oracle.LABELS[dtype])
    oracle.assert_cost(-model.score(data), exact.cost(), oracle.COSTS[dtype])
    oracle.assert_cost(model.coreset_.cost(centers), exact.cost(), oracle.COSTS[dtype])
    exact.assert_distances(model.transform(data), oracle.DISTANCES[dtype], roots=True)


@EACH
@pytest.mark.parametrize("size", [1e-10, 1.0, 1e10])
@pytest.mark.parametrize("by", ["kl", "logistic"])
def test_smoothed_rows_are_those_that_cost(by: str, size: float, container: str) -> None:
    """Where smoothing is the default, 0.1; rows and zeros alike are moved towards the mean."""
    rng = np.random.default_rng(2)
    rows = rng.poisson(1.5, (cases.N, 4)) * size
    if by == "logistic":
        rows = rng.random((cases.N, 4)) * (rng.random((cases.N, 4)) < 0.5) * min(size, 1.0)
    data = cases.contained(rows, container)
    model = cases.model_with(data, np.ones((1, 4)), lwcs.divergences.as_divergence(by))
    seen = oracle.smoothed(rows, model.coreset_.mean, 0.1)
    centers = np.array(seen[:5] * 0.99, dtype=np.float64)
    model.cluster_centers_ = centers
    exact = oracle.divergence(by, seen, centers)
    exact.assert_nearest(model.predict(data), 1e-9)
    oracle.assert_cost(-model.score(data), exact.cost(), 1e-11)
    oracle.assert_cost(model.coreset_.cost(centers), exact.cost(), 1e-11)
