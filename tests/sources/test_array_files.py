"""Files of arrays: several as one, sparse ones in every format; arrays in lists as partitions."""

from __future__ import annotations

import os
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.sources.files.chunked import ChunkedSource, StackedSource
from tests.sources.parts import points, table
from tests.sources.stores import spied

FORMATS = ["csr", "csc", "coo", "bsr", "dia"]


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", FORMATS)
def test_sparse_arrays_of_every_format(form, kind, tmp_path):
    X = np.where(points("float64", 60) > 0.5, points("float64", 60), 0.0)
    rows = getattr(sp, f"{form}_{kind}")(X)
    sp.save_npz(tmp_path / "x.npz", rows)
    expected = lwcs.build(sp.csr_array(X), 20, random_state=0)
    assert lwcs.build(tmp_path / "x.npz", 20, random_state=0) == expected
    sp.save_npz(tmp_path / "y.npz", rows, compressed=False)
    assert lwcs.build(tmp_path / "y.npz", 20, random_state=0) == expected


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
def test_damaged_indices_are_refused_by_name(form, tmp_path):
    X = sp.random_array((60, 40), density=0.2, format=form, rng=np.random.default_rng(0))
    sp.save_npz(tmp_path / "x.npz", X)
    with np.load(tmp_path / "x.npz") as archive:
        parts = dict(archive)
    name = "coords" if form == "coo" and "coords" in parts else "col"
    name = name if form == "coo" else "indices"
    for value in (2 * 10**9, -5):
        damaged = parts[name].copy()
        damaged.flat[3] = value
        np.savez(tmp_path / "x.npz", **(parts | {name: damaged}))
        with pytest.raises(ValueError, match=r"x\.npz"):
            lwcs.build(tmp_path / "x.npz", 5)


CUTS = [0, 1, 300, 300, 555, 1000]


@pytest.fixture
def shards(tmp_path):
    X = points()
    for i, (a, b) in enumerate(pairwise(CUTS)):
        np.save(tmp_path / f"{i}.npy", X[a:b])
        sp.save_npz(tmp_path / f"{i}.npz", sp.csr_array(X[a:b]))
    return tmp_path


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("method", ["lightweight", "uniform", "sensitivity"])
@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_several_files_give_the_coreset_of_one_array(ending, method, shards):
    X = points() if ending == "npy" else sp.csr_array(points())
    options = {"method": method, "n_clusters": 3, "random_state": 3}
    expected = lwcs.build(X, 60, **options)
    source = lwcs.scan(f"{shards}/*.{ending}")
    assert isinstance(source, StackedSource)
    assert lwcs.build(source, 60, **options) == expected
    assert lwcs.build([str(shards / f"{i}.{ending}") for i in range(5)], 60, **options) == expected
    for jobs in (1, 3):
        assert lwcs.build(source, 60, n_jobs=jobs, **options) == expected
    weights = np.arange(1000.0)
    weighted = lwcs.scan(f"{shards}/*.{ending}", weight=weights)
    assert lwcs.build(weighted, 60, **options) == lwcs.build(
        X, 60, sample_weight=weights, **options
    )


def test_rows_of_several_files_are_fetched_in_any_order(shards):
    source = lwcs.scan(f"{shards}/*.npy")
    rows = np.array([999, 0, 1, 300, 299, 0, 554, 555])
    np.testing.assert_array_equal(source.take(rows), points()[rows])
    np.testing.assert_array_equal(source.read(250, 700), points()[250:700])
    source = lwcs.scan(f"{shards}/*.npz")
    np.testing.assert_array_equal(source.take(rows).toarray(), points()[rows])


def test_files_stay_where_they_are_and_few_are_open(tmp_path):
    X = points("float64", 640)
    for i in range(64):
        np.save(tmp_path / f"{i:02}.npy", X[10 * i : 10 * i + 10])
    source = lwcs.scan(tmp_path)
    assert isinstance(source._part(0), ChunkedSource)
    np.testing.assert_array_equal(source.read(0, 640), X)
    assert source._open.cache_info().currsize < 64


