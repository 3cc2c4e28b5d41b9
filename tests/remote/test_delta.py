"""Delta tables are read by their log: deleted rows stay deleted; both passes see one version."""

from __future__ import annotations

import json
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import lwcs
from lwcs.sources.tables.table_formats import TableDetector
from tests.cli.running import run
from tests.remote.deltas import delete_by_vector, rename_columns, rewrite

deltalake = pytest.importorskip("deltalake")
DeltaTable, write_deltalake = deltalake.DeltaTable, deltalake.write_deltalake
N = 3000


def rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    day = np.arange(n) % 3
    return pa.table({"x": rng.normal(size=n), "y": rng.uniform(size=n), "day": day})


@pytest.fixture
def folder(tmp_path):
    """A table that had rows appended, deleted and updated, in partitions."""
    path = str(tmp_path / "table")
    for seed in range(3):
        write_deltalake(path, rows(seed), partition_by=["day"], mode="append")
    DeltaTable(path).delete("x < 0")
    DeltaTable(path).update(updates={"y": "y + 10"}, predicate="x > 1")
    return path


def assert_rows(source, table):
    """The source gives the coreset of the rows of a table in memory, to the last bit."""
    X = np.column_stack([table[name].to_numpy() for name in source.feature_names])
    found = lwcs.build(source, 200, random_state=0)
    expected = lwcs.build(X, 200, random_state=0, passes=2)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.weights, expected.weights)
    np.testing.assert_array_equal(found.points, expected.points)
    return found


def count(blocks, _):
    return sum(len(block.points) for block in blocks)


def test_a_folder_or_a_table_is_read_by_its_log(folder):
    table = DeltaTable(folder)
    present = table.to_pyarrow_table()
    assert 0 < len(present) < 3 * N
    for data in (folder, folder + "/", table, table.to_pyarrow_dataset()):
        assert_rows(lwcs.scan(data, exclude="day"), present)


def test_the_coreset_says_which_version_it_is_of(folder, tmp_path):
    for data in (folder, DeltaTable(folder)):
        coreset = lwcs.build(lwcs.scan(data, exclude="day"), 50, random_state=0)
        assert coreset.details["table_version"] == "4"
    coreset.save(tmp_path / "c.parquet")
    assert lwcs.load(tmp_path / "c.parquet").details["table_version"] == "4"
    old = lwcs.scan(DeltaTable(folder, version=2), exclude="day")
    assert lwcs.build(old, 50, random_state=0).details["table_version"] == "2"
    assert old.n_rows == 3 * N


@pytest.mark.parametrize("as_folder", [True, False])
def test_both_passes_see_one_version_of_the_table(folder, as_folder):
    present = DeltaTable(folder).to_pyarrow_table()
    table = DeltaTable(folder)
    source = lwcs.scan(folder if as_folder else table, exclude="day")
    assert sum(source.gather(count)) == len(present)
    table.delete("x > 0.5")
    write_deltalake(folder, rows(9), mode="append")
    assert sum(source.gather(count)) == len(present)
    write_deltalake(folder, rows(10), mode="overwrite")
    assert_rows(source, present)


def test_files_that_are_vacuumed_between_passes_are_an_error(folder):
    source = lwcs.scan(folder, exclude="day")
    table = DeltaTable(folder)
    table.delete()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(
        FileNotFoundError, match=r"Delta table .*version 4.*vanished.*open it again"
    ):
        lwcs.build(source, 50)


@pytest.mark.parametrize("inside", ["*.parquet", "day=1", "**/*.parquet", "day=*", "_delta_log"])
def test_what_is_inside_of_a_table_is_refused_with_the_way_to_open_it(inside, folder):
    with pytest.raises(ValueError, match="deleted rows; pass the folder of the table"):
        lwcs.scan(f"{folder}/{inside}")


def test_tables_below_a_folder_are_refused(folder, tmp_path):
    for wish in (tmp_path, tmp_path / "*", tmp_path / "tab*", tmp_path / "**/*.parquet"):
        with pytest.raises(ValueError, match=r"files of the Delta table '.*/table'"):
            lwcs.scan(wish)
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,4\n")
    assert lwcs.scan(tmp_path / "*.csv").feature_names == ("a", "b")
    assert lwcs.scan(tmp_path / "**/*.csv").feature_names == ("a", "b")


