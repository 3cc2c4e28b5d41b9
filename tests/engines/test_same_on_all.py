"""The engine does not matter: the same rows in the same partitions give the same bits."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from benchmarks.hard_clusters import FAMILIES

import lwcs
from lwcs import divergences
from tests.engines.sameness import assert_same, cut
from tests.statistical.paths import data, weights
from tests.statistical.verdicts import assert_follows

N, D = 20_000, 5


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return rng.standard_normal((N, D)) * rng.exponential(size=(N, 1)) + 3.0


# Empty ones, one row, and sizes that differ by four orders of magnitude.
CUTS = [0, 0, 1, 1, 5_000, 5_003, N]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("method", ["lightweight", "uniform"])
def test_coresets_are_identical(engine, X, method, dtype):
    parts = cut(X.astype(dtype), CUTS)
    want = lwcs.build(lwcs.PartitionedSource(parts), 500, method=method, random_state=3)
    assert_same(lwcs.build(engine.arrays(parts), 500, method=method, random_state=3), want)


def test_coresets_of_several_rounds_are_identical(engine, X):
    parts = cut(X, CUTS)
    for method in ("sensitivity", "refined", lwcs.Lightweight(draws="stratified")):
        want = lwcs.build(
            lwcs.PartitionedSource(parts), 300, method=method, n_clusters=3, random_state=3
        )
        warned = pytest.warns(UserWarning, match="makes 5 passes over the rows")
        with warned if method == "sensitivity" else nullcontext():
            got = lwcs.build(engine.arrays(parts), 300, method=method, n_clusters=3, random_state=3)
        assert_same(got, want)


def test_weights_and_scale_are_the_same(engine, X):
    rng = np.random.default_rng(1)
    w = rng.exponential(size=N)
    w[::7] = 0.0
    at = [0, 1, 5_000, 5_003, N]
    parts, given = cut(X * [1, 10, 100, 1, 1], at), cut(w, at)
    local = [lwcs.scan(p, weight=g) for p, g in zip(parts, given, strict=True)]
    want = lwcs.build(lwcs.PartitionedSource(local), 500, random_state=1)
    assert_same(lwcs.build(engine.weighted(parts, given), 500, random_state=1), want)
    want = lwcs.build(lwcs.PartitionedSource(parts, scale="standard"), 500, random_state=1)
    assert_same(
        lwcs.build(lwcs.scan(engine.arrays(parts), scale="standard"), 500, random_state=1), want
    )


def test_a_fit_is_the_same_with_polish_labels_and_cost(engine, X):
    parts = cut(X, CUTS)
    model = lwcs.CoresetKMeans(4, coreset_size=500, polish=2, random_state=0)
    want = lwcs.CoresetKMeans(4, coreset_size=500, polish=2, random_state=0)
    rows = engine.arrays(parts)
    model.fit(rows)
    want.fit(lwcs.PartitionedSource(parts))
    np.testing.assert_array_equal(model.cluster_centers_, want.cluster_centers_)
    assert model.inertia_ == want.inertia_
    assert model.score(rows) == want.score(lwcs.PartitionedSource(parts))
    local = np.concatenate(want.predict(lwcs.PartitionedSource(parts)))
    np.testing.assert_array_equal(engine.labels(model.predict(rows)), local)
    np.testing.assert_array_equal(engine.labels(model.fit_predict(rows)), local)


def test_typical_rows_are_the_same_and_numbered_through_all_partitions(engine, X):
    parts = cut(np.rint(10.0 * X), CUTS)
    model = lwcs.CoresetKMeans(4, coreset_size=500, random_state=0).fit(np.concatenate(parts))
    want = lwcs.exemplars(model, lwcs.PartitionedSource(parts), 3)
    found = lwcs.exemplars(model, engine.arrays(parts), 3)
    np.testing.assert_array_equal(found.row, want.row)
    np.testing.assert_array_equal(found.points, want.points)
    np.testing.assert_array_equal(found.points, np.concatenate(parts)[found.row])
    with pytest.raises(TypeError, match="cannot keep beside its rows"):
        lwcs.exemplars(model, engine.arrays(parts), keep="id")


def test_the_default_is_the_same_also_where_it_draws_again(engine):
    """Levels, judgement and the draw around the centers: small clusters are missed at first."""
    rows = FAMILIES["halving"](45_000, 5, 16, 0)
    parts = cut(rows, [0, 3, 20_000, 20_000, 45_000])
    got, want = (
        lwcs.CoresetKMeans(16, random_state=0).fit(each)
        for each in (engine.arrays(parts), lwcs.PartitionedSource(parts))
    )
    assert want.coreset_.method in ("refined", "all rows")
    assert_same(got.coreset_, want.coreset_)
    np.testing.assert_array_equal(got.cluster_centers_, want.cluster_centers_)
    assert got.inertia_ == want.inertia_
    assert got.sampling_error_ == want.sampling_error_
    assert got.sampling_error_bound_ == want.sampling_error_bound_


@pytest.mark.parametrize(
    "divergence",
    [divergences.KL(), divergences.Mahalanobis(np.diag(np.arange(1.0, D + 1)))],
    ids=["kl", "mahalanobis"],
)
def test_a_fit_by_a_divergence_is_the_same(engine, X, divergence):
    parts = cut(np.floor(np.abs(X)), CUTS)
    options = {"divergence": divergence, "coreset_size": 500, "polish": 1, "random_state": 0}
    for method in ("lightweight", "refined"):
        rows, local = engine.arrays(parts), lwcs.PartitionedSource(parts)
        model = lwcs.CoresetKMeans(4, method=method, **options).fit(rows)
        want = lwcs.CoresetKMeans(4, method=method, **options).fit(local)
        assert_same(model.coreset_, want.coreset_)
        np.testing.assert_array_equal(model.cluster_centers_, want.cluster_centers_)
        assert model.inertia_ == want.inertia_
        np.testing.assert_array_equal(
            engine.labels(model.predict(rows)), np.concatenate(want.predict(local))
        )


def test_polish_adds_up_many_partitions_as_local_rows_do(engine, X):
    parts = cut(X, range(0, N + 1, 250))
    centers = X[:3].copy()
    models = [
        lwcs.CoresetKMeans(3, init=centers, polish=1, random_state=0).fit(rows)
        for rows in (engine.arrays(parts), lwcs.PartitionedSource(parts))
    ]
    np.testing.assert_array_equal(models[0].cluster_centers_, models[1].cluster_centers_)


@pytest.mark.parametrize("weighted", [False, True])
def test_draws_follow_q_and_satisfy_the_identity(engine, weighted):
    """Chi-squared; fails a correct engine with probability 1e-4 (two tests an engine)."""
    X = data()
    w = weights() if weighted else np.ones(len(X))
    at = [0, 1, 2, 80, len(X)]
    if weighted:
        rows = engine.weighted(cut(X, at), cut(w, at))
    else:
        rows = engine.arrays(cut(X, [0, 0, *at[1:]]))
    coreset = lwcs.build(rows, 40_000, random_state=11)
    mean = w @ X / w.sum()
    distances = ((X - mean) ** 2).sum(axis=1)
    q = 0.5 * w / w.sum() + 0.5 * w * distances / (w @ distances)
    counts = np.zeros(len(X), dtype=np.int64)
    counts[coreset.indices] = coreset.counts
    assert_follows(counts, q)
    total = coreset.weights.sum() / w.sum() + coreset.cost(mean[None]) / coreset.total_cost
    assert total == pytest.approx(2.0, abs=1e-12)


def test_a_thousand_partitions(engine, request):
    ids = np.arange(20_000)
    rows = np.column_stack([ids, ids * 7919 % 1009, ids % 7]).astype(float)
    parts = cut(rows, range(0, N + 1, 20))
    assert len(parts) == 1_000
    name = request.node.callspec.params["engine"]
    if name == "spark":
        # Made by Spark itself: Python would be sent all thousand of them a thousand times.
        made = ("cast(id as double) x", "cast(id * 7919 % 1009 as double) y", "id % 7.0D z")
        data = engine.session.range(0, N, 1, 1_000).selectExpr(*made)
    elif name == "dask":
        import dask.array as da

        data = da.from_array(rows, chunks=(20, 3))
    else:
        data = engine.arrays(parts)
    want = lwcs.build(lwcs.PartitionedSource(parts), 500, random_state=3)
    assert_same(lwcs.build(data, 500, random_state=3), want)
