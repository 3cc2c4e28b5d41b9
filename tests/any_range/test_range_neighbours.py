"""The same promise beside fits: streams, unions, methods, other coordinates."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import lwcs
from lwcs import divergences

from . import cases, oracle

EACH = pytest.mark.parametrize("container", cases.CONTAINERS)
SENTINELS = pytest.mark.parametrize("value", [1e3, 1e10, 1e15, 9.97e36])


def beside(value: float, rows: int = 1_500) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3)) + 10.0 * rng.integers(0, 2, (rows, 1))
    X[:, 2] = np.where(rng.random(rows) < 0.3, value, 0.0)
    return X, np.array([[a, a, b] for a in (0.0, 10.0) for b in (0.0, value)])


def own_cost(coreset: lwcs.Coreset, centers: np.ndarray) -> Fraction:
    points = coreset.points
    rows = points if isinstance(points, np.ndarray) else points.toarray()
    return oracle.squared(rows, centers).cost(coreset.weights)


@EACH
@SENTINELS
@pytest.mark.parametrize("method", ["lightweight", "uniform", "sensitivity", "refined"])
def test_every_method_gives_the_cost_of_its_rows(method: str, value: float, container: str) -> None:
    X, Q = beside(value)
    data = cases.contained(X, container)
    coreset = lwcs.build(data, 100, method=method, n_clusters=4, random_state=0)
    oracle.assert_cost(coreset.cost(Q), own_cost(coreset, Q), 1e-12)


@EACH
@SENTINELS
def test_stream_gives_the_cost_of_its_rows(value: float, container: str) -> None:
    X, Q = beside(value)
    stream = lwcs.StreamingCoreset(100, random_state=0)
    for start in range(0, len(X), 500):
        stream.update(cases.contained(X[start : start + 500], container))
    oracle.assert_cost(stream.coreset().cost(Q), own_cost(stream.coreset(), Q), 1e-12)


@SENTINELS
def test_union_and_reduction_give_the_cost_of_their_rows(value: float) -> None:
    X, Q = beside(value)
    union = lwcs.build(X[:700], 100, random_state=0) + lwcs.build(X[700:], 100, random_state=1)
    for coreset in (union, union.reduce(80, random_state=0)):
        oracle.assert_cost(coreset.cost(Q), own_cost(coreset, Q), 1e-12)


@EACH
@pytest.mark.parametrize("size", [1e-163, 1e-200])
def test_stream_whose_squares_underflow_is_refused(size: float, container: str) -> None:
    X = size * np.random.default_rng(1).normal(size=(300, 3))

    def drawn() -> lwcs.Coreset:
        stream = lwcs.StreamingCoreset(50, random_state=0)
        stream.update(cases.contained(X, container))
        return stream.coreset()

    with pytest.raises(ValueError, match=r"(?s)underflow.*scale the data up"):
        drawn()


@pytest.mark.parametrize("condition", [1e4, 1e8, 1e10])
def test_mahalanobis_distances_of_a_narrow_precision(condition: float) -> None:
    rng = np.random.default_rng(2)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    M = turn @ np.diag([1.0, condition**0.5, condition]) @ turn.T
    by = divergences.Mahalanobis((M + M.T) / 2)
    X = rng.normal(size=(60, 3))
    model = cases.model_with(X, X[:4] + 0.1, by)
    exact = np.empty((60, 4), dtype=object)
    for i, j in np.ndindex(60, 4):
        t = [Fraction(float(a)) - Fraction(float(c)) for a, c in zip(X[i], X[j] + 0.1, strict=True)]
        parts = (t[a] * Fraction(float(by.precision[a, b])) * t[b] for a, b in np.ndindex(3, 3))
        exact[i, j] = sum(parts, Fraction(0))
    # x·L has an error of 1e-16·√condition in the narrow directions.
    tol = 1e-14 * condition**0.5
    oracle.Exact(exact).assert_nearest(model.predict(X), tol)
    oracle.assert_cost(-model.score(X), oracle.Exact(exact).cost(), tol)


@EACH
@pytest.mark.parametrize("size", [1e-300, 1e300])
@pytest.mark.parametrize("by", ["kl_simplex", "cosine"])
def test_shares_and_directions_do_not_depend_on_the_size_of_rows(
    by: str, size: float, container: str
) -> None:
    X = np.random.default_rng(3).gamma(2.0, size=(200, 4))
    costs = [
        lwcs.CoresetKMeans(3, divergence=by, random_state=0, coreset_size=200)
        .fit(cases.contained(each, container))
        .inertia_
        for each in (X, X * size)
    ]
    assert costs[1] == pytest.approx(costs[0], rel=1e-9)


@EACH
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("decades", [3, 14, 30, 60])
def test_one_center_costs_what_its_differences_cost(
    decades: int, dtype: str, container: str
) -> None:
    """Zeros that sparse rows leave out are not found as a difference of large numbers."""
    rng = np.random.default_rng(4)
    size = 10.0 ** np.linspace(-decades / 2, decades / 2, 4)
    rows = (rng.integers(0, 3, (60, 4)) * size).astype(dtype)
    center = rows[:1].astype(np.float64) * [1.5, 1.0, 1.0, 1.0]
    rows[:, 1:] = rows[0, 1:]
    data = cases.contained(rows, container)
    model = cases.model_with(data, center)
    exact = oracle.squared(rows, center)
    oracle.assert_cost(-model.score(data), exact.cost(), oracle.COSTS[dtype])
    exact.assert_distances(model.transform(data), oracle.DISTANCES[dtype], roots=True)


@EACH
@pytest.mark.parametrize("size", [1e-42, 1e-37, 1e37])
def test_float32_rows_at_the_ends_of_their_range_fit_as_in_float64(
    size: float, container: str
) -> None:
    rng = np.random.default_rng(5)
    X = (size * (rng.normal(size=(200, 3)) + 8.0 * rng.integers(0, 2, (200, 1)))).astype(np.float32)
    model = lwcs.CoresetKMeans(2, random_state=0).fit(cases.contained(X, container))
    wide = lwcs.CoresetKMeans(2, random_state=0).fit(cases.contained(X.astype(float), container))
    exact = oracle.squared(X, model.cluster_centers_)
    oracle.assert_cost(model.inertia_, exact.cost(), 1e-6)
    # Centers are float32: among the smallest numbers, with few digits.
    assert model.inertia_ == pytest.approx(wide.inertia_, rel=1e-3)


@EACH
@pytest.mark.parametrize("middle", [-745.0, -800.0])
def test_exponentials_that_underflow_are_refused(middle: float, container: str) -> None:
    X = middle + np.random.default_rng(6).normal(size=(60, 3))
    model = lwcs.CoresetKMeans(2, divergence="exponential", random_state=0)
    with pytest.raises(ValueError, match="underflow"):
        model.fit(cases.contained(X, container))
