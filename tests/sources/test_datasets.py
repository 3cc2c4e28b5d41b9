"""Datasets and scanners of pyarrow give the coreset of their rows in memory, filters included."""

from __future__ import annotations

import os
import threading

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem
from pyarrow import fs

import lwcs

N = 2000
RNG = np.random.default_rng(0)
TABLE = pa.table(
    {
        "x": RNG.normal(size=N),
        "y": RNG.uniform(1, 2, size=N),
        "word": ["w"] * N,
        "day": RNG.integers(3, size=N),
    }
)
HIVE = ds.partitioning(pa.schema([("day", pa.int64())]), flavor="hive")
KINDS = ("parquet", "feather", "csv")


@pytest.fixture(params=KINDS)
def folder(request, tmp_path):
    """Several files with several row groups, as a dataset of one format."""
    kind = request.param
    small = {"max_rows_per_group": 90, "min_rows_per_group": 1} if kind == "parquet" else {}
    for i in range(4):
        ds.write_dataset(TABLE.slice(i * 500, 500), tmp_path / f"{i}", format=kind, **small)
    return ds.dataset(tmp_path, format=kind)


@pytest.fixture
def parted(tmp_path):
    ds.write_dataset(TABLE, tmp_path / "h", format="parquet", partitioning=HIVE)
    return ds.dataset(tmp_path / "h", format="parquet", partitioning=HIVE)


def rows_of(source):
    parts = source.gather(lambda blocks, _: [block.points.copy() for block in blocks])
    return np.vstack([rows for part in parts for rows in part])


def assert_rows(source, table):
    X = np.column_stack([table[name].to_numpy() for name in source.feature_names])
    np.testing.assert_array_equal(rows_of(source), X)
    found = lwcs.build(source, 200, random_state=0)
    expected = lwcs.build(X, 200, random_state=0, passes=2)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.weights, expected.weights)


def test_a_dataset_gives_the_coreset_of_its_rows(folder):
    assert_rows(lwcs.scan(folder, exclude=["word", "day"]), TABLE)
    assert_rows(lwcs.scan(folder, columns=["y", "x"], batch_size=77), TABLE)


def test_a_filter_of_a_dataset_holds(folder):
    some = folder.filter(ds.field("x") > 0.5).filter(ds.field("y") < 1.7)
    expected = some.to_table()
    assert 0 < len(expected) < N
    assert_rows(lwcs.scan(some, columns=["x", "y"]), expected)


def test_a_scanner_keeps_its_filter_and_its_columns(folder):
    scanner = folder.scanner(
        columns={"half": ds.field("x") / 2, "y": ds.field("y")}, filter=ds.field("x") > 0
    )
    source = lwcs.scan(scanner)
    assert source.rereadable
    assert source.feature_names == ("half", "y")
    assert_rows(source, scanner.to_table())


def test_a_scanner_that_runs_once_is_read_once():
    narrow = TABLE.select(["x", "y"])
    scanner = ds.Scanner.from_batches(narrow.to_batches(max_chunksize=100), schema=narrow.schema)
    source = lwcs.scan(scanner)
    assert not source.rereadable
    assert lwcs.build(source, 50, random_state=0).n_samples == N


def test_unions_and_datasets_in_memory_are_data(parted, tmp_path):
    narrow = TABLE.select(["x", "y"])
    memory = ds.dataset(narrow)
    assert_rows(lwcs.scan(memory), narrow)
    union = ds.dataset([memory, parted.replace_schema(narrow.schema)])
    assert_rows(lwcs.scan(union), pa.concat_tables([narrow, parted.to_table(columns=["x", "y"])]))


def test_partition_columns_are_features_only_if_they_are_named(parted, tmp_path):
    union = ds.dataset([parted, parted])
    found = ds.dataset(tmp_path / "h", partitioning="hive")
    for data in (parted, found, parted.filter(ds.field("x") > 0), union):
        with pytest.warns(lwcs.ColumnWarning, match=r"'day' \(from the names of folders\)"):
            assert lwcs.scan(data, exclude="word").feature_names == ("x", "y")
    assert_rows(lwcs.scan(parted, columns=["day", "x"]), parted.to_table())
    assert_rows(lwcs.scan(parted, columns="day"), parted.to_table())


def test_some_row_groups_of_a_file_are_these_alone(tmp_path):
    pq.write_table(TABLE, tmp_path / "t.parquet", row_group_size=500)
    whole = next(ds.dataset(tmp_path / "t.parquet").get_fragments())
    last = whole.subset(row_group_ids=[2])
    some = ds.FileSystemDataset([last], TABLE.schema, ds.ParquetFileFormat(), fs.LocalFileSystem())
    assert_rows(lwcs.scan(some, columns=["x", "y"]), TABLE.slice(1000, 500))


def test_a_column_that_a_file_does_not_have_is_missing_there(tmp_path):
    pq.write_table(pa.table({"x": np.arange(5.0)}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"x": np.arange(5.0), "z": np.ones(5)}), tmp_path / "1.parquet")
    schema = pa.schema([("x", pa.float64()), ("z", pa.float64())])
    data = ds.dataset(tmp_path, schema=schema)
    with pytest.raises(ValueError, match=r"column 'z' has a missing value in row 0.*'drop'"):
        lwcs.build(data, 3)
    assert lwcs.build(lwcs.scan(data, missing="drop"), 3).details["dropped"] == 5


def test_kept_columns_come_beside_the_rows(folder):
    source = lwcs.scan(folder, columns="x")
    source.keep(["day"])
    parts = source.gather(lambda blocks, _: [block.beside for block in blocks])
    kept = [day for part in parts for beside in part for day in beside["day"].to_pylist()]
    assert kept == TABLE["day"].to_pylist()