def test_a_path_relative_to_a_table_and_a_link_into_it_are_refused(folder, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(f"{folder}/day=1")
    with pytest.raises(ValueError, match="deleted rows"):
        lwcs.scan(tmp_path / "link")
    monkeypatch.chdir(f"{folder}/day=1")
    for wish in (".", "*.parquet"):
        with pytest.raises(ValueError, match="deleted rows"):
            lwcs.scan(wish)


def test_a_file_of_a_table_that_is_named_is_read_with_one_warning(folder):
    files = [f"{folder}/{name}" for name in DeltaTable(folder).to_pyarrow_dataset().files]
    with pytest.warns(UserWarning, match="no longer") as caught:
        assert lwcs.scan(files, exclude="day").n_rows
    assert len(caught) == 1


def test_a_table_is_not_mixed_with_files_nor_with_their_options(folder, tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="pass it alone"):
        lwcs.scan([folder, tmp_path / "rows.csv"])
    with pytest.raises(ValueError, match=r"format='parquet' is given.*Delta"):
        lwcs.scan(folder, format="parquet")
    with pytest.raises(ValueError, match=r"delimiter= is for text"):
        lwcs.scan(folder, delimiter=";")
    with pytest.raises(ValueError, match=r"storage_options= is for files"):
        lwcs.scan(DeltaTable(folder), storage_options={"anon": True})


def test_only_the_log_is_looked_up_where_there_is_no_table(tmp_path, monkeypatch):
    """Beside the listing, at most the names of logs above the folder."""
    import pyarrow.parquet as pq

    place = tmp_path / "a" / "b"
    for i in range(50):
        (place / f"k{i}").mkdir(parents=True)
        pq.write_table(rows(i, 5), place / f"k{i}" / "p.parquet")
    asked = []
    lookup = TableDetector._tables_in
    monkeypatch.setattr(
        TableDetector,
        "_tables_in",
        lambda self, folders: asked.append(folders) or lookup(self, folders),
    )
    assert lwcs.scan(place, exclude="day").n_rows == 250
    assert len(asked) == 1
    assert len(asked[0]) == len(place.parts)
    asked.clear()
    files = sorted(place.glob("*/*.parquet"))
    assert lwcs.scan(files, exclude="day").n_rows == 250
    assert sum(map(len, asked)) == len(place.parts) + len(files)


def test_partition_columns_are_features_only_if_they_are_named(folder):
    table = DeltaTable(folder)
    present = table.to_pyarrow_table()
    every = table.to_pyarrow_dataset()
    for data in (folder, table, every, every.filter(ds.field("x") > 1)):
        with pytest.warns(lwcs.ColumnWarning, match=r"'day' \(from the names of folders\)"):
            assert lwcs.scan(data).feature_names == ("x", "y")
    assert_rows(lwcs.scan(folder, columns=["day", "x"]), present)
    assert_rows(lwcs.scan(folder, columns="day"), present)


def test_partitions_of_text_with_odd_characters_and_without_a_value(tmp_path):
    data = pa.table({"x": np.arange(5.0), "p": ["a b", "c/d", "e%f", "é", None]})
    write_deltalake(tmp_path / "t", data, partition_by=["p"])
    source = lwcs.scan(tmp_path / "t", exclude="p")
    source.keep(["p"])
    tables = source.gather(lambda blocks, _: [block.beside for block in blocks])
    kept = [text for part in tables for beside in part for text in beside["p"].to_pylist()]
    assert set(kept) == set(data["p"].to_pylist())


def test_a_column_that_was_added_later_is_missing_in_older_rows(tmp_path):
    path = tmp_path / "t"
    write_deltalake(path, pa.table({"x": np.arange(100.0)}))
    later = pa.table({"x": np.arange(50.0), "z": np.ones(50)})
    write_deltalake(path, later, mode="append", schema_mode="merge")
    with pytest.raises(ValueError, match=r"column 'z' has a missing value.*missing='drop'"):
        lwcs.build(lwcs.scan(path), 20)
    coreset = lwcs.build(lwcs.scan(path, missing="drop"), 20, random_state=0)
    assert coreset.total_weight == pytest.approx(50)
    assert coreset.details["dropped"] == 100
    assert lwcs.scan(path, columns="x").n_rows == 150


def test_merged_and_restored_tables_are_read_as_they_are(folder):
    table = DeltaTable(folder)
    changes = rows(5, 90)
    (
        table.merge(changes, "t.x = s.x", source_alias="s", target_alias="t")
        .when_not_matched_insert_all()
        .execute()
    )
    assert_rows(lwcs.scan(folder, exclude="day"), table.to_pyarrow_table())
    table.restore(0)
    assert lwcs.scan(folder, exclude="day").n_rows == N
    assert_rows(lwcs.scan(folder, exclude="day"), DeltaTable(folder).to_pyarrow_table())


def test_tables_without_rows_are_refused(folder, tmp_path):
    DeltaTable.create(tmp_path / "new", schema=pa.schema([("x", pa.float64())]))
    DeltaTable(folder).delete()
    write_deltalake(tmp_path / "none", rows().slice(0, 0))
    for path in (tmp_path / "new", folder, tmp_path / "none"):
        with pytest.raises(ValueError, match=r"no rows.*Delta table"):
            lwcs.scan(path, exclude="day" if path != tmp_path / "new" else None)


def test_deletion_vectors_are_refused_by_name_and_read_by_polars(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, rows(0, 100))
    delete_by_vector(path, [3, 4, 7])
    for data in (path, DeltaTable(path)):
        with pytest.raises(ValueError, match=r"deletionVectors.*polars\.scan_delta"):
            lwcs.scan(data)
    assert sum(lwcs.scan(pl.scan_delta(path)).gather(count)) == 97


def test_renamed_columns_are_refused_instead_of_read_as_nulls(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, rows(0, 100))
    rename_columns(path, {"x": "y", "y": "x", "day": "day"})
    table = DeltaTable(path)
    for data in (path, table):
        with pytest.raises(ValueError, match=r"column mapping.*scan\(\), which is read once"):
            lwcs.scan(data)
    if hasattr(table, "scan"):
        source = lwcs.scan(table.scan(), columns=["y"])
        mean = lwcs.build(source, 10).mean
        assert mean == pytest.approx([rows(0, 100)["x"].to_numpy().mean()])


def test_a_damaged_log_and_a_missing_library_are_said(folder, tmp_path, monkeypatch):
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"Delta table '.*' cannot be opened"):
        lwcs.scan(tmp_path / "t")
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(ImportError, match=r"by its log.*pip install 'lwcs\[delta\]'"):
        lwcs.scan(folder)


