"""The contract of a Source: gather, map_rows, take; the same for every place of rows."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.runtime.parallel import as_threads, ordered_map, usable_cores
from lwcs.sources import PARTITION_ROWS, Source
from lwcs.sources.base import block_rows

N = 2 * PARTITION_ROWS + 100
X = np.arange(3 * N, dtype=np.float64).reshape(N, 3)
LOCAL = {
    "array": X,
    "sparse": sp.csr_array(X),
    "pandas": pd.DataFrame(X, columns=list("abc")),
    "polars": pl.DataFrame(X, schema=list("abc")),
    "pyarrow": pa.table({name: X[:, j] for j, name in enumerate("abc")}),
}
ALL = {**LOCAL, "partitioned": lwcs.PartitionedSource([X[:10], X[10:10], X[10:]])}


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


@dataclass(frozen=True)
class RowsOf:
    """A task that tells what it was given."""

    def __call__(self, blocks, item):
        parts = list(blocks)
        assert [b.first_row for b in parts] == np.cumsum(
            [0, *(b.points.shape[0] for b in parts[:-1])]
        ).tolist()[: len(parts)]
        return item, np.concatenate([dense(b.points) for b in parts] or [np.empty((0, 3))])


@pytest.mark.parametrize("name", ALL)
def test_gather_visits_every_row_once_and_in_order(name):
    source = lwcs.scan(ALL[name])
    assert isinstance(source, Source)
    results = list(source.gather(RowsOf()))
    assert [item for item, _ in results] == list(range(source.count_partitions()))
    np.testing.assert_array_equal(np.concatenate([rows for _, rows in results]), X)


@pytest.mark.parametrize("name", ALL)
def test_every_partition_gets_its_own_item(name):
    source = lwcs.scan(ALL[name])
    items = [f"for {i}" for i in range(source.count_partitions())]
    assert [item for item, _ in source.gather(RowsOf(), items)] == items


@pytest.mark.parametrize("name", ALL)
def test_map_rows_gives_one_value_a_row(name):
    source = lwcs.scan(ALL[name])
    values = source.map_rows(lambda block: dense(block.points)[:, 0])
    if name == "partitioned":
        assert [len(part) for part in values] == [10, 0, N - 10]
        values = np.concatenate(values)
    np.testing.assert_array_equal(values, X[:, 0])


@pytest.mark.parametrize("name", LOCAL)
def test_take_fetches_rows_in_any_order(name):
    rows = np.array([N - 1, 0, 70_000, 70_000])
    np.testing.assert_array_equal(dense(lwcs.scan(LOCAL[name]).take(rows)), X[rows])


def test_a_partitioned_source_cannot_take():
    source = lwcs.scan(ALL["partitioned"])
    assert not source.can_take
    with pytest.raises(TypeError, match="use passes=2"):
        source.take(np.array([0]))


def test_local_rows_are_cut_every_65536():
    assert lwcs.scan(X).known_partitions == 3
    assert lwcs.scan(X[:PARTITION_ROWS]).known_partitions == 1


def test_blocks_depend_on_the_columns_alone():
    for d in (1, 3, 74, 784, 20_000, 10**7):
        rows = block_rows(d)
        assert rows & (rows - 1) == 0
        assert 64 <= rows <= PARTITION_ROWS
        assert rows == 64 or rows * d <= 2**21


def test_blocks_of_arrays_are_views():
    for block in lwcs.scan(X).blocks(1):
        assert np.shares_memory(block.points, X)
    rows = sp.csr_array(X)
    for block in lwcs.scan(rows).blocks(1):
        assert np.shares_memory(block.points.data, rows.data)


def test_columns_are_chosen_by_name_and_order():
    coreset = lwcs.build(lwcs.scan(LOCAL["polars"], columns=["c", "a"]), 5, random_state=0)
    assert coreset.feature_names == ("c", "a")
    np.testing.assert_array_equal(coreset.points, X[coreset.indices][:, [2, 0]])


def test_mixed_columns_share_one_dtype():
    frame = pd.DataFrame({"f": np.float32([1.5, 2]), "i": np.int16([1, 2]), "b": [True, False]})
    assert lwcs.build(frame, 3, random_state=0).points.dtype == np.float32
    assert lwcs.build(frame[["i", "b"]], 3, random_state=0).points.dtype == np.int16
    assert lwcs.build(frame.assign(j=np.int64([1, 2])), 3).points.dtype == np.float64


def test_integer_column_names_become_text():
    coreset = lwcs.build(pd.DataFrame(X[:50]), 5, random_state=0)
    assert coreset.feature_names == ("0", "1", "2")


def test_lists_and_booleans_are_data():
    assert lwcs.build([[1, 2], [3, 4]], 5, random_state=0).n_features == 2
    assert lwcs.build(np.eye(4, dtype=bool), 5, random_state=0).points.dtype == np.uint8


def test_repr_tells_shape_and_options():
    source = lwcs.scan(X, weight=np.ones(N), scale="standard")
    assert repr(source) == "ArraySource(131,172 × 3, 3 partitions, weighted, scale='standard')"


def test_results_come_in_order_however_long_a_task_takes():
    def slow_start(i):
        time.sleep(0.02 if i == 0 else 0.0)
        return i

    assert list(ordered_map(slow_start, range(20), n_jobs=4)) == list(range(20))


def test_few_tasks_are_in_flight_and_none_starts_after_an_error():
    started, lock = [], threading.Lock()

    def task(i):
        with lock:
            started.append(i)
        if i == 3:
            raise RuntimeError("task 3")
        return i

    with pytest.raises(RuntimeError, match="task 3"):
        list(ordered_map(task, range(1000), n_jobs=2))
    assert max(started) < 20


def test_threads_are_counted_as_in_scikit_learn():
    assert as_threads(None) == as_threads(-1) == usable_cores()
    assert as_threads(-2) == max(1, usable_cores() - 1)
    assert as_threads(3) == 3


def test_the_number_of_blas_threads_is_restored():
    from threadpoolctl import threadpool_info

    before = [(i["filepath"], i["num_threads"]) for i in threadpool_info()]
    coreset = lwcs.build(X[:1000], 100, random_state=0)
    threads = [
        threading.Thread(target=lambda: [coreset.cost(X[:5]) for _ in range(50)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(i["filepath"], i["num_threads"]) for i in threadpool_info()] == before


def test_whatever_speaks_arrow_is_a_table():
    import duckdb

    events = LOCAL["pyarrow"].slice(0, 1000)
    assert lwcs.build(events.to_batches()[0], 50, random_state=0) == lwcs.build(
        events, 50, random_state=0
    )
    # A query is run for every pass, and not held in memory; a reader comes once.
    assert lwcs.build(duckdb.sql("select * from events"), 50, random_state=0) == lwcs.build(
        events, 50, passes=2, random_state=0
    )
    reader = pa.RecordBatchReader.from_batches(events.schema, events.to_batches())
    assert lwcs.build(reader, 50, random_state=0).details["weights"] == "mixture"


def test_decimals_are_numbers():
    from decimal import Decimal

    table = pa.table({"a": [Decimal("1.5"), Decimal("2.5")], "w": [Decimal(1), Decimal(3)]})
    coreset = lwcs.build(lwcs.scan(table, weight="w"), 5, random_state=0)
    assert coreset.mean[0] == pytest.approx(2.25)


def test_one_column_may_be_named_without_a_list():
    assert lwcs.scan(LOCAL["pandas"], columns="b").feature_names == ("b",)
    assert lwcs.scan(LOCAL["pandas"], columns=np.array(["b"])).feature_names == ("b",)


def test_weighted_partitions_may_be_empty():
    parts = [lwcs.scan(X[:50], weight=np.ones(50)), X[:0]]
    assert lwcs.build(lwcs.PartitionedSource(parts), 10, random_state=0).n_samples == 50


def read_so_far(rows=X, step=50_000):
    """Batches of rows, and a list that grows with every batch that is read."""
    read = []

    def batches():
        for start in range(0, len(rows), step):
            read.append(start)
            yield rows[start : start + step]

    return batches, read


def test_no_property_reads_rows():
    batches, read = read_so_far()
    source = lwcs.scan(batches())
    # The first batch tells which columns there are.
    assert read == [0]
    properties = [n for n in dir(source) if isinstance(getattr(type(source), n, None), property)]
    assert {"known_partitions", "can_take"} <= set(properties)
    values = {name: getattr(source, name) for name in properties}
    assert values["known_partitions"] is None
    assert source.n_rows is None
    assert repr(source) == "BatchesSource(? × 3)"
    assert read == [0]


def test_partitions_are_counted_on_request_and_only_where_rows_can_be_read_again():
    batches, read = read_so_far()

    class Again:
        def __iter__(self):
            return batches()

    source = lwcs.scan(Again())
    assert source.count_partitions() == source.known_partitions == 3
    assert source.n_rows == N
    assert read == [0, 50_000, 100_000]
    once = lwcs.scan(batches())
    with pytest.raises(ValueError, match="can be read only once"):
        once.count_partitions()
    assert lwcs.build(once, 5, random_state=0).n_samples == N
