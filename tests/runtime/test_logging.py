"""What is logged and timed: every pass with its rows and bytes, and jobs side by side apart."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import lwcs
from lwcs.runtime.journal import Journal
from lwcs.runtime.warnings import LOG
from lwcs.storage import persistence as storage
from tests.fuzz.saved import table_of
from tests.test_damaged_files import changed, metadata_of, refused

N, D = 150_000, 4
STAGE = {"seconds", "rows", "passes", "bytes"}


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)


def csv(X, folder):
    path = folder / "x.csv"
    pc.write_csv(pa.table({f"c{j}": X[:, j] for j in range(D)}), path)
    return str(path), 8


CONTAINERS = {
    "array": lambda X, _: (X, 4),
    "table": lambda X, _: (pa.table({f"c{j}": X[:, j] for j in range(D)}), 4),
    "partitions": lambda X, _: (lwcs.PartitionedSource([X[:100], X[100:]]), 4),
    "sparse": lambda X, _: (sp.csr_array(X), None),
    "pipe": lambda X, _: (iter([X[:70_000], X[70_000:]]), 4),
    "csv": csv,
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_pass_is_logged_with_its_rows_and_bytes(X, tmp_path, caplog, name):
    caplog.set_level(logging.INFO, "lwcs")
    data, itemsize = CONTAINERS[name](X, tmp_path)
    timings = lwcs.build(data, 100, random_state=0).details["timings"]
    passes = [record for record in caplog.records if record.name == "lwcs"]
    assert len(passes) == timings["total"]["passes"] >= 1
    for record in passes:
        assert (record.levelname, record.event, record.rows) == ("INFO", "pass", N)
        assert f"{N:,} rows" in record.getMessage()
        if itemsize is None:
            assert record.bytes > X.nbytes
        else:
            assert record.bytes == N * D * itemsize


def test_decisions_are_logged_for_those_who_listen(X, caplog):
    caplog.set_level(logging.DEBUG, "lwcs")
    names = ["a", "b", "c", "word"]
    table = pa.table([*X.T[:3], pa.array(["x"] * N)], names=names)
    with pytest.warns(lwcs.ColumnWarning, match="word"):
        lwcs.CoresetKMeans(5, random_state=0).fit(table)
    said = {record.event: record.getMessage() for record in caplog.records}
    assert {"kernel", "draw", "columns", "starts", "size", "solver", "pass"} <= said.keys()
    assert said["columns"] == "left out: word"
    assert "Lightweight" in said["draw"]


def test_nothing_is_logged_by_default(X, capfd):
    assert LOG.level == logging.NOTSET
    assert [type(each) for each in LOG.handlers] == [logging.NullHandler]
    lwcs.CoresetKMeans(5, random_state=0).fit(X)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("method", ["lightweight", "refined", "sensitivity", "uniform"])
def test_timings_add_up_and_json_holds_them(X, method):
    coreset = lwcs.build(X, 200, method=method, n_clusters=4, passes="auto", random_state=0)
    timings = coreset.details["timings"]
    assert json.loads(json.dumps(timings)) == timings
    total = timings.pop("total")
    assert all(set(each) == STAGE for each in [*timings.values(), total])
    for name in ("rows", "passes", "bytes"):
        assert total[name] == sum(each[name] for each in timings.values())
    assert total["rows"] == total["passes"] * N
    # One thread after the other: stages are parts of the whole.
    assert sum(each["seconds"] for each in timings.values()) <= total["seconds"]


def test_a_fit_times_its_solvers_and_its_passes(X):
    model = lwcs.CoresetKMeans(4, random_state=0, polish=2, n_jobs=1).fit(X)
    timings = model.timings_
    assert {"reading", "seeding", "Lloyd", "split and merge", "polish", "labels"} < timings.keys()
    assert (timings["polish"]["passes"], timings["polish"]["rows"]) == (2, 2 * N)
    assert timings["labels"]["rows"] == N
    assert timings["Lloyd"]["seconds"] > timings["Lloyd"]["rows"] == 0
    assert timings["total"]["passes"] == 4
    assert model.coreset_.details["timings"]["total"]["passes"] == 1


def test_a_mixture_times_em(X):
    timings = lwcs.CoresetMixture(2, random_state=0).fit(X).timings_
    assert {"reading", "seeding", "Lloyd", "EM"} < timings.keys()


def test_partial_fit_times_its_last_batch(X):
    model = lwcs.CoresetKMeans(4, random_state=0).partial_fit(X[:3])
    with pytest.raises(AttributeError, match="has no centers yet"):
        _ = model.timings_
    for batch in (X[3:5_000], X[5_000:10_000]):
        model.partial_fit(batch)
    assert "Lloyd" in model.timings_


def test_timings_do_not_make_coresets_differ(X):
    one, other = (lwcs.build(X, 50, random_state=0) for _ in range(2))
    assert one == replace(other, details={"timings": {}})
    assert one == replace(other, details={})
    assert one != replace(other, details={"timings": {}, "dropped": 3})


def test_what_is_made_of_coresets_has_no_timings(X):
    coreset = lwcs.build(X, 60, random_state=0)
    whole = lwcs.CoresetKMeans(3, random_state=0).fit(X[:500]).coreset_
    assert "timings" in whole.details
    made = [coreset + coreset, coreset.reduce(20), *coreset.split(20), whole.reduce(100)]
    made.append(made[0].reduce(20))
    assert not any("timings" in each.details for each in made)


def test_timings_are_saved_and_read_back(X, tmp_path):
    path = tmp_path / "saved.parquet"
    coreset = lwcs.build(X, 50, random_state=0)
    coreset.save(path)
    assert lwcs.load(path).details == coreset.details
    for model in (lwcs.CoresetKMeans(3, random_state=0), lwcs.CoresetMixture(2, random_state=0)):
        model.fit(X[:2_000]).save(path)
        assert lwcs.load(path).timings_ == model.timings_


HOSTILE = [
    7, [], {"Lloyd": 3}, {"Lloyd": {"seconds": -1.0, "rows": 0, "passes": 0, "bytes": 0}},
    {"Lloyd": {"seconds": 1.0, "rows": 1.5, "passes": 0, "bytes": 0}},
    {"Lloyd": {"seconds": 1.0, "rows": 1, "passes": 0}},
    {"Lloyd": {"seconds": 1.0, "rows": 1, "passes": 0, "bytes": 0, "more": 3}},
    {str(i): {"seconds": 1.0, "rows": 1, "passes": 0, "bytes": 0} for i in range(2_000)},
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_timings_are_refused(X, tmp_path, value):
    for saved, field in (
        (lwcs.build(X[:100], 5, random_state=0), "details.timings"),
        (lwcs.CoresetKMeans(2, random_state=0).fit(X[:100]), "timings"),
        (lwcs.CoresetMixture(2, random_state=0).fit(X[:100]), "timings"),
    ):
        table = table_of(saved)
        record = changed(metadata_of(table), field, value)
        refused(storage.sealed(table, record), tmp_path, f"field '{field}")
    with pytest.raises(ValueError, match="pass those of a coreset that was built"):
        lwcs.Coreset.from_arrays(X[:3], [1, 1, 1], details={"timings": value})


def test_fits_side_by_side_do_not_mix_their_timings(X):
    found: dict[int, list[dict]] = {}

    def fit(rows: int) -> None:
        for _ in range(3):
            model = lwcs.CoresetKMeans(3, coreset_size=100, random_state=0).fit(X[:rows])
            found.setdefault(rows, []).append(model.timings_)

    threads = [threading.Thread(target=fit, args=(rows,)) for rows in (20_000, 90_000)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for rows, timings in found.items():
        assert [each["reading"]["rows"] for each in timings] == [rows] * 3
        assert [each["total"]["rows"] for each in timings] == [2 * rows] * 3


def test_a_part_of_a_job_counts_in_the_whole():
    whole = Journal()
    part = whole.part()
    with part.stage("one", kind="pass") as stage:
        stage.step(10)
    with whole.stage("two"):
        pass
    assert part.timings().keys() == {"one", "total"}
    assert whole.timings().keys() == {"one", "two", "total"}
    assert whole.timings()["total"]["rows"] == 10


def test_rows_that_a_first_pass_has_counted_are_known_to_the_next(X):
    source = lwcs.PartitionedSource([X[:1_000], X[1_000:5_000]])
    source.n_rows = None  # as on an engine, which does not know
    timings = lwcs.build(source, 50, random_state=0).details["timings"]
    assert [timings[name]["rows"] for name in ("first pass", "second pass")] == [5_000, 5_000]


def test_an_estimator_with_a_callback_can_be_cloned_and_saved(X, tmp_path):
    model = clone(lwcs.CoresetKMeans(3, random_state=0, verbose=print_nothing))
    assert model.get_params()["verbose"] is print_nothing
    model.fit(X[:1_000]).save(tmp_path / "m.parquet")
    assert lwcs.load(tmp_path / "m.parquet").verbose == 0


def print_nothing(progress: lwcs.Progress) -> None:
    """A callback."""