def test_the_commands_read_a_table_and_keep_its_columns(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build = ("build", "table", "--exclude", "day", "--size", "100", "--seed", "0")
    code, said, _ = run(*build, "-o", "c.parquet", "--json")
    assert (code, json.loads(said)["table_version"]) == (0, "4")
    code, _, said = run("build", "table/*.parquet", "--size", "100", "-o", "d.parquet")
    assert code == 1
    assert "pass the folder of the table" in said
    assert run("fit", "c.parquet", "-k", "3", "-o", "m.parquet")[0] == 0
    assert run("assign", "table", "m.parquet", "--keep", "day", "-o", "l.parquet")[0] == 0
    present = DeltaTable(folder).to_pyarrow_table()
    assert pl.read_parquet("l.parquet")["day"].to_list() == present["day"].to_pylist()


def test_models_are_fitted_on_tables_and_predict_them(folder):
    table = DeltaTable(folder)
    model = lwcs.CoresetKMeans(3, random_state=0).fit(lwcs.scan(table, exclude="day"))
    labels = model.predict(table)
    np.testing.assert_array_equal(labels, model.predict(folder))
    present = table.to_pyarrow_table().select(["x", "y"])
    np.testing.assert_array_equal(labels, model.predict(present))


@pytest.fixture
def on_s3(bucket):
    """A table on S3, with a checkpoint in the midst of its log."""
    options = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_ENDPOINT_URL": bucket.endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
    }
    for seed in range(3):
        write_deltalake(
            bucket.uri("lake/table"), rows(seed), partition_by=["day"], mode="append",
            storage_options=options,
        )  # fmt: skip
    table = DeltaTable(bucket.uri("lake/table"), storage_options=options)
    table.create_checkpoint()
    table.delete("x < 0")
    return table