@pytest.mark.parametrize("filtered", [False, True])
def test_only_the_columns_that_are_needed_are_read(filtered, tmp_path, monkeypatch):
    """The other one cannot be decoded."""
    path = tmp_path / "t.parquet"
    pq.write_table(TABLE.select(["x", "y"]), path, compression="none", use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    data = bytearray(path.read_bytes())
    start = column.data_page_offset
    data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(data)
    dataset = ds.dataset(path)
    if filtered:
        dataset = dataset.filter(ds.field("x") > -99)
    np.testing.assert_array_equal(rows_of(lwcs.scan(dataset, columns="x"))[:, 0], TABLE["x"])
    with pytest.raises((ValueError, OSError), match=r"dataset|Deserializing|Couldn't"):
        lwcs.build(dataset, 10)


def test_a_file_that_is_written_anew_between_passes_is_an_error(folder):
    source = lwcs.scan(folder, columns=["x", "y"])
    list(source.gather(lambda blocks, _: len(list(blocks))))
    with open(folder.files[0], "ab") as file:
        file.write(b"\n")
    with pytest.raises(ValueError, match="changed while it was being read"):
        lwcs.build(source, 10)


class Remembering(LocalFileSystem):
    """A file system of fsspec that remembers what it saw of files, as those of stores do."""

    protocol = "remembering"
    cachable = False

    def __init__(self):
        super().__init__()
        self.known, self.looks, self.threads, self.lock = {}, 0, set(), threading.Lock()

    def info(self, path, **options):
        if isinstance(path, os.DirEntry):  # an entry of a listing, which is one request
            return super().info(path, **options)
        known = self.known.get(path)
        if known is None:
            with self.lock:
                self.looks += 1
                self.threads.add(threading.get_ident())
            known = self.known[path] = super().info(path, **options)
        return known

    def invalidate_cache(self, path=None):
        self.known.pop(path, None)


@pytest.mark.parametrize("filtered", [False, True])
def test_a_change_is_noticed_though_fsspec_remembers_files(folder, filtered):
    kind = folder.format.default_extname.replace("arrow", "feather")
    data = ds.dataset(folder.files, format=kind, filesystem=Remembering())
    if filtered:
        data = data.filter(ds.field("x") > -99)
    source = lwcs.scan(data, columns=["x", "y"])
    lwcs.build(source, 10, random_state=0)
    os.utime(folder.files[-1], (1_000, 1_000))
    with pytest.raises(ValueError, match="changed while it was being read"):
        lwcs.build(source, 10, random_state=0)


def test_a_store_is_asked_for_one_listing_per_pass_on_a_thread_that_waits(tmp_path):
    for i in range(30):
        pq.write_table(TABLE.slice(0, 50), tmp_path / f"{i:02}.parquet")
    files = Remembering()
    data = ds.dataset(sorted(map(str, tmp_path.iterdir())), filesystem=files, format="parquet")
    files.looks = 0
    source = lwcs.scan(data, columns=["x", "y"])
    assert files.looks <= 3
    for _ in range(2):
        files.looks = 0
        files.threads.clear()
        assert len(rows_of(source)) == 1500
        assert 1 <= files.looks <= 3
        assert threading.get_ident() not in files.threads


def test_files_that_appear_later_are_not_part_of_a_dataset(parted, tmp_path):
    source = lwcs.scan(parted, columns=["x", "y"])
    expected = parted.to_table()
    pq.write_table(TABLE.drop_columns("day"), tmp_path / "h" / "day=1" / "more.parquet")
    assert_rows(source, expected)


def test_a_file_that_vanishes_is_named_as_such(folder):
    source = lwcs.scan(folder, columns=["x", "y"])
    os.remove(folder.files[1])
    with pytest.raises((FileNotFoundError, ValueError), match=r"vanished|changed"):
        lwcs.build(source, 10)


def test_a_dataset_without_rows_is_refused(tmp_path):
    pq.write_table(TABLE.slice(0, 0), tmp_path / "t.parquet")
    for data in (ds.dataset(tmp_path), ds.dataset(TABLE.slice(0, 0))):
        with pytest.raises(ValueError, match="no rows"):
            lwcs.build(lwcs.scan(data, columns=["x", "y"]), 10)


def test_weights_models_and_typing_errors(folder):
    source = lwcs.scan(folder, columns="x", weight="y")
    weight = lwcs.build(source, 100, random_state=0).total_weight
    assert weight == pytest.approx(TABLE["y"].to_numpy().sum())
    with pytest.raises(ValueError, match="did you mean 'day'"):
        lwcs.scan(folder, columns=["dya"])
    with pytest.raises(ValueError, match=r"format= is for files, but data is of type FileSystem"):
        lwcs.scan(folder, format="parquet")
    model = lwcs.CoresetKMeans(3, random_state=0).fit(lwcs.scan(folder, columns=["x", "y"]))
    np.testing.assert_array_equal(model.predict(folder), model.predict(TABLE))


@pytest.mark.parametrize("kind", ["feather", "filtered"])
def test_a_limit_that_cannot_hold_a_few_batches_is_refused(kind, tmp_path):
    rows = pa.table({"a": np.random.default_rng(0).random(2_000_000), "b": np.zeros(2_000_000)})
    feather.write_feather(rows, tmp_path / "a.feather", chunksize=2_000_000)
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=2_000_000, use_dictionary=False)
    filtered = ds.dataset(tmp_path / "a.parquet").filter(ds.field("a") > 0.5)
    data = str(tmp_path / "a.feather") if kind == "feather" else filtered
    with pytest.raises(ValueError, match="too little to read 2 columns"):
        lwcs.scan(data, memory_limit="80MB")
    lwcs.scan(data, memory_limit="400MB")
