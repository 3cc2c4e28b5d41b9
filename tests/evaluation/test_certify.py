"""certify(): the cost of any centers, from any data, but not from draws that they were fitted
on."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

import lwcs
from lwcs.coreset.building import BuildContext
from lwcs.divergences import KL, SquaredEuclidean
from lwcs.evaluation.certification import draws_of
from lwcs.runtime.journal import Journal
from tests.evaluation.passes import passes_of

ROWS, SIZE = 8_000, 1_000


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(ROWS, 3)) + 4.0 * rng.integers(0, 4, (ROWS, 1))


@pytest.fixture(scope="module")
def model(X) -> lwcs.CoresetKMeans:
    return lwcs.CoresetKMeans(4, random_state=0, coreset_size=500).fit(X)


def cost(X: np.ndarray, centers: np.ndarray) -> float:
    return float(((X[:, None, :] - centers) ** 2).sum(axis=2).min(axis=1).sum())


def test_the_estimate_is_that_of_independent_lightweight_draws(X, model):
    """Also with the random_state of the fit, whose draws are others."""
    found = lwcs.certify(X, model, size=SIZE, random_state=0)
    job = BuildContext.of(lwcs.scan(X), SquaredEuclidean())
    drawn = draws_of(job, SIZE, 0, None, Journal())
    assert drawn.method == "lightweight"
    assert found.estimate == pytest.approx(drawn.cost(model.cluster_centers_))
    assert found.n_draws == SIZE
    own = lwcs.build(X, SIZE, random_state=0)
    both = len(np.intersect1d(own.indices, drawn.indices))
    apart = lwcs.build(X, SIZE, random_state=1)
    assert both < 1.3 * len(np.intersect1d(apart.indices, drawn.indices)) + 30
    assert found.kind == "rare"
    assert found.low < cost(X, model.cluster_centers_) < found.high
    assert found.per_row == found.estimate / ROWS


def test_more_draws_make_a_narrower_interval_and_more_confidence_a_wider_one(X, model):
    few, many = (lwcs.certify(X, model, size=m, random_state=0) for m in (500, 5_000))
    sure = lwcs.certify(X, model, 0.999, size=500, random_state=0)
    widths = [each.high - each.low for each in (many, few, sure)]
    assert widths == sorted(widths)
    assert widths[1] > 2.0 * widths[0]


def test_all_rows_are_measured_if_there_are_no_more_than_draws(X, model):
    found = lwcs.certify(X, model)
    assert found.kind == "exact"
    assert found.low == found.estimate == found.high == pytest.approx(model.inertia_)
    weighted = lwcs.certify(X, model, sample_weight=np.full(ROWS, 3.0))
    assert weighted.estimate == pytest.approx(3.0 * found.estimate)
    assert weighted.per_row == pytest.approx(found.per_row)


def containers(X, folder):
    table = pa.table({name: X[:, j] for j, name in enumerate("abc")})
    pq.write_table(table, folder / "rows.parquet")
    pd.DataFrame(X, columns=list("abc")).to_csv(folder / "rows.csv", index=False)
    yield "array", X
    yield "memory limit", X
    yield "csr", sp.csr_array(X)
    yield "pandas", pd.DataFrame(X, columns=list("abc"))
    yield "polars", pl.DataFrame(X, schema=list("abc"))
    yield "arrow", table
    yield "parquet", str(folder / "rows.parquet")
    yield "csv", str(folder / "rows.csv")
    yield "scanned", lwcs.scan(X)
    yield "partitions", [X[:5_000], X[5_000:]]


def test_every_source_has_the_same_price(X, model, tmp_path):
    expected = cost(X, model.cluster_centers_)
    for name, data in containers(X, tmp_path):
        limit = "64MB" if name == "memory limit" else None
        found = lwcs.certify(data, model, size=SIZE, random_state=3, memory_limit=limit)
        assert (found.n_samples, found.n_draws, found.kind) == (ROWS, SIZE, "rare"), name
        assert found.low < expected < found.high, name


def test_rows_that_can_be_read_only_once_are_certified(X, model):
    blocks = (X[i : i + 1_000] for i in range(0, ROWS, 1_000))
    found = lwcs.certify(blocks, model, size=SIZE, random_state=0)
    assert found.kind == "rare"
    assert found.low < cost(X, model.cluster_centers_) < found.high


def test_centers_may_come_from_anywhere(X, model):
    centers = model.cluster_centers_
    own = lwcs.certify(X, model, size=SIZE, random_state=0)
    fitted = KMeans(4, n_init=1, random_state=0).fit(X)
    fitted.cluster_centers_ = centers
    for given in (
        centers,
        centers.tolist(),
        sp.csr_array(centers),
        fitted,
        SimpleNamespace(centroids=centers.astype(np.float64)),
        model.to_sklearn(),
    ):
        found = lwcs.certify(X, given, size=SIZE, random_state=0)
        assert found.estimate == pytest.approx(own.estimate, rel=1e-12)
        assert (found.low, found.high) == pytest.approx((own.low, own.high), rel=1e-9)


def test_columns_of_models_and_of_tables_of_centers_are_found_by_name(X, model):
    table = pd.DataFrame(X, columns=list("abc"))
    other = table[["c", "a", "b"]].assign(name="text")
    expected = lwcs.certify(table, model.cluster_centers_, size=SIZE, random_state=0).estimate
    for given in (
        pd.DataFrame(model.cluster_centers_, columns=list("abc")),
        lwcs.CoresetKMeans(4, random_state=0, coreset_size=500).fit(table),
        KMeans(4, init=model.cluster_centers_, max_iter=1, n_init=1).fit(table),
    ):
        straight = lwcs.certify(table, given, size=SIZE, random_state=0)
        found = lwcs.certify(other, given, size=SIZE, random_state=0)
        assert found.estimate == pytest.approx(straight.estimate, rel=1e-12)
        assert found.estimate == pytest.approx(expected, rel=0.05)
        with pytest.raises(ValueError, match="has the columns"):
            lwcs.certify(lwcs.scan(other, columns=["c", "a", "b"]), given, size=SIZE)


def test_a_model_is_measured_in_its_own_scale_and_divergence(X):
    rows = np.abs(X) * [1.0, 10.0, 100.0] + 1.0
    scaled = lwcs.CoresetKMeans(3, coreset_size=500, random_state=0)
    scaled.fit(lwcs.scan(rows, scale="standard"))
    topics = lwcs.CoresetKMeans(3, coreset_size=500, random_state=0, divergence="kl").fit(rows)
    for own in (scaled, topics):
        found = lwcs.certify(rows, own, size=SIZE, random_state=0)
        assert found.kind == "clt"
        assert found.low < own.inertia_ < found.high
        part = lwcs.certify(rows[:2_000], own)
        assert part.estimate == pytest.approx(-own.score(rows[:2_000]))


def test_centers_in_an_array_are_measured_by_the_divergence_that_is_named(X):
    rows = np.abs(X) + 0.1
    centers = rows[:4]
    found = lwcs.certify(rows, centers, divergence=KL(smoothing=0), size=SIZE, random_state=0)
    own = KL(smoothing=0)
    true = np.min([own(rows, np.broadcast_to(q, rows.shape)) for q in centers], axis=0).sum()
    assert found.kind == "clt"
    assert found.low < true < found.high
    coreset = lwcs.build(rows, SIZE, divergence=KL(smoothing=0), random_state=1)
    assert lwcs.certify(coreset, centers).estimate == pytest.approx(coreset.cost(centers))
    with pytest.raises(ValueError, match=r"pass divergence=coreset\.divergence"):
        lwcs.certify(coreset, centers, divergence="itakura_saito")
    plain = lwcs.build(rows, SIZE, random_state=1)
    assert "drawn by SquaredEuclidean" in lwcs.certify(plain, centers, divergence="kl").reason


@pytest.mark.parametrize("unit", [1e-150, 1e-100, 1e100, 1e150])
def test_prices_at_any_range_of_numbers(X, unit):
    plain = lwcs.certify(X, X[:3], size=SIZE, random_state=0)
    found = lwcs.certify(X * unit, X[:3] * unit, size=SIZE, random_state=0)
    assert found.kind == plain.kind == "clt"
    for name in ("estimate", "low", "high"):
        assert getattr(found, name) == pytest.approx(getattr(plain, name) * unit**2, rel=1e-9)


def test_one_build_and_no_other_pass(X, model):
    """A second pass of the same kind would count, too."""
    built = passes_of(lambda: lwcs.build(X, SIZE, random_state=0))
    assert len(built) == 1
    own = passes_of(lambda: lwcs.certify(X, model, size=SIZE, random_state=0))
    assert own == built


def test_a_coreset_that_the_model_was_fitted_on_is_refused(X, tmp_path):
    coreset = lwcs.build(X, SIZE, random_state=1)
    model = lwcs.CoresetKMeans(4, random_state=0).fit(coreset)
    model.save(tmp_path / "m.parquet")
    coreset.save(tmp_path / "c.parquet")
    again = lwcs.load(tmp_path / "c.parquet")
    for own in (model, lwcs.load(tmp_path / "m.parquet")):
        for given in (coreset, again):
            with pytest.raises(ValueError, match=r"fitted on this coreset.*coreset\.split"):
                lwcs.certify(given, own)


def test_draws_with_the_seed_of_the_fit_are_refused(X, tmp_path):
    model = lwcs.CoresetKMeans(4, coreset_size=500, random_state=5).fit(X)
    model.save(tmp_path / "m.parquet")
    for own in (model, lwcs.load(tmp_path / "m.parquet")):
        with pytest.raises(ValueError, match=r"same seed \(5\)"):
            lwcs.certify(lwcs.build(X, SIZE, random_state=5), own)
        assert lwcs.certify(lwcs.build(X, SIZE, random_state=6), own).kind == "rare"


def test_draws_of_other_data_with_the_seed_of_the_fit_are_certified(X, tmp_path):
    """Another month with as many rows; also if both months have the same mean and variance."""
    for month, other in (
        (X, X[::-1] + 1.0),
        [(each - each.mean(axis=0)) / each.std(axis=0) for each in (X, X**3)],
    ):
        model = lwcs.CoresetKMeans(4, coreset_size=500, random_state=5).fit(month)
        model.save(tmp_path / "m.parquet")
        for own in (model, lwcs.load(tmp_path / "m.parquet")):
            found = lwcs.certify(lwcs.build(other, SIZE, random_state=5), own)
            assert found.low < cost(other, own.cluster_centers_) < found.high


def test_the_same_data_is_known_in_another_container_and_divergence(X):
    rows = np.abs(X) + 0.1
    model = lwcs.CoresetKMeans(4, coreset_size=500, random_state=5, divergence="kl").fit(rows)
    for data in (rows, sp.csr_array(rows), pl.DataFrame(rows)):
        with pytest.raises(ValueError, match=r"same seed \(5\)"):
            lwcs.certify(lwcs.build(data, SIZE, random_state=5), model)


def test_parts_and_wholes_of_the_draws_are_refused_and_the_other_part_is_not(X):
    whole = lwcs.build(X, SIZE, random_state=1)
    first, second = whole.split(SIZE // 2, random_state=1)
    model = lwcs.CoresetKMeans(4, random_state=0).fit(first)
    for overlapping in (whole, first.reduce(100, random_state=9)):
        with pytest.raises(ValueError, match="are among those"):
            lwcs.certify(overlapping, model)
    found = lwcs.certify(second, model)
    assert (found.kind, found.biased) == ("rare", False)
    assert lwcs.certify(first, lwcs.CoresetKMeans(4, random_state=0).fit(second)).kind == "rare"


@pytest.mark.parametrize("k", [1, 2, 4, 40])
def test_centers_that_are_means_of_these_draws_are_biased_low(X, k):
    coreset, other = (lwcs.build(X, SIZE, random_state=seed) for seed in (1, 2))
    ours = lwcs.CoresetKMeans(k, random_state=0).fit(coreset).cluster_centers_
    theirs = KMeans(k, n_init=1, random_state=0).fit(coreset.points, sample_weight=coreset.weights)
    for centers in (ours, theirs):
        found = lwcs.certify(coreset, centers)
        assert (found.biased, found.kind, found.high) == (True, "none", np.inf)
        assert "biased low" in str(found)
        assert not lwcs.certify(other, centers).biased


@pytest.mark.statistical
def test_other_centers_are_not_taken_for_fitted_ones(X):
    """Of 300 certificates none says so; by chance one does with probability 3 %."""
    for seed in range(100):
        coreset = lwcs.build(X, 200, random_state=seed)
        for k in (1, 2, 5):
            centers = lwcs.CoresetKMeans(k, coreset_size=300, random_state=1000 + seed)
            centers.fit(lwcs.build(X, 300, random_state=1000 + seed))
            assert not lwcs.certify(coreset, centers.cluster_centers_).biased


def test_all_rows_are_no_draws_that_a_fit_could_know(X):
    few = X[:500]
    model = lwcs.CoresetKMeans(3, random_state=0).fit(few)
    assert model.coreset_.exact
    found = lwcs.certify(model.coreset_, model)
    assert (found.kind, found.biased) == ("exact", False)
    assert found.estimate == pytest.approx(model.inertia_)


def test_a_coreset_without_a_bound_has_an_estimate_and_no_interval(X, model):
    coreset = lwcs.build(X, SIZE, method="uniform", random_state=9)
    found = lwcs.certify(coreset, model)
    assert (found.kind, found.low, found.high) == ("none", 0.0, np.inf)
    assert found.estimate == pytest.approx(coreset.cost(model.cluster_centers_))
    assert "method='lightweight'" in str(found)


def test_streams_and_unions_are_coresets(X, model):
    stream = lwcs.StreamingCoreset(SIZE, random_state=3)
    stream.update(X)
    assert lwcs.certify(stream, model).kind == "rare"
    union = lwcs.build(X[:5_000], 500, random_state=7) + lwcs.build(X[5_000:], 500, random_state=8)
    found = lwcs.certify(union, model)
    assert found.kind == "rare"
    assert found.low < cost(X, model.cluster_centers_) < found.high


def test_arrays_of_python_numbers_are_taken_as_a_fit_takes_them(X):
    own, centers = X[:200].astype(object), X[:3]
    assert lwcs.certify(own, centers) == lwcs.certify(X[:200], centers)
    found = lwcs.choose_k(own, [2, 3], n_bootstrap=0, random_state=0)
    assert found.rows == lwcs.choose_k(X[:200], [2, 3], n_bootstrap=0, random_state=0).rows
    own[7, 1] = "high"
    with pytest.raises(TypeError, match="dtype object"):
        lwcs.certify(own, centers)
    own[7, 1] = None
    with pytest.raises(ValueError, match="row 7, column 1 is nan"):
        lwcs.certify(own, centers)


@pytest.mark.parametrize("size", [SIZE, None])
def test_dropped_rows_are_not_counted(X, size):
    gaps = np.vstack([X, np.full((1_000, X.shape[1]), np.nan)])
    found = lwcs.certify(
        lwcs.scan(gaps, missing="drop"), X[:3], size=size, random_state=0, n_jobs=1
    )
    assert found.n_samples == found.total_weight == ROWS
    assert f"on all {ROWS:,} rows ({found.per_row:.5g} per row)" in str(found)


def test_mixtures_have_a_log_likelihood(X):
    ours = lwcs.CoresetMixture(4, random_state=0, coreset_size=2_000).fit(X)
    theirs = GaussianMixture(4, random_state=0).fit(pd.DataFrame(X[:2_000], columns=list("abc")))
    table = pd.DataFrame(X, columns=list("abc"))
    for own, data in ((ours, X), (theirs, table), (theirs, table[["b", "c", "a"]])):
        true = ROWS * own.score(table if own is theirs else X)
        found = lwcs.certify(data, own, size=2 * SIZE, random_state=1)
        assert (found.kind, found.quantity) == ("clt", "log-likelihood")
        assert found.low < true < found.high
        exact = lwcs.certify(data, own)
        assert exact.kind == "exact"
        assert exact.estimate == pytest.approx(true)
    with pytest.raises(ValueError, match="fitted on this coreset"):
        lwcs.certify(ours.coreset_, ours)
    by_hand = lwcs.Coreset.from_arrays(X, np.ones(ROWS))
    assert lwcs.certify(by_hand, ours).low == -np.inf


@pytest.mark.parametrize("confidence", [0, 1, 1.5, -0.1, float("nan"), "0.95", None, True])
def test_a_confidence_that_is_no_probability_is_refused(X, model, confidence):
    with pytest.raises(ValueError, match="above 0 and below 1"):
        lwcs.certify(X, model, confidence)


def bad_centers(X):
    nan = X[:2].copy()
    nan[1, 2] = np.nan
    yield X[:3, :2], ValueError, "3 columns but the centers have 2"
    yield X[0], TypeError, r"shape \(3,\)"
    yield nan, ValueError, r"centers\[1, 2\]=nan"
    yield X[:0], ValueError, "centers are empty"
    yield "model.parquet", TypeError, "cluster_centers_"
    yield None, TypeError, "cluster_centers_"
    yield KMeans, TypeError, "KMeans is a class"
    yield KMeans(3), ValueError, "not fitted"
    yield GaussianMixture(3), ValueError, "not fitted"
    yield lwcs.CoresetKMeans(3), ValueError, "not fitted"
    yield lwcs.CoresetMixture(3), ValueError, "not fitted"
    yield X[:2].astype(str), TypeError, "real numbers"


def test_what_has_no_centers_is_refused_with_what_to_pass(X):
    for given, error, words in bad_centers(X):
        with pytest.raises(error, match=words):
            lwcs.certify(X, given)


def test_options_that_do_not_apply_are_refused(X, model):
    coreset = lwcs.build(X, SIZE, random_state=9)
    with pytest.raises(ValueError, match="leave out divergence"):
        lwcs.certify(X, model, divergence="kl")
    with pytest.raises(ValueError, match=r"coreset\.reduce"):
        lwcs.certify(coreset, model, size=100)
    with pytest.raises(ValueError, match="has its own weights"):
        lwcs.certify(coreset, model, sample_weight=np.ones(ROWS))
    with pytest.raises(ValueError, match="pass size >= 1"):
        lwcs.certify(X, model, size=0)
    bad = X.copy()
    bad[17, 1] = np.nan
    with pytest.raises(ValueError, match="row 17, column 1"):
        lwcs.certify(bad, model, size=SIZE)
    with pytest.raises(ValueError, match="distances overflow"):
        lwcs.certify(X[:100], np.full((1, 3), 1e160))