def test_a_table_on_a_store_is_read_through_any_file_system(bucket, on_s3):
    present = on_s3.to_pyarrow_table()
    by_options = lwcs.scan(
        bucket.uri("lake/table"), storage_options=bucket.storage_options, exclude="day"
    )
    by_filesystem = lwcs.scan(
        f"{bucket.name}/lake/table", filesystem=bucket.filesystem, exclude="day"
    )
    for source in (by_options, by_filesystem, lwcs.scan(on_s3, exclude="day")):
        assert assert_rows(source, present).details["table_version"] == "3"


@pytest.mark.parametrize("wish", ["lake/table/day=1", "lake/table/*/*.parquet", "lake", "l*"])
def test_what_is_inside_of_a_table_on_a_store_is_refused(wish, bucket, on_s3):
    with pytest.raises(ValueError, match=r"Delta table '.*/lake/table'.*deleted rows"):
        lwcs.scan(bucket.uri(wish), storage_options=bucket.storage_options)
    with pytest.raises(ValueError, match=r"Delta table '.*/lake/table'.*deleted rows"):
        lwcs.scan(f"{bucket.name}/{wish}", filesystem=bucket.filesystem)


def test_few_names_are_looked_up_on_a_store(bucket, monkeypatch):
    import pyarrow.parquet as pq

    path = f"{bucket.name}/some/where/else/t.parquet"
    pq.write_table(rows(0, 100), path, filesystem=bucket.filesystem)
    asked = []
    lookup = TableDetector._tables_in
    monkeypatch.setattr(
        TableDetector,
        "_tables_in",
        lambda self, folders: asked.extend(folders) or lookup(self, folders),
    )
    lwcs.scan(path, filesystem=bucket.filesystem, exclude="day")
    assert asked == [f"{bucket.name}/some/where/else"]


def test_polars_lazy_tables_are_data(folder):
    source = lwcs.scan(pl.scan_delta(folder), exclude="day")
    assert sum(source.gather(count)) == len(DeltaTable(folder).to_pyarrow_table())


def test_duckdb_relations_over_tables_are_data(folder):
    duckdb = pytest.importorskip("duckdb")
    dataset = DeltaTable(folder).to_pyarrow_dataset()
    relation = duckdb.connect().from_arrow(dataset).filter("x > 1")
    source = lwcs.scan(relation, columns=["x", "y"])
    expected = dataset.to_table(filter=ds.field("x") > 1)
    assert sum(source.gather(count)) == len(expected)


def test_files_of_a_table_that_lie_elsewhere_are_refused(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, rows(0, 100))

    def change(action):
        if "add" in action:
            action["add"]["path"] = f"file://{tmp_path}/original/{action['add']['path']}"

    rewrite(path, change)
    with pytest.raises(ValueError, match=r"in other places.*shallow clone"):
        lwcs.scan(path)


def test_rows_are_read_where_folders_above_may_not_be_looked_into(bucket, monkeypatch):
    import pyarrow.parquet as pq

    path = f"{bucket.name}/a=1/b=2/t.parquet"
    pq.write_table(rows(0, 100), path, filesystem=bucket.filesystem)
    lookup = TableDetector._tables_in

    def forbidden(self, folders):
        if any(not folder.endswith("/a=1/b=2") for folder in folders):
            raise PermissionError("403")
        return lookup(self, folders)

    monkeypatch.setattr(TableDetector, "_tables_in", forbidden)
    for wish in (path, f"{bucket.name}/a=1/b=2"):
        source = lwcs.scan(wish, filesystem=bucket.filesystem, columns=["x", "y"])
        assert source.n_rows == 100
