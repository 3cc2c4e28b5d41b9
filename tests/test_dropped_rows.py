"""Rows dropped for a missing value are not counted as rows, but keep their numbers."""

from __future__ import annotations

import copy
import io
import json
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import lwcs
from lwcs.storage import persistence
from tests.cli.running import run

N, GONE = 1_200, (3, 700, 1_199)


def rows(seed: int = 0, gone=GONE, n: int = N) -> np.ndarray:
    X = np.random.default_rng(seed).gamma(2.0, size=(n, 3))
    X[list(gone), 1] = np.nan
    return X


def in_memory(X, _):
    return X


def in_csr(X, _):
    return sparse.csr_array(X)


def in_parquet(X, folder):
    columns = {name: pa.array(X[:, j], from_pandas=True) for j, name in enumerate("abc")}
    pq.write_table(pa.table(columns), folder / "x.parquet", row_group_size=500)
    return str(folder / "x.parquet")


def in_csv(X, folder):
    lines = [",".join("" if np.isnan(v) else repr(float(v)) for v in row) for row in X]
    (folder / "x.csv").write_text("\n".join(["a,b,c", *lines]) + "\n")
    return str(folder / "x.csv")


def in_table(X, _):
    return pa.table({name: pa.array(X[:, j], from_pandas=True) for j, name in enumerate("abc")})


def in_partitions(X, _):
    return lwcs.PartitionedSource([X_of(X[:500]), X_of(X[500:])])


def X_of(X):
    return lwcs.scan(X, missing="drop")


EVERYWHERE = [in_memory, in_csr, in_parquet, in_csv, in_table, in_partitions]


def scanned(X, place, folder):
    data = place(X, folder)
    return data if isinstance(data, lwcs.Source) else lwcs.scan(data, missing="drop")


def as_plain(points) -> np.ndarray:
    return points.toarray() if sparse.issparse(points) else np.asarray(points)


def has_its_rows(coreset: lwcs.Coreset, X: np.ndarray) -> bool:
    """Whether the indices of a coreset are the numbers of its points in X."""
    return np.array_equal(as_plain(coreset.points), X[coreset.indices])


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("method", ["lightweight", "uniform", "sensitivity", "refined"])
def test_n_samples_counts_rows_that_were_used(place, method, tmp_path):
    X = rows()
    coreset = lwcs.build(
        scanned(X, place, tmp_path), 100, method=method, n_clusters=3, random_state=0
    )
    assert (coreset.n_samples, coreset.details["dropped"]) == (N - 3, 3)
    assert coreset.total_weight == N - 3
    assert repr(coreset).endswith("of 1,197 rows)")
    assert "1,197 rows × 3 columns" in coreset._repr_html_()
    assert has_its_rows(coreset, X)


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("size", ["auto", 150])
def test_models_count_rows_that_were_used(place, size, tmp_path):
    X = rows()
    source = scanned(X, place, tmp_path)
    model = lwcs.CoresetKMeans(3, coreset_size=size, random_state=0).fit(source)
    assert (model.coreset_.n_samples, model.fitted_on_.n_samples) == (N - 3, N - 3)
    assert has_its_rows(model.coreset_, X)
    labels = np.hstack(model.predict(source))
    assert np.flatnonzero(labels == -1).tolist() == list(GONE)
    model.save(tmp_path / "m.parquet")
    assert lwcs.load(tmp_path / "m.parquet").fitted_on_.n_samples == N - 3
    assert "1,197 × 3 columns" in model._repr_html_()


def test_draws_around_centers_count_rows_that_were_used():
    X = rows(n=60_000)
    model = lwcs.CoresetKMeans(20, method="refined", random_state=0).fit(X_of(X))
    assert model.coreset_.n_samples == model.fitted_on_.n_samples == 59_997
    assert has_its_rows(model.coreset_, X)