def test_files_that_do_not_go_together_are_named(tmp_path):
    path = str(tmp_path)
    np.save(tmp_path / "a.npy", np.eye(3))
    np.save(tmp_path / "b.npy", np.eye(4))
    with pytest.raises(ValueError, match=r"b\.npy' holds dense rows of 4 columns, but .*a\.npy'"):
        lwcs.scan(tmp_path)
    np.save(tmp_path / "b.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"b\.npy' cannot be read: data has shape \(3,\)"):
        lwcs.scan(tmp_path)
    np.save(tmp_path / "b.npy", np.array(["a"]))
    with pytest.raises(
        ValueError, match=r"b\.npy' cannot be read as an array of numbers: data of dtype"
    ):
        lwcs.scan(tmp_path)
    np.save(tmp_path / "b.npy", np.full((2, 3), np.nan))
    for fails in (lambda: lwcs.build(path, 5, passes=2), lambda: lwcs.CoresetKMeans(2).fit(path)):
        with pytest.raises(ValueError, match=r"row 0, column 0 of .*b\.npy is nan"):
            fails()
    np.save(tmp_path / "b.npy", np.ones((2, 3), dtype=np.float32))
    assert lwcs.scan(tmp_path).read(0, 5).dtype == np.float64
    source = lwcs.scan(tmp_path)
    np.save(tmp_path / "b.npy", np.ones((3, 3)))
    with pytest.raises(ValueError, match=r"changed between two passes.*b\.npy' has another shape"):
        lwcs.build(source, 5)


def containers(X: np.ndarray) -> dict[str, object]:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    return {
        "array": X,
        "float32": X.astype(np.float32),
        "csr": sp.csr_array(X),
        "csc": sp.csc_matrix(X),
        "pandas": pd.DataFrame(X, columns=list("abcd")),
        "polars": pl.DataFrame(X, schema=list("abcd")),
        "arrow": table(X),
        "source": lwcs.scan(X),
    }


@pytest.mark.parametrize("kind", list(containers(np.eye(4))))
def test_a_list_of_arrays_is_a_list_of_partitions(kind):
    one, two = (containers(X)[kind] for X in (points("float64", 50), points("float64", 70)))
    source = lwcs.scan((one, two))
    assert isinstance(source, lwcs.PartitionedSource)
    assert (source.n_rows, source.n_features, source.known_partitions) == (120, 4, 2)
    expected = lwcs.build(lwcs.PartitionedSource([one, two]), 30, random_state=0)
    assert lwcs.build([one, two], 30, random_state=0) == expected
    model = lwcs.CoresetKMeans(3, random_state=0).fit([one, two])
    assert [len(labels) for labels in model.predict([one, two])] == [50, 70]


def test_options_reach_every_partition():
    parts = [table(np.abs(points("float64", rows))) for rows in (20, 30)]
    assert lwcs.scan(parts, columns=["x2", "x0"]).feature_names == ("x2", "x0")
    assert lwcs.scan(parts, weight="x1").weighted
    assert lwcs.scan(parts, scale="standard").scale == "standard"
    with pytest.raises(ValueError, match="weights in an array"):
        lwcs.scan(parts, weight=np.ones(50))
    with pytest.raises(TypeError, match="columns="):
        lwcs.scan([lwcs.scan(part) for part in parts], columns=["x0"])


def test_a_list_of_rows_stays_a_list_of_rows():
    assert lwcs.scan([[1, 2], [3, 4], [5, 6]]).n_rows == 3
    assert lwcs.scan([np.zeros(3), np.ones(3)]).n_rows == 2
    assert lwcs.scan(([1.0, 2.0], (3.0, 4.0))).n_rows == 2
    with pytest.raises(ValueError, match="different lengths"):
        lwcs.scan([np.zeros((2, 3)), np.zeros(3)])
    with pytest.raises(ValueError, match="partition 1 has 2 columns but partition 0 has 3"):
        lwcs.scan([np.zeros((2, 3)), np.zeros((2, 2))])
    with pytest.raises(ValueError, match="must be of one type"):
        lwcs.scan([np.zeros((2, 3)), sp.eye_array(3)])


@pytest.fixture(params=[1, 3])
def on_store(request, tmp_path):
    """Rows in one or several .npy files on a store, its name there, and what it was asked for."""
    X = np.random.default_rng(0).standard_normal((300_000, 4))
    (tmp_path / "p").mkdir()
    for i, part in enumerate(np.array_split(X, request.param)):
        np.save(tmp_path / "p" / f"{i}.npy", part)
    filesystem, handler = spied(tmp_path)
    return X, filesystem, handler, tmp_path / "p" / "0.npy"


def rows_on(filesystem, **options):
    return lwcs.scan("p/*.npy", filesystem=filesystem, **options)


@pytest.mark.parametrize("passes", [1, 2])
def test_an_array_on_a_store_that_is_written_anew_is_noticed(on_store, passes):
    _, filesystem, _, path = on_store
    source = rows_on(filesystem)
    lwcs.build(source, 50, random_state=0, passes=passes)
    os.utime(path, (1_000, 1_000))
    with pytest.raises(ValueError, match=r"p/0\.npy' changed while it was being read"):
        lwcs.build(source, 50, random_state=0, passes=passes)
    with pytest.raises(ValueError, match=r"p/0\.npy' changed while it was being read"):
        source.take(np.arange(3))


def test_an_array_on_a_store_that_changes_during_a_pass_is_noticed(on_store):
    _, filesystem, _, path = on_store
    source = rows_on(filesystem)
    blocks = source.all_blocks()
    next(blocks)
    os.utime(path, (1_000, 1_000))
    with pytest.raises(ValueError, match=r"p/0\.npy' changed while it was being read"):
        list(blocks)


def test_threads_fetch_an_array_once_per_pass(on_store, monkeypatch):
    X, filesystem, handler, _ = on_store
    monkeypatch.setattr("lwcs.sources.remote.prefetch.LARGEST", 200_000)
    source = rows_on(filesystem)
    handler.read.clear()
    for _ in range(2):
        parts = source.gather(lambda blocks, _: [each.points for each in blocks], n_jobs=8)
        np.testing.assert_array_equal(np.vstack([each for part in parts for each in part]), X)
    # Which windows are dropped unread depends on the threads; each fetched what it wanted before.
    assert sum(n for _, _, n in handler.read) < 3.5 * X.nbytes


def test_windows_of_an_array_on_a_store_are_within_the_memory_limit(on_store):
    X, filesystem, handler, _ = on_store
    expected = lwcs.build(X, 50, random_state=0, passes=2)
    limit = 60_000_000
    source = rows_on(filesystem, memory_limit=limit)
    handler.read.clear()
    found = lwcs.build(source, 50, random_state=0, passes=2, n_jobs=8)
    np.testing.assert_array_equal(found.points, expected.points)
    assert max(n for _, _, n in handler.read) <= limit / 8 / 32
    with pytest.raises(ValueError, match=r"memory_limit=1MB is too little.*memory_limit=26MB or"):
        rows_on(filesystem, memory_limit="1MB")


def test_a_memory_limit_limits_the_blocks_of_an_array_on_a_store(on_store):
    _, filesystem, _, _ = on_store
    source, lock, now, most = rows_on(filesystem, memory_limit="26MB"), threading.Lock(), [0], [0]

    def task(blocks, _):
        with lock:
            now[0] += 1
            most[0] = max(now[0], most[0])
        time.sleep(0.01)
        list(blocks)
        with lock:
            now[0] -= 1

    list(source.gather(task, n_jobs=8))
    assert most == [1]
