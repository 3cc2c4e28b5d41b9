"""Coresets as objects: made of arrays by hand, safe from their makers, summed, read as tables."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from scipy import stats

import lwcs

MAKE = pytest.mark.parametrize("make", [np.array, sp.csr_array], ids=["dense", "sparse"])


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).standard_t(4, size=(400, 3))


def constructed(points, weights) -> lwcs.Coreset:
    n = points.shape[0]
    return lwcs.Coreset(
        points=points,
        weights=weights,
        indices=np.arange(n),
        counts=np.ones(n, dtype=np.int64),
        n_samples=n,
        total_weight=float(weights.sum()),
        mean=None,
        total_cost=None,
    )


def values_of(rows) -> np.ndarray:
    return rows.data if sp.issparse(rows) else rows


@MAKE
@pytest.mark.parametrize("way", [constructed, lwcs.Coreset.from_arrays])
def test_a_coreset_and_its_makers_arrays_do_not_touch_each_other(X, make, way):
    points, weights = make(X), np.ones(400)
    for given in (points, points[10:20]):
        w = weights[: given.shape[0]]
        coreset = way(given, w)
        cost = coreset.cost(X[:3])
        values_of(points)[:] *= 1000.0
        weights[:] = 7.0
        assert coreset.cost(X[:3]) == cost
        assert values_of(points).flags.writeable
        assert weights.flags.writeable
        assert not values_of(coreset.points).flags.writeable
        values_of(points)[:] /= 1000.0
        weights[:] = 1.0


def test_what_cannot_change_is_not_copied(X):
    coreset = constructed(X, np.ones(400))
    again = constructed(coreset.points[5:], coreset.weights[5:])
    assert np.shares_memory(again.points, coreset.points)
    behind = X.view()
    behind.flags.writeable = False
    assert not np.shares_memory(constructed(behind, np.ones(400)).points, X)


@MAKE
def test_the_coreset_of_a_fit_does_not_follow_the_data(X, make):
    rows = make(X)
    model = lwcs.CoresetKMeans(4, random_state=0).fit(rows)
    assert model.coreset_.method == "all rows"
    before = model.coreset_.cost(model.cluster_centers_)
    values_of(rows)[:] *= 1000.0
    assert model.coreset_.cost(model.cluster_centers_) == before


def test_copies_and_pickles_are_equal_and_cannot_be_changed(X):
    coreset = lwcs.build(X, 50, random_state=0)
    for again in (copy.copy(coreset), copy.deepcopy(coreset), pickle.loads(pickle.dumps(coreset))):
        assert again == coreset
        assert not again.points.flags.writeable


def test_arrays_get_the_fields_that_are_known(X):
    coreset = lwcs.Coreset.from_arrays(X, np.arange(400))
    assert (len(coreset), coreset.size, coreset.n_samples) == (400, 400, 400)
    assert coreset.total_weight == 400 * 399 / 2
    assert coreset.mean is None
    assert coreset.total_cost is None
    assert coreset.scale is None
    np.testing.assert_array_equal(coreset.indices, np.arange(400))
    frame = lwcs.Coreset.from_arrays(pd.DataFrame(X, columns=["a", "b", "c"]), np.ones(400))
    assert frame.feature_names == ("a", "b", "c")
    assert frame == lwcs.Coreset.from_arrays(X.tolist(), [1] * 400, feature_names=["a", "b", "c"])


def test_a_coreset_taken_apart_is_put_together_again(X):
    scaled = lwcs.scan(X, scale="standard")
    for built in (lwcs.build(X, 60, random_state=0), lwcs.build(scaled, 60, random_state=0)):
        parts = vars(built).copy()
        assert lwcs.Coreset.from_arrays(parts.pop("points"), parts.pop("weights"), **parts) == built


def test_given_weights_are_sampled_by_importance_when_reduced(X):
    """A uniform choice of 20 rows would miss the only one that has weight, 19 times in 20."""
    weights = np.full(400, 1e-6)
    weights[7] = 1.0
    coreset = lwcs.Coreset.from_arrays(X, weights)
    for seed in range(20):
        assert 7 in coreset.reduce(20, random_state=seed).indices


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"points": [[0.0, np.nan]] * 3}, ValueError, "row 0, column 1 of points is nan"),
        ({"points": [0.0, 1.0, 2.0]}, ValueError, "shape"),
        ({"points": np.empty((0, 2)), "weights": []}, ValueError, "at least one row"),
        ({"points": [["a", "b"]] * 3}, TypeError, "dtype"),
        ({"weights": [1.0, 2.0]}, ValueError, r"weights has shape \(2,\) but the data has 3 rows"),
        ({"weights": [1.0, -2.0, 1.0]}, ValueError, r"weights\[1\]=-2"),
        ({"weights": [1.0, np.inf, 1.0]}, ValueError, r"weights\[1\]=inf"),
        ({"weights": [0, 0, 0]}, ValueError, "all weights are zero"),
        ({"indices": [0, 1]}, ValueError, r"indices have shape \(2,\)"),
        ({"indices": [0, 1, -1]}, ValueError, r"indices\[2\]=-1"),
        ({"indices": [0.0, 1.0, 2.0]}, TypeError, "indices have dtype float64"),
        ({"indices": [4, 4, 5]}, ValueError, "must be different"),
        ({"indices": [0, 1, 9], "n_samples": 9}, ValueError, "pass n_samples > 9"),
        ({"indices": np.array([0, 1, 2**63], np.uint64)}, ValueError, "9223372036854775808"),
        ({"n_samples": 2}, ValueError, "n_samples=2"),
        ({"counts": [1, 0, 1]}, ValueError, r"counts\[1\]=0"),
        ({"total_weight": 0.0}, ValueError, "total_weight=0.0 is not allowed"),
        ({"total_weight": np.nan}, ValueError, "total_weight=nan"),
        ({"total_cost": -1.0}, ValueError, "total_cost=-1.0"),
        (
            {"mean": [1.0]},
            ValueError,
            r"mean has shape \(1,\); pass shape \(2,\) for points of 2 columns",
        ),
        ({"mean": [1.0, np.nan]}, ValueError, r"mean\[1\]=nan"),
        ({"scale": [1.0, 0.0]}, ValueError, r"scale\[1\]=0.0 .* numbers > 1e-150"),
        ({"scale": [1.0, 1.0], "divergence": "kl"}, ValueError, "only for squared Euclidean"),
        ({"points": [[1.0, -1.0]] * 3, "divergence": "kl"}, ValueError, "requires x >= 0"),
        ({"divergence": "nonsense"}, ValueError, "nonsense"),
        ({"feature_names": ["a"]}, ValueError, "1 feature_names but 2 columns"),
        ({"feature_names": ["a", "a"]}, ValueError, "'a' occurs more than once"),
        ({"feature_names": "ab"}, TypeError, "list of 2 names"),
        ({"depth": -1}, ValueError, "depth"),
        ({"seed": -1}, ValueError, "seed"),
        ({"method": "all rows", "n_samples": 4}, ValueError, "all rows of the data, each counted"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(given, error, message):
    arrays = {"points": np.arange(6.0).reshape(3, 2), "weights": np.ones(3)} | given
    with pytest.raises(error, match=message):
        lwcs.Coreset.from_arrays(**arrays)


@pytest.mark.parametrize("estimator", [lwcs.CoresetKMeans(2), lwcs.CoresetMixture(2)])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_coreset_is_refused_by_what_clusters_it(estimator, bad, X):
    X[7, 2] = bad
    with pytest.raises(ValueError, match=f"row 7, column 2 is {bad}"):
        estimator.fit(constructed(X, np.ones(400)))
    weights = np.ones(400)
    weights[3] = bad
    with pytest.raises(ValueError, match=rf"weights of the coreset\[3\]={bad}"):
        estimator.fit(constructed(np.ones((400, 2)), weights))


def test_sum_unites_coresets(X):
    parts = [lwcs.build(X[a : a + 100], 30, random_state=a) for a in range(0, 400, 100)]
    assert sum(parts) == parts[0] + parts[1] + parts[2] + parts[3]
    for start in (1, "", None):
        with pytest.raises(TypeError):
            sum(parts, start)


def test_all_rows_and_all_rows_are_all_rows(X):
    halves = [lwcs.CoresetKMeans(2).fit(part).coreset_ for part in (X[:200], X[200:])]
    union, whole = sum(halves), lwcs.CoresetKMeans(4).fit(X).coreset_
    assert (union.depth, union.method) == (0, "all rows")
    np.testing.assert_array_equal(union.points, whole.points)
    assert union.reduce(50, random_state=0).depth == 0
    assert (union + lwcs.build(X, 50, random_state=0)).depth == 1


@MAKE
def test_a_coreset_is_a_table_to_other_libraries(X, make):
    coreset = lwcs.build(make(X), 60, random_state=0)
    expected = coreset.to_arrow()
    assert pa.table(coreset).equals(expected)
    assert pl.DataFrame(coreset)["weight"].to_list() == coreset.weights.tolist()
    duckdb = pytest.importorskip("duckdb")
    total = duckdb.sql("select sum(count) from coreset").fetchall()
    assert total == [(60,)]


def test_models_and_comparisons_are_tables_too(X):
    model = lwcs.CoresetKMeans(3, random_state=0).fit(X)
    mixture = lwcs.CoresetMixture(2, random_state=0).fit(X)
    compared = lwcs.compare(X, 2, sizes=[20], repeats=1, full_repeats=1)
    for result in (model, mixture, compared):
        assert pa.table(result).equals(result.to_arrow())


def test_results_are_never_taken_for_rows(X):
    coreset = lwcs.build(X, 60, random_state=0)
    model = lwcs.CoresetKMeans(3, random_state=0).fit(X)
    stream = lwcs.StreamingCoreset(10)
    for result in (coreset, model):
        name = type(result).__name__
        for take in (
            lwcs.scan,
            lambda data: lwcs.build(data, 10),
            lambda data: lwcs.build(iter([data]), 10),
            lambda data: lwcs.PartitionedSource([data]),
            lambda data: lwcs.Coreset.from_arrays(data, np.ones(len(coreset))),
            model.predict,
            model.score,
        ):
            with pytest.raises(TypeError, match=f"a {name} is not a table of rows; pass"):
                take(result)
    for take in (lwcs.CoresetKMeans(3).fit, stream.update):
        with pytest.raises(TypeError, match="a CoresetKMeans is not a table of rows"):
            take(model)


def all_rows(X, weights=None, **scan) -> lwcs.Coreset:
    source = lwcs.scan(X, weight=weights, **scan)
    coreset = lwcs.CoresetKMeans(2, coreset_size=len(X)).fit(source).coreset_
    assert coreset.method == "all rows"
    return coreset


def test_the_outlier_among_all_rows_survives_a_reduction():
    """Its sampling probability is about a half: 20 draws miss it with probability 2⁻²⁰.

    A uniform choice of 20 of 120 rows misses it with probability 5/6.
    """
    X = np.vstack([np.random.default_rng(0).normal(size=(119, 2)), [[1e4, 1e4]]])
    coreset = all_rows(X)
    for seed in range(50):
        reduced = coreset.reduce(20, random_state=seed)
        assert 119 in reduced.indices
        assert (reduced.depth, reduced.method, reduced.size) == (0, "lightweight", 20)


@pytest.mark.filterwarnings("ignore:.*of all squared distances:lwcs.ColumnWarning")
@pytest.mark.parametrize("scale", [None, "standard"])
def test_all_rows_are_reduced_by_the_law_of_the_paper(scale):
    """χ² of 400 × 39 draws against q = ω/2Ω + ω·d/2Φ; false alarms: about 1 in 10⁴ per case."""
    rng = np.random.default_rng(0)
    X, w = rng.standard_t(3, size=(40, 2)) * [1.0, 50.0], rng.integers(1, 5, 40).astype(float)
    coreset = all_rows(X, w, scale=scale)
    mean = w @ X / w.sum()
    d = (((X - mean) / (1.0 if scale is None else coreset.scale)) ** 2).sum(axis=1)
    q = w / (2 * w.sum()) + w * d / (2 * (w @ d))
    seen, total = np.zeros(40), np.zeros(40)
    for seed in range(400):
        reduced = coreset.reduce(39, random_state=seed)
        seen[reduced.indices] += reduced.counts
        total[reduced.indices] += reduced.weights
        np.testing.assert_allclose(
            reduced.weights, reduced.counts * w[reduced.indices] / (39 * q[reduced.indices])
        )
    assert stats.chisquare(seen, 400 * 39 * q).pvalue > 1e-4
    # Weights are unbiased: E Σw = ω of every row; together within 5 standard deviations.
    deviations = w * np.sqrt((1 - q) / (39 * q) / 400)
    assert (np.abs(total / 400 - w) < 5 * deviations).all()


def test_all_rows_can_be_kept_but_not_multiplied(X):
    coreset = all_rows(X)
    assert coreset.reduce(400, random_state=0) == coreset
    with pytest.raises(ValueError, match="size=401 is larger than the 400 draws"):
        coreset.reduce(401)


def test_a_reduced_direct_coreset_of_all_rows_keeps_the_identity(X):
    coreset = all_rows(X).reduce(100, random_state=0)
    at_mean = coreset.cost(coreset.mean[None, :]) / coreset.total_cost
    assert coreset.weights.sum() / coreset.total_weight + at_mean == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"depth": 10**12}, ValueError, "depth=1000000000000 is too large; pass depth <= 10"),
        ({"n_samples": 2**80}, ValueError, "n_samples=.* is too large"),
        ({"counts": [2**62, 2**62]}, ValueError, "counts sum to .*less than 1e"),
        ({"scale": [1e-300, 1.0]}, ValueError, r"scale\[0\]=1e-300 is not allowed"),
        ({"indices": [3, 3]}, ValueError, "must be different, but 3 occurs more than once"),
        ({"feature_names": 5}, TypeError, "feature_names=5 are not all text; pass a list of 2"),
        ({"details": 3}, TypeError, "details=3 is not a dict"),
        ({"details": {"a": object()}}, TypeError, "cannot be saved"),
        ({"details": {"a": np.nan}}, TypeError, "cannot be saved"),
        ({"details": {"dropped": "x"}}, TypeError, r"details\['dropped'\]='x' is not an integer"),
    ],
)
def test_what_a_file_cannot_hold_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        lwcs.Coreset.from_arrays([[0.0, 1.0], [2.0, 3.0]], [1, 2], **options)


@MAKE
def test_rows_are_sorted_by_their_numbers_and_come_back_from_a_file(make, tmp_path):
    points = make(np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]))
    coreset = lwcs.Coreset.from_arrays(
        points, [1, 2, 3], indices=[5, 1, 3], counts=[1, 2, 1], details={"a": (1, 2), 3: 4}
    )
    assert list(coreset.indices) == [1, 3, 5]
    assert list(coreset.weights) == [2, 3, 1]
    assert list(coreset.counts) == [2, 1, 1]
    assert values_of(coreset.points).ravel()[0] == 2.0
    coreset.save(tmp_path / "c.parquet")
    assert lwcs.load(tmp_path / "c.parquet") == coreset