@pytest.mark.parametrize("place", EVERYWHERE)
def test_union_after_dropped_rows_keeps_row_numbers(place, tmp_path):
    parts = [rows(0), rows(1, gone=()), rows(2, gone=(0, 5)), rows(3, gone=(9,))]
    X = np.vstack(parts)
    coresets = []
    for i, part in enumerate(parts):
        (tmp_path / str(i)).mkdir()
        source = scanned(part, place, tmp_path / str(i))
        coresets.append(lwcs.build(source, 80, random_state=i))
    a, b, c, d = coresets
    for whole in (a + b + c + d, a + (b + (c + d)), (a + b) + (c + d), sum(coresets)):
        assert (whole.n_samples, whole.details["dropped"]) == (4 * N - 6, 6)
        assert has_its_rows(whole, X)
        assert has_its_rows(whole.reduce(50, random_state=0), X)
    # A reduction of a union is united, too; and all of them after they were saved.
    whole = (a + b).reduce(60, random_state=0)
    whole.save(tmp_path / "ab.parquet")
    assert lwcs.load(tmp_path / "ab.parquet") == whole
    for last in (c, copy.deepcopy(c), pickle.loads(pickle.dumps(c)), saved(c)):
        again = lwcs.load(tmp_path / "ab.parquet") + last
        assert (again.n_samples, again.details["dropped"]) == (3 * N - 5, 5)
        assert has_its_rows(saved(again), X)
    assert "dropped" not in (b + b).details


def saved(coreset: lwcs.Coreset) -> lwcs.Coreset:
    """The coreset, written and read."""
    file = io.BytesIO()
    pq.write_table(coreset.to_arrow(), file)
    read = lwcs.Coreset.from_arrow(pq.read_table(file))
    assert read == coreset
    return read


def test_files_hold_the_number_of_rows_that_were_read():
    table = lwcs.build(X_of(rows()), 50, random_state=0).to_arrow()
    metadata = json.loads(table.schema.metadata[b"lwcs"])
    assert (metadata["n_samples"], metadata["details"]["dropped"]) == (N, 3)


def test_splits_remember_the_dropped_rows():
    X = rows()
    one, other = lwcs.build(X_of(X), 100, random_state=0).split(40, random_state=0)
    assert one.n_samples == other.n_samples == N - 3
    assert has_its_rows(other + one, np.vstack([X, X]))


def test_all_rows_can_be_made_of_arrays_again():
    X = rows()
    known = lwcs.CoresetKMeans(2, random_state=0).fit(X_of(X)).coreset_
    assert known.exact
    again = lwcs.Coreset.from_arrays(
        known.points, known.weights, indices=known.indices, counts=known.counts,
        n_samples=known.n_samples, mean=known.mean, total_cost=known.total_cost,
        method=known.method, depth=known.depth, details=known.details,
    )  # fmt: skip
    assert again == known


def test_arrays_with_dropped_rows_are_checked():
    points, dropped = [[0.0], [1.0], [2.0]], {"dropped": 4}
    make = lwcs.Coreset.from_arrays
    assert make(points, [1, 1, 1], details=dropped).n_samples == 3
    assert make(points, [1, 1, 1], indices=[0, 5, 9], details=dropped).n_samples == 6
    assert make(points, [1, 1, 1], indices=[0, 5, 9], n_samples=6, details=dropped).n_samples == 6
    with pytest.raises(ValueError, match=r"go up to 9, and .*=4, but n_samples=5; .* > 5"):
        make(points, [1, 1, 1], indices=[0, 5, 9], n_samples=5, details=dropped)
    with pytest.raises(ValueError, match="n_samples=2; pass n_samples > 2"):
        make(points, [1, 1, 1], n_samples=2, details=dropped)


@pytest.mark.parametrize("method", ["lightweight", "uniform"])
@pytest.mark.parametrize("divergence", ["sqeuclidean", "kl"])
def test_streams_count_rows_that_were_used(method, divergence, tmp_path):
    X = rows(n=5_000)
    stream = lwcs.StreamingCoreset(90, method=method, divergence=divergence, random_state=0)
    for part in np.array_split(X, 7):
        stream.update(X_of(part))
    again = lwcs.StreamingCoreset(90, method=method, divergence=divergence, random_state=0)
    again.update(X_of(X[:2_000]))
    again.save(tmp_path / "s.parquet")
    again = lwcs.load(tmp_path / "s.parquet")
    again.update(X_of(X[2_000:]))
    for each in (stream, again):
        assert each.n_samples == each.total_weight == 4_997
        assert "4,997 rows so far" in repr(each)
        coreset = each.coreset()
        assert (coreset.n_samples, coreset.details["dropped"]) == (4_997, 3)
        assert has_its_rows(coreset, X)
    assert stream.coreset() == again.coreset()
    # Streams that have merged coresets number those after their own rows.
    own = stream.coreset()
    stream.merge(again)
    assert stream.n_samples == 2 * 4_997
    whole = stream.coreset()
    assert (whole.n_samples, whole.details["dropped"]) == (2 * 4_997, 6)
    assert has_its_rows(whole, np.vstack([X, X]))
    assert has_its_rows(whole + own, np.vstack([X, X, X]))
    before = stream.n_samples
    with pytest.raises(ValueError, match="finite"):
        stream.update(np.full((3, 3), np.nan))
    assert stream.n_samples == before


