"""More clusters than rows: refused as soon as the rows are counted, wherever they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.exceptions import NotFittedError

import lwcs
from lwcs import CoresetKMeans, CoresetMixture, PartitionedSource
from lwcs.coreset.building import BuildContext

X = np.random.default_rng(0).normal(size=(12_000, 2))


def in_csv(folder) -> str:
    np.savetxt(folder / "x.csv", X, delimiter=",", header="a,b", comments="")
    return str(folder / "x.csv")


def in_parquet(folder) -> str:
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), folder / "x.parquet")
    return str(folder / "x.parquet")


def uncounted(_) -> PartitionedSource:
    """As on a cluster, where the number of rows is known once they have been read."""
    source = PartitionedSource([X[:7_000], X[7_000:]])
    source.n_rows = None
    return source


@pytest.mark.parametrize("size", ["auto", 30_000])
@pytest.mark.parametrize("method", ["auto", "uniform"])
@pytest.mark.parametrize(
    ("rows", "passes"),
    [(lambda _: X, 0), (in_parquet, 0), (in_csv, 0), (uncounted, 1)],
)
def test_no_pass_is_made_after_the_rows_are_counted(
    rows, passes, size, method, tmp_path, monkeypatch
):
    source = lwcs.scan(rows(tmp_path))
    begun, plain = [], type(source).gather

    def gather(self, *args, **options):
        begun.append(self)
        return plain(self, *args, **options)

    monkeypatch.setattr(type(source), "gather", gather)
    monkeypatch.setattr(BuildContext, "all_rows", lambda *_: pytest.fail("all rows were read"))
    model = CoresetKMeans(20_000, coreset_size=size, method=method, random_state=0)
    with pytest.raises(ValueError, match=r"^n_samples=12000 should be >= n_clusters=20000"):
        model.fit(source)
    assert len(begun) == passes


@pytest.mark.parametrize("method", ["sensitivity", "refined"])
@pytest.mark.parametrize(
    ("rows", "passes"),
    [(lambda _: X, 0), (in_parquet, 0), (in_csv, 0), (uncounted, 1)],
)
def test_a_build_for_more_clusters_than_rows_makes_no_pass_after_they_are_counted(
    rows, passes, method, tmp_path, monkeypatch
):
    source = lwcs.scan(rows(tmp_path))
    begun, plain = [], type(source).gather

    def gather(self, *args, **options):
        begun.append(self)
        return plain(self, *args, **options)

    monkeypatch.setattr(type(source), "gather", gather)
    sampler = {"refined": lwcs.Refined, "sensitivity": lwcs.Sensitivity}[method]
    for given in (method, sampler(20_000)):
        begun.clear()
        with pytest.raises(ValueError, match=r"^n_samples=12000 should be >= n_clusters=20000"):
            lwcs.build(source, 500, method=given, n_clusters=20_000, random_state=0)
        assert len(begun) == passes
        if passes:
            source.n_rows = None


def test_components_are_counted_like_clusters(tmp_path):
    with pytest.raises(ValueError, match=r"^n_samples=12000 should be >= n_components=20000"):
        CoresetMixture(20_000, random_state=0).fit(lwcs.scan(in_csv(tmp_path)))


def test_a_stream_may_bring_the_rows_that_are_missing():
    """partial_fit waits for further batches; whatever needs centers says how many rows it lacks."""
    model = CoresetKMeans(20_000, random_state=0).partial_fit(X)
    words = r"n_samples=12000 should be >= n_clusters=20000; .* at least 8000 more rows"
    with pytest.raises(AttributeError, match=words):
        _ = model.cluster_centers_
    for method in (model.predict, model.transform):
        with pytest.raises(NotFittedError, match=words):
            method(X[:2])
