"""exemplars(): typical rows and the farthest ones, of any source, with ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans

import lwcs
from lwcs.description import describe

K, N = 3, 4


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    """Small integers, so that many rows are equal, and equally far from their center."""
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 3, (1_500, 2)) + 10 * rng.integers(0, K, (1_500, 1))
    return X.astype(np.float64)


@pytest.fixture(scope="module")
def model(X: np.ndarray) -> lwcs.CoresetKMeans:
    """Centers are integers, so that distances are exact."""
    model = lwcs.CoresetKMeans(K, random_state=0).fit(X)
    model.cluster_centers_ = np.rint(model.cluster_centers_)
    return model


def expected(model: Any, X: np.ndarray, n: int = N) -> list[tuple[int, str, int]]:
    """Cluster, kind and row number of every exemplar, from a sort of all rows."""
    centers = model.cluster_centers_
    squares = ((X[:, None] - centers) ** 2).sum(axis=2)
    labels, own = squares.argmin(axis=1), squares.min(axis=1)
    found = []
    for cluster in describe(model).by_size:
        rows = np.flatnonzero(labels == cluster)
        for kind, sign in (("nearest", 1.0), ("farthest", -1.0)):
            best = rows[np.argsort(sign * own[rows], kind="stable")][:n]
            found += [(int(cluster), kind, int(row)) for row in best]
    return found


def rows_of(found: lwcs.Exemplars) -> list[tuple[int, str, int]]:
    return list(zip(found.cluster.tolist(), found.kind, found.row.tolist(), strict=True))


def test_they_are_those_of_a_sort_and_the_first_of_equals(model: Any, X: np.ndarray) -> None:
    found = lwcs.exemplars(model, X, N)
    assert rows_of(found) == expected(model, X)
    np.testing.assert_array_equal(found.points, X[found.row])
    apart = np.linalg.norm(X[found.row] - model.cluster_centers_[found.cluster], axis=1)
    np.testing.assert_allclose(found.distance, apart)
    assert found.n_rows == len(X)


def test_cuts_and_containers_do_not_matter(
    model: Any, X: np.ndarray, tmp_path: Any, monkeypatch: Any
) -> None:
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "rows.parquet")
    np.save(tmp_path / "rows.npy", X)
    many = [X[:1], X[1:1], X[1:700], X[700:]]
    sources = [
        X.astype(np.float32), sp.csr_array(X), pd.DataFrame(X), pl.DataFrame(X), many,
        lwcs.PartitionedSource([sp.csr_array(each) for each in many]),
        str(tmp_path / "rows.parquet"), str(tmp_path / "rows.npy"),
        lwcs.scan(iter([X[:100], X[100:]])),
    ]  # fmt: skip
    for data in sources:
        assert rows_of(lwcs.exemplars(model, data, N)) == expected(model, X), type(data)
    # Blocks and partitions of a few rows.
    monkeypatch.setattr("lwcs.sources.base.PARTITION_ROWS", 128)
    monkeypatch.setattr("lwcs.sources.base.block_rows", lambda _: 64)
    for data in (X, str(tmp_path / "rows.parquet")):
        assert rows_of(lwcs.exemplars(model, data, N)) == expected(model, X)


def test_more_rows_than_a_cluster_has_are_all_of_them(model: Any, X: np.ndarray) -> None:
    found = lwcs.exemplars(model, X, 10_000)
    assert len(found) == 2 * len(X)
    assert rows_of(found) == expected(model, X, 10_000)


def test_ids_are_kept_beside_rows_of_files_and_tables(
    model: Any, X: np.ndarray, tmp_path: Any
) -> None:
    ids = [f"customer {row}" for row in range(len(X))]
    frame = pd.DataFrame({"id": ids, "a": X[:, 0], "b": X[:, 1]})
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    named = lwcs.CoresetKMeans(K, random_state=0).fit(frame[["a", "b"]])
    scanned = lwcs.scan(frame, columns=["a", "b"])
    files = [str(tmp_path / f"rows.{each}") for each in ("parquet", "csv")]
    for data in (*files, frame, pl.DataFrame(frame), pa.table(frame), scanned):
        found = lwcs.exemplars(named, data, 2, keep="id")
        table = found.to_arrow().to_pydict()
        assert table["id"] == [ids[row] for row in found.row]
        assert table["a"] == X[found.row, 0].tolist()
        assert f"customer {found.row[0]}" in str(found)
    shuffled = frame.sample(frac=1.0, random_state=0)
    found = lwcs.exemplars(named, shuffled, 2, keep=["i*"])
    assert found.kept["id"].to_pylist() == shuffled["id"].iloc[found.row].tolist()


def test_columns_that_cannot_be_kept_are_refused(model: Any, X: np.ndarray) -> None:
    for data in (X, sp.csr_array(X), lwcs.PartitionedSource([pd.DataFrame(X)])):
        with pytest.raises(TypeError, match=r"keep=\['id'\] .* cannot keep beside its rows"):
            lwcs.exemplars(model, data, keep="id")
    with pytest.raises(ValueError, match="'idd' is not"):
        lwcs.exemplars(model, pd.DataFrame(X, columns=["a", "b"]), keep="idd")


def test_dropped_rows_and_those_without_weight_are_no_exemplars(
    model: Any, X: np.ndarray, tmp_path: Any
) -> None:
    near = lwcs.exemplars(model, X, 1).row[0]
    gaps = X.copy()
    gaps[near, 0] = np.nan
    frame = pd.DataFrame(gaps, columns=["a", "b"])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    keeping = np.delete(np.arange(len(X)), near)
    others = [(c, kind, int(keeping[row])) for c, kind, row in expected(model, X[keeping])]
    for data in (frame, str(tmp_path / "rows.csv")):
        assert rows_of(lwcs.exemplars(model, lwcs.scan(data, missing="drop"), N)) == others
    weights = np.where(np.arange(len(X)) == near, 0.0, 1.0)
    assert rows_of(lwcs.exemplars(model, lwcs.scan(X, weight=weights), N)) == others


def test_rows_of_a_component_are_ordered_by_their_density_in_it(X: np.ndarray) -> None:
    rows = X + np.random.default_rng(1).normal(0.0, 0.1, X.shape)
    mixture = lwcs.CoresetMixture(K, random_state=0).fit(rows)
    found = lwcs.exemplars(mixture, rows, 2)
    labels, family = mixture.predict(rows), mixture.mixture_.family
    density = family.log_density(rows)[np.arange(len(rows)), labels]
    for cluster in range(K):
        own = np.flatnonzero(labels == cluster)
        best = own[np.argsort(-density[own])]
        chosen = found.row[found.cluster == cluster].tolist()
        assert chosen == [*best[:2].tolist(), *best[::-1][:2].tolist()]
    np.testing.assert_allclose(found.distance, density[found.row])
    assert found.to_arrow().column_names[:5] == ["component", "kind", "rank", "row", "log_density"]


def test_a_divergence_is_given_as_it_is() -> None:
    X = np.random.default_rng(0).gamma(2.0, size=(300, 3))
    model = lwcs.CoresetKMeans(2, divergence="itakura_saito", random_state=0).fit(X)
    found = lwcs.exemplars(model, X, 1)
    ratio = X[found.row] / model.cluster_centers_[found.cluster]
    np.testing.assert_allclose(found.distance, (ratio - np.log(ratio) - 1.0).sum(axis=1))
    assert "divergence" in found.to_arrow().column_names


def test_a_model_of_scikit_learn_is_ordered_by_the_rows(X: np.ndarray) -> None:
    model = KMeans(K, n_init=1, random_state=0).fit(X)
    found = lwcs.exemplars(model, X, 1)
    counts = np.bincount(model.labels_)
    assert counts[found.cluster].tolist() == sorted(np.repeat(counts, 2).tolist(), reverse=True)


def test_a_coreset_and_other_results_are_refused(model: Any, X: np.ndarray) -> None:
    with pytest.raises(TypeError, match="a coreset has few of the rows"):
        lwcs.exemplars(model, lwcs.build(X, 50, random_state=0))
    with pytest.raises(ValueError, match="n=0"):
        lwcs.exemplars(model, X, 0)
    with pytest.raises(ValueError, match="3 features"):
        lwcs.exemplars(model, np.zeros((9, 3)))
    with pytest.raises(TypeError, match="a Exemplars is not a table of rows"):
        lwcs.build(lwcs.exemplars(model, X), 10)


def test_text_has_the_columns_that_tell_a_cluster_apart(X: np.ndarray) -> None:
    frame = pd.DataFrame({f"x{j}": np.zeros(len(X)) for j in range(6)}).assign(last=X[:, 0])
    model = lwcs.CoresetKMeans(K, random_state=0).fit(frame)
    found = lwcs.exemplars(model, frame, 2)
    heading = str(found).splitlines()[3]
    assert heading.split()[:3] == ["row", "distance", "last"]
    assert repr(found).startswith("<Exemplars: 12 of 1,500 rows")
