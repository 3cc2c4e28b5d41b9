"""StreamingCoreset and partial_fit: batches do not matter, nor does a break; memory stays put."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import lwcs

ROWS = 3_000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    for home in ("sources.base", "coreset.streaming", "coreset.streaming_io"):
        monkeypatch.setattr(f"lwcs.{home}.block_rows", lambda _: 64)


def points(dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(0).standard_t(3, size=(ROWS, 4)).astype(dtype)


def streamed(X, batch: int, *, size: int = 50, w=None, **options) -> lwcs.StreamingCoreset:
    stream = lwcs.StreamingCoreset(size, random_state=3, **options)
    for a in range(0, X.shape[0], batch):
        stream.update(X[a : a + batch], None if w is None else w[a : a + batch])
    return stream


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("method", ["lightweight", "uniform"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_size_of_batches_does_not_matter(make, method, weighted):
    X, w = make(points()), np.random.default_rng(1).random(ROWS) if weighted else None
    expected = streamed(X, ROWS, w=w, method=method).coreset()
    assert expected.n_samples == ROWS
    for batch in (1, 64, 1000):
        assert streamed(X, batch, w=w, method=method).coreset() == expected


def test_asking_for_the_coreset_changes_nothing():
    X = points()
    quiet, curious = lwcs.StreamingCoreset(50, random_state=3), streamed(X[:0], 1)
    for a in range(0, ROWS, 100):
        quiet.update(X[a : a + 100])
        curious.update(X[a : a + 100])
        assert curious.coreset().n_samples == a + 100
    assert quiet.coreset() == curious.coreset()


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("at", [1, 63, 64, 100, 2_990])
def test_saved_after_any_update_and_loaded_it_goes_on(make, dtype, at, tmp_path):
    X, w = make(points(dtype)), np.random.default_rng(1).random(ROWS)
    expected = streamed(X, 10, w=w).coreset()
    stream = streamed(X[:at], 10, w=w[:at])
    stream.save(tmp_path / "s.parquet")
    again = lwcs.load(tmp_path / "s.parquet")
    assert again.coreset() == stream.coreset()
    again.update(X[at:], w[at:])
    assert again.coreset() == expected


def test_arrivals_survive_a_break_too(tmp_path):
    X = points()
    stream = streamed(X, 100)
    for seed in range(5):
        stream.update(lwcs.build(X, 50, random_state=seed))
    stream.save(tmp_path / "s.parquet")
    again = lwcs.load(tmp_path / "s.parquet")
    assert again.coreset() == stream.coreset()
    for each in (stream, again):
        each.update(lwcs.build(X, 50, random_state=9))
        each.update(X)
    assert again.coreset() == stream.coreset()
    assert again.n_samples == 8 * ROWS


def test_a_stream_without_rows_can_be_saved(tmp_path):
    lwcs.StreamingCoreset(50, random_state=3).save(tmp_path / "s.parquet")
    stream = lwcs.load(tmp_path / "s.parquet")
    with pytest.raises(ValueError, match="no rows yet"):
        stream.coreset()
    stream.update(points())
    assert stream.coreset() == streamed(points(), ROWS).coreset()


SCRIPT = """
import sys, numpy as np, lwcs
X = np.random.default_rng(0).standard_t(3, size=(int(sys.argv[2]), 4))
path = sys.argv[1]
try:
    stream = lwcs.load(path)
except FileNotFoundError:
    stream = lwcs.StreamingCoreset(50, random_state=3)
while stream.n_samples < len(X):
    stream.update(X[stream.n_samples : stream.n_samples + 500])
    stream.save(path)
