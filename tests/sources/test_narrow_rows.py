"""Rows of half precision and of bytes: as the same rows in float32, and without a copy of them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.arrays.rows import largest_of
from lwcs.kernels import choose

N, D = 70_000, 6
SCALE = np.random.default_rng(1).random(D).astype(np.float32) + np.float32(0.01)
KINDS = pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8", "uint8"])
IN_ARROW = pytest.mark.parametrize("kind", ["float16", "int8", "uint8"])


def narrow(kind, n=N, d=D):
    """Clusters of numbers that every type holds, with the ends of its range."""
    rng = np.random.default_rng(0)
    means = rng.integers(10, 110, (8, d))
    rows = np.rint(means[rng.integers(0, 8, n)] + rng.normal(0.0, 3.0, (n, d)))
    rows[[7, n - 1]] = {"int8": -128, "uint8": 255}.get(kind, -0.25)
    if kind == "bfloat16":
        return rows.astype(pytest.importorskip("ml_dtypes").bfloat16)
    return rows.astype(kind)


def build(data, **options):
    return lwcs.build(data, 400, random_state=0, **options)


def fit(data):
    return lwcs.CoresetKMeans(8, coreset_size=800, random_state=0).fit(data)


def assert_same(one, other):
    """The same draws; weights to rounding, since sums may be cut into other pieces."""
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_array_equal(one.points.astype(np.float32), other.points)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-12)


def lists(rows, **mask):
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1], **mask)


TABLES = {
    "columns": lambda rows: pa.table({f"c{j}": rows[:, j].copy() for j in range(D)}),
    "lists": lambda rows: pa.table({"v": lists(rows)}),
    "lists of any length": lambda rows: pa.table(
        {"v": lists(rows).cast(pa.list_(pa.from_numpy_dtype(rows.dtype)))}
    ),
    "chunks": lambda rows: pa.concat_tables(
        [pa.table({"v": lists(part)}) for part in (rows[:9], rows[9:30_000], rows[30_000:])]
    ),
}
WAYS = {
    "array": lambda rows, _: rows,
    "columns first": lambda rows, _: np.asfortranarray(rows),
    "parts": lambda rows, _: [rows[:30_000], rows[30_000:]],
    "npy": lambda rows, path: saved(rows, path / "rows.npy"),
    "npz": lambda rows, path: saved(rows, path / "rows.npz"),
    "packed": lambda rows, path: saved(rows, path / "packed.npz"),
    "memory map": lambda rows, path: np.load(saved(rows, path / "m.npy"), mmap_mode="r").view(
        rows.dtype
    ),
}


def saved(rows, path):
    save = {"rows.npz": np.savez, "packed.npz": np.savez_compressed}.get(path.name, np.save)
    save(path, rows)
    return str(path)


@KINDS
@pytest.mark.parametrize("way", WAYS)
def test_builds_are_those_of_the_same_rows_in_float32(kind, way, tmp_path):
    rows = narrow(kind)
    data = WAYS[way](rows, tmp_path)
    wide = rows.astype(np.float32)
    wide = [wide[:30_000], wide[30_000:]] if way == "parts" else wide
    assert_same(build(data), build(wide))


@KINDS
@pytest.mark.parametrize(
    "options",
    [
        {"passes": 2},
        {"method": "uniform"},
        {"method": "sensitivity", "n_clusters": 8},
        {"method": "refined", "n_clusters": 8},
        {"sample_weight": np.random.default_rng(2).random(N)},
        {"divergence": "mahalanobis"},
    ],
    ids=str,
)
def test_all_methods_draw_the_same_rows_as_in_float32(kind, options):
    if options.get("divergence"):
        options = {"divergence": lwcs.divergences.Mahalanobis(np.eye(D) + 0.1)}
    rows = narrow(kind)
    assert_same(build(rows, **options), build(rows.astype(np.float32), **options))


@KINDS
def test_models_are_those_of_the_same_rows_in_float32(kind):
    rows = narrow(kind)
    one, other = (lwcs.CoresetKMeans(8, random_state=0).fit(x) for x in (rows, np.float32(rows)))
    assert one.cluster_centers_.dtype == np.float32
    np.testing.assert_array_equal(one.cluster_centers_, other.cluster_centers_)
    np.testing.assert_array_equal(one.labels_, other.labels_)
    for some in (rows, rows[:10]):
        np.testing.assert_array_equal(one.predict(some), other.predict(np.float32(some)))
        np.testing.assert_array_equal(one.transform(some), other.transform(np.float32(some)))
    assert one.score(rows) == other.score(np.float32(rows))


@KINDS
def test_streams_are_those_of_the_same_rows_in_float32(kind):
    rows = narrow(kind)
    streams = [lwcs.StreamingCoreset(400, random_state=0) for _ in range(2)]
    for stream, data in zip(streams, (rows, rows.astype(np.float32)), strict=True):
        stream.update(data[:40_000])
        stream.update(data[40_000:])
    assert streams[0].coreset().points.dtype == np.float32
    assert_same(*(stream.coreset() for stream in streams))


@pytest.mark.parametrize("values", [[-128, 127], [-128.0, 3.0], [np.nan, 3.0]])
def test_the_largest_value_is_found_at_either_end(values):
    rows = np.array([values], dtype=np.int8 if isinstance(values[0], int) else np.float16)
    np.testing.assert_equal(largest_of(rows), -values[0])


@KINDS
def test_a_missing_value_is_found(kind):
    rows = narrow(kind)
    if rows.dtype.kind in "iu":
        pytest.skip("integers have no NaN")
    rows[777, 3] = np.nan
    for ask in (build, fit, lwcs.StreamingCoreset(400).update):
        with pytest.raises(ValueError, match=r"row 777, column 3( of this batch)? is nan"):
            ask(rows)
    assert build(lwcs.scan(rows, missing="drop")).n_samples == N - 1


def test_bfloat16_is_kept_in_files_as_float32(tmp_path):
    coreset = build(narrow("bfloat16"))
    coreset.save(tmp_path / "c.parquet")
    assert lwcs.load(tmp_path / "c.parquet") == coreset
    assert coreset.points.dtype == np.float32


def test_other_bytes_are_not_taken_for_bfloat16(tmp_path):
    rows = narrow("bfloat16").view("V2")
    for ask in (build, fit):
        with pytest.raises(TypeError, match=r"X\.view\(ml_dtypes\.bfloat16\)"):
            ask(rows)
    with pytest.raises(ValueError, match="cannot be read as an array of numbers"):
        lwcs.scan(saved(rows, tmp_path / "x.npy"))


@IN_ARROW
@pytest.mark.parametrize("table", TABLES)
def test_tables_are_read_in_their_own_type(kind, table, tmp_path):
    rows = narrow(kind)
    data, wide = TABLES[table](rows), TABLES[table](rows.astype(np.float32))
    for name, each in (("narrow", data), ("wide", wide)):
        pq.write_table(each, tmp_path / f"{name}.parquet")
        pf.write_feather(each, tmp_path / f"{name}.feather")
    for one, other in (
        (data, wide),
        (data.to_reader(), wide.to_reader()),
        (tmp_path / "narrow.parquet", tmp_path / "wide.parquet"),
        (tmp_path / "narrow.feather", tmp_path / "wide.feather"),
    ):
        source = lwcs.scan(one)
        assert source.dtype == kind
        assert_same(build(source), build(other))


@IN_ARROW
def test_missing_vectors_are_dropped_in_any_chunk(kind):
    rows, gone = narrow(kind), np.zeros(N, dtype=bool)
    gone[5] = gone[30_000:30_500] = True
    column = pa.chunked_array(
        [
            lists(rows[a:b], mask=pa.array(gone[a:b])).cast(
                pa.list_(pa.from_numpy_dtype(rows.dtype))
            )
            for a, b in ((0, 30_000), (30_000, 30_500), (30_500, 30_500), (30_500, N))
        ]
    )
    chunked, whole = (pa.table({"v": each}) for each in (column, column.combine_chunks()))
    one, other = (build(lwcs.scan(each, missing="drop")) for each in (chunked, whole))
    assert one.n_samples == N - 501
    assert one == other
    asked = np.array([60_000, 3, 31_000, 29_999, 31_000, 0])
    np.testing.assert_array_equal(
        lwcs.scan(chunked, missing="drop").take(asked), rows[asked], strict=True
    )


def test_a_vector_of_another_length_is_named_in_any_chunk():
    data = pa.table({"v": pa.chunked_array([[[1.0, 2.0]] * 3, [[1.0, 2.0], [3.0]]])})
    with pytest.raises(ValueError, match="length 1 in row 4, where 2 is expected"):
        lwcs.scan(data, columns="v")


def peak_of(ask):
    """The most memory at once, of NumPy and of Arrow, above what was there."""
    ask()
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        ask()
        return tracemalloc.get_traced_memory()[1] + pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)


@pytest.mark.skipif(choose() != "native", reason="no native kernels")
@KINDS
@pytest.mark.parametrize("way", ["array", "scaled", "list", "predict"])
def test_at_most_a_twentieth_of_the_rows_is_needed_as_memory(kind, way):
    rows = np.tile(narrow(kind, 5_000, 128), (100, 1))
    model = fit(rows[:5_000])
    if way == "list" and kind == "bfloat16":
        pytest.skip("Arrow has no bfloat16")
    ask = {
        "array": lambda: lwcs.build(rows, 400, n_jobs=1),
        "scaled": lambda: lwcs.build(lwcs.scan(rows, scale=0.1), 400, n_jobs=1),
        "list": lambda: lwcs.build(pa.table({"v": lists(rows)}), 400, n_jobs=1),
        "predict": lambda: model.predict(rows),
    }[way]
    # Labels are the result; there are some blocks at a time, however many rows there are.
    result = {"predict": 4 * len(rows), "scaled": 10 * 2**20}.get(way, 2**20)
    assert peak_of(ask) < 0.05 * rows.nbytes + result


@KINDS
@pytest.mark.parametrize("scale", [0.037, SCALE], ids=["one", "each"])
@pytest.mark.parametrize("way", WAYS)
def test_quantized_rows_are_those_times_their_scale(kind, scale, way, tmp_path):
    rows = narrow(kind)
    wide = rows.astype(np.float32) * np.asarray(scale, dtype=np.float32)
    data = lwcs.scan(WAYS[way](rows, tmp_path), scale=scale)
    wide = [wide[:30_000], wide[30_000:]] if way == "parts" else wide
    assert_same(build(data), build(wide))


@IN_ARROW
def test_quantized_vectors_of_tables_and_files_are_scaled(kind, tmp_path):
    rows, gone = narrow(kind), np.isin(np.arange(N), [5, 30_000])
    column = lists(rows, mask=pa.array(gone))
    wide = lists(rows.astype(np.float32) * SCALE, mask=pa.array(gone))
    tables = [pa.table({"v": each}) for each in (column, wide)]
    paths = [tmp_path / name for name in ("narrow.parquet", "wide.parquet")]
    for table, path in zip(tables, paths, strict=True):
        pq.write_table(table, path)
    for one, other in (tables, paths):
        expected = build(lwcs.scan(other, missing="drop"))
        assert_same(build(lwcs.scan(one, scale=SCALE, missing="drop")), expected)


def test_a_dropped_row_is_one_whatever_the_scale_is():
    """Any value but one might be outside of the domain of a divergence."""
    rows = np.full((1_000, 2), 0.25, dtype=np.float16)
    rows[::2] = 0.125
    rows[5] = np.nan
    for data in (rows, iter([pa.record_batch({"a": rows[:, 0], "b": rows[:, 1]})])):
        if not isinstance(data, np.ndarray):
            batch = next(data)
            data = pa.RecordBatchReader.from_batches(batch.schema, [batch])
        source = lwcs.scan(data, scale=3.0, missing="drop")
        assert build(source, divergence="logistic").n_samples == 999


def test_a_model_of_quantized_rows_is_in_the_units_of_their_scale():
    rows = narrow("int8")
    wide = rows.astype(np.float32) * SCALE
    one, other = (
        lwcs.CoresetKMeans(8, random_state=0).fit(x) for x in (lwcs.scan(rows, scale=SCALE), wide)
    )
    np.testing.assert_array_equal(one.cluster_centers_, other.cluster_centers_)
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_array_equal(one.predict(lwcs.scan(rows, scale=SCALE)), other.labels_)


def test_sparse_rows_are_scaled_and_stay_sparse():
    rows = np.where(narrow("int8") > 60, narrow("int8"), 0).astype(np.int8)
    wide = sp.csr_array(rows.astype(np.float32) * SCALE)
    one, other = build(lwcs.scan(sp.csr_array(rows), scale=SCALE)), build(wide)
    np.testing.assert_array_equal(one.points.toarray(), other.points.toarray())
    np.testing.assert_array_equal(one.weights, other.weights)


def test_weights_belong_to_scaled_rows():
    rows, weights = narrow("int8"), np.arange(N) % 3.0
    one = build(lwcs.scan(rows, scale=0.5, weight=weights))
    assert_same(one, build(rows.astype(np.float32) * np.float32(0.5), sample_weight=weights))


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        ("standart", "did you mean 'standard'"),
        (True, "'True' is not one of 'standard'"),
        (0, "pass numbers > 0"),
        (-1.0, "pass numbers > 0"),
        (np.nan, "not finite"),
        (np.ones(5), r"shape \(5,\); pass shape \(6,\) for data of 6 columns"),
    ],
)
def test_a_bad_scale_is_refused(scale, words):
    with pytest.raises(ValueError, match=words):
        lwcs.scan(narrow("int8"), scale=scale)
