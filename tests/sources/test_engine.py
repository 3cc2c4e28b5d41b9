"""What engines share, on an engine of one process: everything travels as bytes, and is counted."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

import lwcs
from lwcs.samplers import around_centers
from lwcs.sources.columns import Selection
from lwcs.sources.engines.engine import ArrayReader, ArrowReader, EngineSource, RowWork, add_results
from lwcs.sources.scan_options import ScanOptions
from lwcs.sources.sums import joined_in_levels


class Wire(EngineSource):
    """Partitions in this process, behind a wire that counts bytes."""

    def __init__(self, parts, reader):
        super().__init__(reader)
        self.parts, self.rounds = parts, []

    def run_sums(self, work):
        return iter(joined_in_levels(self.run(work, None), add_results))

    def run(self, work, told):
        sent = pickle.dumps(work)
        down, up = [], []
        self.rounds.append((len(sent), down, up))
        work = pickle.loads(sent)
        for i, part in enumerate(self.parts):
            item = None if told is None else told[i]
            down.append(0 if item is None else len(item))
            up.append(len(result := work(part, i, item)))
            yield result

    def map_rows(self, task, *, n_jobs=None):
        del n_jobs
        work = pickle.loads(pickle.dumps(RowWork(self.reader, task)))
        return [work(part, i) for i, part in enumerate(self.parts)]


def wire(X, parts=8):
    return Wire([(part, None) for part in np.array_split(X, parts)], ArrayReader(X.shape[1]))


def rows(n=4_000, d=10):
    return np.random.default_rng(0).standard_t(3, size=(n, d))


def test_traffic_is_what_the_paper_says():
    """Up: 2d + 2 numbers, then the drawn rows. Down: the mean, once, and three numbers each."""
    traffic = {}
    for d in (10, 110):
        source = wire(rows(d=d))
        lwcs.build(source, 400, random_state=0)
        (shared_1, _, up_1), (shared_2, down_2, up_2) = source.rounds
        traffic[d] = shared_1, max(up_1), shared_2, max(down_2), up_2
    narrow, wide = traffic[10], traffic[110]
    # Nothing but constants, then 2d and d numbers of eight bytes.
    assert wide[0] == pytest.approx(narrow[0], abs=16)
    assert wide[1] - narrow[1] == pytest.approx(2 * 100 * 8, abs=16)
    assert narrow[1] < 8 * (2 * 10 + 2) + 400
    assert wide[2] - narrow[2] == pytest.approx(100 * 8, abs=16)
    # Three numbers, a partition's own, and the name of what they are.
    assert max(narrow[3], wide[3]) < 3 * 9 + 120
    # Drawn rows, their numbers, distances and counts; at most one row more for each of them.
    for d, (*_, up) in traffic.items():
        assert sum(up) < 400 * 8 * (d + 3) + 8 * 1_500


def test_what_goes_down_does_not_grow_with_clusters_times_partitions():
    source = wire(rows(), parts=50)
    lwcs.build(source, 400, method="refined", n_clusters=20, random_state=0)
    assert len(source.rounds) == 4
    for _, down, _ in source.rounds:
        assert max(down) < 3 * 9 + 120


def test_the_driver_keeps_moments_plan_and_coreset(monkeypatch):
    """Peak memory of a build over 64 MB of rows that are made as they are asked for."""
    import tracemalloc

    monkeypatch.setenv("LWCS_KERNEL", "numpy")

    class Made(list):
        def __iter__(self):
            for seed in range(8):
                yield np.random.default_rng(seed).standard_normal((50_000, 20)), None

    source = Wire(Made(range(8)), ArrayReader(20))
    lwcs.build(source, 1_000, random_state=0)
    tracemalloc.start()
    try:
        lwcs.build(source, 1_000, random_state=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # One partition with its copies of blocks, which a worker would hold, and little else.
    assert peak < 3 * 50_000 * 20 * 8


def test_the_wire_gives_the_coreset_of_the_partitioned_source():
    X = rows()
    want = lwcs.build(lwcs.PartitionedSource(np.array_split(X, 8)), 400, random_state=0)
    assert lwcs.build(wire(X), 400, random_state=0) == want


def test_polish_cost_and_labels_over_the_wire_are_those_of_the_partitioned_source():
    X = rows()
    cut = lwcs.PartitionedSource(np.array_split(X, 50))
    models = [
        lwcs.CoresetKMeans(3, coreset_size=400, polish=1, random_state=0).fit(source)
        for source in (wire(X, 50), cut)
    ]
    np.testing.assert_array_equal(models[0].cluster_centers_, models[1].cluster_centers_)
    assert models[0].inertia_ == models[1].inertia_
    labels = models[0].predict(wire(X, 50)), models[1].predict(cut)
    np.testing.assert_array_equal(np.concatenate(labels[0]), np.concatenate(labels[1]))


@pytest.mark.parametrize("few", [True, False])
def test_the_final_cost_of_many_partitions_is_added_up(few, monkeypatch):
    """Where clusters times partitions are many numbers, the driver sees their sum alone."""
    X, parts = rows()[:3_300], 1_100
    monkeypatch.setattr(around_centers, "_MOST_KEPT", 2 * 3 * parts - (not few))
    source = wire(X, parts)
    source.partitions = parts
    sums = []

    def counted(work):
        sums.append(work)
        return Wire.run_sums(source, work)

    monkeypatch.setattr(source, "run_sums", counted)
    model = lwcs.CoresetKMeans(3, coreset_size=400, random_state=0).fit(source)
    assert model.inertia_ == pytest.approx(-model.score(X))
    assert len(source.rounds) == 3
    assert len(sums) == (not few)


def test_stages_of_a_fit_have_the_time_of_the_engine(monkeypatch):
    """Also what an engine does before its first result is there, and before a pass begins."""

    class Slow(Wire):
        slept = 0.0

        def ask_workers(self):
            self.sleep(0.05)

        def run(self, work, told):
            self.sleep(0.1)
            return super().run(work, told)

        def sleep(self, seconds):
            time.sleep(seconds)
            self.slept += seconds

    X = rows()
    source = Slow([(part, None) for part in np.array_split(X, 4)], ArrayReader(X.shape[1]))
    model = lwcs.CoresetKMeans(3, coreset_size=400, polish=1, random_state=0).fit(source)
    assert source.slept == pytest.approx(0.6)
    passes = [stage for stage in model.timings_.values() if stage["passes"] == 1]
    assert len(passes) == 4
    assert all(stage["seconds"] >= 0.15 for stage in passes)


def test_sensitivity_says_how_many_rounds_it_takes():
    with pytest.warns(UserWarning, match=r"makes 7 passes over the rows.*'refined' needs four"):
        lwcs.build(wire(rows()), 400, method="sensitivity", n_clusters=5, random_state=0)


def test_blas_has_one_thread_on_a_worker():
    import scipy.linalg  # has a BLAS of its own
    from threadpoolctl import threadpool_info

    assert scipy.linalg

    def threads(blocks, partition):
        # faiss, loaded by other tests, has one that no task calls.
        return [
            each["num_threads"]
            for each in threadpool_info()
            if each["user_api"] == "blas" and "faiss" not in each["filepath"]
        ]

    (found,) = _Local(rows()).gather(threads)
    assert set(found) == {1}


class _Local(Wire):
    """Without the wire, so that a task need not pickle."""

    def __init__(self, X):
        super().__init__([(X, None)], ArrayReader(X.shape[1]))

    def run(self, work, told):
        assert told is None
        yield work(self.parts[0], 0, None)


def test_a_bad_row_is_an_answer_not_a_failure():
    X = rows()
    X[777, 3] = np.nan
    with pytest.raises(ValueError, match="row 277, column 3 of partition 1 is nan"):
        lwcs.build(wire(X), 10)


def test_an_array_of_another_width_is_refused():
    source = Wire([(rows(5), None), (rows(5, 3), None)], ArrayReader(10))
    with pytest.raises(ValueError, match=r"3 columns where 10 are expected.*\(in partition 1\)"):
        lwcs.build(source, 10)


def arrow(*tables, drop=False):
    first = tables[0]
    selection = Selection.of(
        first.schema, ScanOptions(), lambda name: [first.column(name)[0].as_py()]
    )
    reader = ArrowReader(selection, drop)
    return Wire([table.to_batches() for table in tables], reader)


def test_a_partition_of_another_type_or_without_a_column_is_refused():
    first = pa.table({"a": [1, 2]})
    with pytest.raises(TypeError, match=r"'a' holds double here.*int64.*\(in partition 1\)"):
        lwcs.build(arrow(first, pa.table({"a": [1.5]})), 10)
    with pytest.raises(TypeError, match=r"'a' holds text .*not numbers.*\(in partition 1\)"):
        lwcs.build(arrow(first, pa.table({"a": ["1"]})), 10)
    with pytest.raises(ValueError, match=r"'a' is missing.*\(in partition 1\)"):
        lwcs.build(arrow(first, pa.table({"b": [1]})), 10)


def test_spark_vectors_without_spark():
    import scipy.sparse as sp

    kind = pa.struct(
        [
            ("type", pa.int8()),
            ("size", pa.int32()),
            ("indices", pa.list_(pa.int32())),
            ("values", pa.list_(pa.float64())),
        ]
    )
    dense = {"type": 1, "size": None, "indices": None, "values": [1.0, 0.0, 5.0]}
    sparse = {"type": 0, "size": 3, "indices": [0, 2], "values": [1.0, 5.0]}

    def built(*vectors, **options):
        column = pa.array(list(vectors), kind)
        return lwcs.build(arrow(pa.table({"v": column}), **options), 20, random_state=0)

    assert built(dense, sparse, dense).points.tolist() == [[1.0, 0.0, 5.0]] * 3
    assert sp.issparse(built(sparse, dense, sparse).points)
    assert built(sparse, dense).points.toarray().tolist() == [[1.0, 0.0, 5.0]] * 2
    with pytest.raises(ValueError, match="missing value in row 1 of partition 0"):
        built(dense, None)
    with pytest.raises(ValueError, match="missing value in row 1"):
        built(sparse, None)
    assert set(built(dense, None, sparse, drop=True).indices) == {0, 2}
    with pytest.raises(ValueError, match="vector of length 4 in row 1 of partition 0, where 3"):
        built(sparse, {**sparse, "size": 4})
    with pytest.raises(ValueError, match="vector of length 1 in row 1, where 3"):
        built(dense, {**dense, "values": [1.0]})


def test_no_engine_is_imported_unless_its_data_is_passed():
    code = (
        "import sys, numpy as np, pandas as pd, lwcs\n"
        "X = np.random.default_rng(0).random((500, 3))\n"
        "lwcs.CoresetKMeans(3).fit(X).predict(pd.DataFrame(X).to_numpy())\n"
        "lwcs.build(lwcs.PartitionedSource([X, X]), 10)\n"
        "lwcs.build(pd.DataFrame(X, columns=list('abc')), 10)\n"
        "print([name for name in ('dask', 'distributed', 'pyspark', 'ray') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("home", "extra"), [("dask.array", "dask"), ("pyspark.sql", "spark"), ("ray.data", "ray")]
)
def test_a_missing_extra_is_named(monkeypatch, home, extra):
    frame = type("DataFrame", (), {"__module__": home})()
    # Modules of the engine that other tests have loaded are not there, either.
    for module in [name for name in sys.modules if name.startswith(home.split(".")[0] + ".")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, home.split(".")[0], None)
    monkeypatch.delitem(sys.modules, f"lwcs.sources.engines.{extra}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'lwcs\[{extra}\]'"):
        lwcs.scan(frame)
    with pytest.raises(ImportError, match=rf"pip install 'lwcs\[{extra}\]'"):
        lwcs.CoresetKMeans(2).fit(frame)