print(stream.coreset().weights.sum().hex())
"""


@pytest.mark.soak
def test_killed_at_any_moment_it_goes_on_from_its_checkpoint(tmp_path):
    kills = 50

    def run(path) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(path), str(20_000 * kills)],
            stdout=subprocess.PIPE,
            text=True,
        )

    expected = run(tmp_path / "whole.parquet").communicate(timeout=120)[0]
    path, rng = tmp_path / "s.parquet", np.random.default_rng(0)
    for _ in range(kills):
        child = run(path)
        seen, deadline = path.stat().st_mtime_ns if path.exists() else 0, time.monotonic() + 60
        while time.monotonic() < deadline and child.poll() is None:
            if path.exists() and path.stat().st_mtime_ns != seen:
                break
            time.sleep(0.002)
        time.sleep(float(rng.uniform(0.0, 0.2)))
        child.kill()
        child.communicate()
        assert child.returncode == -signal.SIGKILL
        assert pq.read_table(path).num_rows > 0
    assert run(path).communicate(timeout=120)[0] == expected


def test_memory_does_not_grow_with_the_rows():
    X = points()

    def kept(stream: lwcs.StreamingCoreset) -> int:
        state = stream.state
        rows = state.by_weight.points.nbytes + state.by_cost.points.nbytes
        return rows + (0 if stream.filling is None else stream.filling.block(0).points.nbytes)

    short, long = streamed(X, 100), streamed(np.vstack([X] * 20), 1000)
    assert kept(long) <= kept(short) + 64 * 4 * 8
    for seed in range(40):
        long.update(lwcs.build(X, 50, random_state=seed))
    assert sum(c.size for c in long.levels.values()) <= 50 * 6


def test_depth_grows_with_the_logarithm_of_the_arrivals():
    stream = lwcs.StreamingCoreset(50, random_state=0)
    for seed in range(16):
        stream.update(lwcs.build(points(), 50, random_state=seed))
    assert sorted(stream.levels) == [4]
    assert stream.coreset().depth == 5
    # Five steps of ε = 0.1: 0.1, 0.215, 0.347, 0.499, 0.674.
    assert stream.coreset().details["error_growth"] == pytest.approx(6.74, abs=0.01)
    assert stream.coreset().n_samples == 16 * ROWS


def test_what_does_not_fit_is_refused_and_changes_nothing():
    X = points()
    stream = streamed(X, 100)
    before = stream.coreset()
    bad = X.copy()
    bad[7, 2] = np.nan
    for batch, message in (
        (X[:, :3], "has 3 columns"),
        (sp.csr_array(X), "sparse"),
        (bad, "row 7, column 2 of this batch is nan"),
        (pd.DataFrame(X, columns=list("abcd")), "has the columns"),
        (lwcs.build(X[:, :3], 10, random_state=0), "this coreset has 3 columns"),
    ):
        with pytest.raises(ValueError, match=message):
            stream.update(batch)
    with pytest.raises(ValueError, match="sample_weight"):
        stream.update(X, np.full(ROWS, -1.0))
    with pytest.raises(TypeError, match="Coreset is not a StreamingCoreset; pass a Coreset to"):
        stream.merge(before)
    with pytest.raises(ValueError, match="did you mean 'uniform'"):
        lwcs.StreamingCoreset(50, method="unifrom")
    assert stream.coreset() == before


def test_a_batch_that_would_spoil_everything_is_refused():
    stream = streamed(points("float32"), 100)
    before = stream.coreset()
    for batch, message in (
        (np.full((2, 4), 1e200), "so large"),
        (np.full((2, 4), np.inf, np.float32), "is inf"),
        (
            lwcs.build(lwcs.scan(points(), scale="standard"), 20, random_state=0),
            "a scale of its own",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            stream.update(batch)
    assert stream.coreset() == before
    double = streamed(points(), 100)
    with pytest.raises(ValueError, match="so large"):
        double.update(np.full((2, 4), 1e200))


def test_small_arrivals_are_kept_as_they_are():
    X = points()[:5]
    stream = lwcs.StreamingCoreset(1000, random_state=0)
    for part in (X[:2], X[2:]):
        stream.update(lwcs.CoresetKMeans(1, coreset_size=10).fit(part).coreset_)
    np.testing.assert_array_equal(stream.coreset().weights, np.ones(5))
    stream.merge(lwcs.StreamingCoreset(10))
    assert stream.n_samples == 5


def test_a_refused_batch_leaves_the_model_as_it_was():
    X = points()
    model = lwcs.CoresetKMeans(3, random_state=0).fit(X)
    centers = model.cluster_centers_
    with pytest.raises(ValueError, match="nan"):
        model.partial_fit(np.full((3, 4), np.nan))
    np.testing.assert_array_equal(model.cluster_centers_, centers)
    fresh = lwcs.CoresetKMeans(3, random_state=0)
    with pytest.raises(ValueError, match="nan"):
        fresh.partial_fit(np.full((3, 2), np.nan))
    assert fresh.partial_fit(X).n_features_in_ == 4


def test_batches_of_other_types_or_names_are_not_mixed():
    wide = lwcs.build((a for a in [np.ones((5, 1), np.int8), np.full((5, 1), 1000)]), 20)
    assert set(wide.points.ravel()) == {1.0, 1000.0}
    frame = pd.DataFrame({"a": np.zeros(5), "b": np.ones(5)})
    turned = lwcs.build(iter([frame, frame[["b", "a"]]]), 20)
    assert {tuple(row) for row in turned.points} == {(0.0, 1.0)}
    with pytest.raises(ValueError, match="there is no column 'b'"):
        lwcs.build(iter([frame, frame[["a"]]]), 20)
    with pytest.raises(ValueError, match="batch 1 holds float64"):
        lwcs.build(iter([np.ones((5, 1), np.float32), np.full((5, 1), 1e300)]), 20)


def test_rows_that_grow_between_two_passes_are_noticed(monkeypatch):
    monkeypatch.setattr("lwcs.sources.base.PARTITION_ROWS", 64)
    passes = []

    class Growing:
        def __iter__(self):
            passes.append(1)
            return (points()[:64] for _ in range(len(passes)))

    with pytest.raises(ValueError, match="changed"):
        lwcs.build(Growing(), 10, random_state=0)


def test_a_query_leaves_its_connection_free():
    import duckdb

    con = duckdb.connect()
    con.sql("create table t as select range as x, range * 2.0 as y from range(1000)")
    source = lwcs.scan(con.sql("select * from t"))
    assert con.sql("select 42").fetchall() == [(42,)]
    assert lwcs.build(source, 20, random_state=0).n_samples == 1000


def test_a_damaged_checkpoint_is_named(tmp_path):
    stream = streamed(points(), 100)
    stream.save(tmp_path / "s.parquet")
    table = pq.read_table(tmp_path / "s.parquet")
    pq.write_table(table.drop_columns(["weight"]), tmp_path / "s.parquet")
    with pytest.raises(ValueError, match=r"s\.parquet' does not agree with its checksum"):
        lwcs.load(tmp_path / "s.parquet")


def test_partial_fit_clusters_what_came(tmp_path):
    X = points("float32")
    model = lwcs.CoresetKMeans(4, coreset_size=300, random_state=0)
    for a in range(0, ROWS, 250):
        model.partial_fit(X[a : a + 250])
    assert model.cluster_centers_.shape == (4, 4)
    assert model.coreset_.n_samples == ROWS
    assert model.predict(X).shape == (ROWS,)
    once = lwcs.CoresetKMeans(4, coreset_size=300, random_state=0).partial_fit(X)
    np.testing.assert_array_equal(once.cluster_centers_, model.cluster_centers_)
    full = lwcs.CoresetKMeans(4, coreset_size=10**6, n_init=3, random_state=0).fit(X)
    assert -model.score(X) < 1.15 * full.inertia_
    model.save(tmp_path / "m.parquet")
    np.testing.assert_array_equal(
        lwcs.load(tmp_path / "m.parquet").cluster_centers_, model.cluster_centers_
    )
    # More rows, another answer; fit starts anew.
    before = model.cluster_centers_
    model.partial_fit(X + 100.0)
    assert not np.array_equal(before, model.cluster_centers_)
    assert model.fit(X).coreset_.n_samples == ROWS
    assert not hasattr(model, "_stream")


def test_partial_fit_says_what_is_wrong():
    X = points()
    model = lwcs.CoresetKMeans(4, random_state=0).partial_fit(X[:3])
    with pytest.raises(ValueError, match="n_clusters=4"):
        model.predict(X)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2])
    with pytest.raises(ValueError, match="not supported by partial_fit"):
        lwcs.CoresetKMeans(4, method="refined").partial_fit(X)


def test_rows_that_come_once_are_read_once():
    X = points()
    source = lwcs.scan(X[a : a + 100] for a in range(0, ROWS, 100))
    model = lwcs.CoresetKMeans(4, coreset_size=100, random_state=0).fit(source)
    assert model.coreset_.n_samples == ROWS
    with pytest.raises(ValueError, match="read already"):
        lwcs.build(source, 10)
    with pytest.raises(ValueError, match="can be read only once"):
        lwcs.build((x for x in [X]), 10, method="refined", n_clusters=3)
    with pytest.raises(ValueError, match="can be read only once"):
        lwcs.build((x for x in [X]), 10, passes=2)
    with pytest.raises(ValueError, match="2 passes are needed with scale='standard'"):
        lwcs.build(lwcs.scan((x for x in [X]), scale="standard"), 10)
    with pytest.raises(ValueError, match="polish=1 needs further passes over the rows"):
        lwcs.CoresetKMeans(4, coreset_size=100, polish=1).fit(x for x in [X])
    with pytest.raises(ValueError, match="batch 1 is dense with 3 columns"):
        lwcs.build((x for x in [X, X[:, :3]]), 10)
    with pytest.raises(ValueError, match="no rows"):
        lwcs.build(iter([]), 10)


def test_iterables_and_queries_are_read_as_often_as_needed():
    import polars as pl

    X = points()

    class Batches:
        def __iter__(self):
            return (X[a : a + 100] for a in range(0, ROWS, 100))

    expected = lwcs.build(X, 60, passes=2, random_state=0)
    assert lwcs.build(Batches(), 60, random_state=0) == expected
    frame = pl.DataFrame(X, schema=list("abcd"))
    lazy = lwcs.build(frame.lazy(), 60, random_state=0)
    assert lazy == lwcs.build(frame, 60, passes=2, random_state=0)
    chosen = lwcs.scan(frame.lazy(), columns=["b", "d"])
    assert chosen.feature_names == ("b", "d")


@pytest.mark.parametrize("kind", ["path", "source"])
def test_rows_that_are_not_in_memory_are_refused_with_the_way(kind):
    data = "rows.csv" if kind == "path" else lwcs.scan(iter([np.ones((3, 2))]))
    way = r"not in memory.*stream.update\(lwcs.build\(data, size\)\)"
    with pytest.raises(TypeError, match=way):
        lwcs.StreamingCoreset(10).update(data)