def test_a_saved_stream_need_not_say_how_many_rows_were_dropped(tmp_path):
    stream = lwcs.StreamingCoreset(20, random_state=0)
    stream.update(rows(gone=()))
    stream.save(tmp_path / "s.parquet")
    table = pq.read_table(tmp_path / "s.parquet")
    metadata = json.loads(table.schema.metadata[b"lwcs"])
    assert metadata.pop("dropped") == 0
    pq.write_table(persistence.sealed(table, metadata), tmp_path / "s.parquet")
    assert lwcs.load(tmp_path / "s.parquet").coreset() == stream.coreset()


def test_partial_fit_counts_rows_that_were_used():
    X = rows()
    model = lwcs.CoresetKMeans(3, random_state=0)
    for part in (X[:400], X[400:]):
        model.partial_fit(X_of(part))
    assert model.coreset_.n_samples == model.fitted_on_.n_samples == N - 3
    assert has_its_rows(model.coreset_, X)
    fitted = lwcs.CoresetKMeans(3, coreset_size=90, random_state=0).fit(X_of(X))
    fitted.partial_fit(X_of(X))
    assert fitted.coreset_.n_samples == 2 * (N - 3)
    assert has_its_rows(fitted.coreset_, np.vstack([X, X]))


def test_fewer_used_rows_than_clusters_are_waited_for_by_partial_fit():
    X = rows(gone=(1, 2), n=6)
    model = lwcs.CoresetKMeans(5, random_state=0).partial_fit(X_of(X))
    with pytest.raises(AttributeError, match=r"n_samples=4 should be >= n_clusters=5; .* 1 more"):
        _ = model.cluster_centers_
    model.partial_fit(X_of(rows(1, gone=(1, 2), n=6)))
    assert model.cluster_centers_.shape == (5, 3)


@pytest.mark.parametrize("place", EVERYWHERE[:-1])
def test_dropped_rows_are_no_rows_for_clusters(place, tmp_path):
    X = rows(gone=(1,), n=4)
    what = r"^n_samples=3 should be >= n_{}=4"
    for _ in range(2):
        source = scanned(X, place, tmp_path)
        for size in ("auto", 4, 50):
            with pytest.raises(ValueError, match=what.format("clusters")):
                lwcs.CoresetKMeans(4, coreset_size=size, random_state=0).fit(source)
        with pytest.raises(ValueError, match=what.format("components")):
            lwcs.CoresetMixture(4, random_state=0).fit(source)
        for method in ("refined", "sensitivity"):
            with pytest.raises(ValueError, match=what.format("clusters")):
                lwcs.build(source, 10, method=method, n_clusters=4, random_state=0)
        assert lwcs.CoresetKMeans(3, random_state=0).fit(source).cluster_centers_.shape == (3, 3)


def test_certificates_and_figures_count_rows_that_were_used(tmp_path):
    pytest.importorskip("bokeh")
    X = rows()
    model = lwcs.CoresetKMeans(3, random_state=0).fit(X_of(X))
    assert lwcs.certify(X_of(X), model, random_state=1).n_samples == N - 3
    # Row 300 does not fit into a byte, although only 200 rows were used.
    few = rows(gone=range(150), n=301)
    small = lwcs.build(X_of(few), 200, random_state=0)
    model = lwcs.CoresetKMeans(2, random_state=0).fit(small)
    from lwcs.description import describe
    from lwcs.reporting.map_figure import MapPoints

    shown = MapPoints.of_description(describe(model))
    assert sorted(shown.rows.tolist()) == small.indices.tolist()
    assert shown.rows.max() > 255


def test_commands_tell_how_many_of_the_rows_were_used(tmp_path):
    data, out = in_parquet(rows(), tmp_path), str(tmp_path / "c.parquet")
    code, said, err = run("build", data, "--size", "50", "--missing", "drop", "-o", out, "--json")
    assert code == 0, err
    facts = json.loads(said)
    assert (facts["rows"], facts["dropped"]) == (N, 3)
    code, said, _ = run("inspect", out, "--json")
    assert (code, json.loads(said)["of_rows"]) == (0, N - 3)
    model = str(tmp_path / "m.parquet")
    code, _, said = run("fit", out, out, "-k", "2", "-o", model)
    assert code == 0, said
    assert "2,394 of 2,400 rows" in said
