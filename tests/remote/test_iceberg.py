"""Iceberg tables are data through pyiceberg, at one snapshot; their folders are refused."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import lwcs
from tests.remote.test_delta import assert_rows, count

pytest.importorskip("pyiceberg")
N = 1500


def rows(seed):
    rng = np.random.default_rng(seed)
    return pa.table({"x": rng.normal(size=N), "y": rng.uniform(size=N), "word": ["w"] * N})


@pytest.fixture
def catalog(tmp_path):
    from pyiceberg.catalog.sql import SqlCatalog

    found = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/lake")
    found.create_namespace("n")
    yield found
    found.close()


@pytest.fixture
def table(catalog):
    made = catalog.create_table("n.t", schema=rows(0).schema)
    for seed in range(3):
        made.append(rows(seed))
    made.delete("x < 0")
    return made


@pytest.fixture
def folder(table, tmp_path):
    return tmp_path / "lake" / "n" / "t"


def test_a_table_is_read_at_its_snapshot(table):
    from pyiceberg.table import StaticTable

    present = table.scan().to_arrow()
    assert 0 < len(present) < 3 * N
    for data in (table, StaticTable.from_metadata(table.metadata_location)):
        coreset = assert_rows(lwcs.scan(data, exclude="word"), present)
        assert coreset.details["table_version"] == str(table.current_snapshot().snapshot_id)


def test_a_scan_keeps_its_filter_its_columns_and_its_limit(table):
    scan = table.scan(row_filter="x > 1", selected_fields=("y", "x"))
    assert_rows(lwcs.scan(scan), scan.to_arrow())
    some = lwcs.scan(table.scan(limit=700), columns="x")
    assert sum(some.gather(count)) == 700
    first = table.snapshots()[0].snapshot_id
    old = lwcs.scan(table.scan(snapshot_id=first), columns="x")
    assert lwcs.build(old, 10).details["table_version"] == str(first)
    assert old.n_rows == N


def test_both_passes_see_one_snapshot(table, catalog):
    present = table.scan().to_arrow()
    source = lwcs.scan(table, exclude="word")
    assert sum(source.gather(count)) == len(present)
    table.append(rows(9))
    table.delete("y < 0.5")
    assert sum(source.gather(count)) == len(present)
    catalog.load_table("n.t").overwrite(rows(10))
    assert_rows(source, present)


def test_only_the_columns_that_are_needed_are_read(table, monkeypatch):
    from pyiceberg.io import pyarrow as reading

    asked = []
    scan = reading.ArrowScan

    def spied(metadata, io, schema, *others):
        asked.append(schema.column_names)
        return scan(metadata, io, schema, *others)

    monkeypatch.setattr(reading, "ArrowScan", spied)
    source = lwcs.scan(table, columns="y")
    source.keep(["word"])
    beside = next(source.gather(lambda blocks, _: next(blocks).beside))
    assert beside.column_names == ["word"]
    assert asked == [["y", "word"]]


def test_columns_that_were_renamed_or_added_are_those_of_the_table(table):
    with table.update_schema() as update:
        update.rename_column("x", "width")
        update.add_column("z", update._schema.find_type("y"))
    table.append(rows(5).rename_columns(["width", "y", "word"]).append_column("z", [np.ones(N)]))
    assert_rows(lwcs.scan(table, columns=["width", "y"]), table.scan().to_arrow())
    with pytest.raises(ValueError, match=r"column 'z' has a missing value"):
        lwcs.build(lwcs.scan(table, columns=["z"]), 10)
    coreset = lwcs.build(lwcs.scan(table, columns=["z"], missing="drop"), 10)
    assert coreset.total_weight == pytest.approx(N)


def test_a_table_without_rows_is_refused(table, catalog):
    for empty in (catalog.create_table("n.e", schema=rows(0).schema), table):
        if empty is table:
            table.delete("x >= 0")
        with pytest.raises(ValueError, match=r"no rows.*Iceberg table 'n\.\w'"):
            lwcs.scan(empty)


@pytest.mark.parametrize("wish", ["", "data", "data/*.parquet", "**/*.parquet", "../../../lake"])
def test_its_folder_is_refused_with_the_way_to_open_it(wish, folder):
    with pytest.raises(ValueError, match=r"Iceberg table.*deleted rows.*load_table"):
        lwcs.scan(folder / wish)


def test_a_file_of_a_table_that_is_named_is_read_with_a_warning(folder):
    file = next(iter((folder / "data").glob("*.parquet")))
    with pytest.warns(UserWarning, match=r"Iceberg table .* no longer"):
        lwcs.scan(file, exclude="word")


def test_a_folder_named_metadata_does_not_make_a_table(tmp_path):
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "notes.metadata.json").write_text("{}")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,4\n")
    assert lwcs.scan(tmp_path).feature_names == ("a", "b")


def test_a_folder_of_hudi_is_refused_with_the_way_to_open_it(tmp_path):
    (tmp_path / ".hoodie").mkdir()
    (tmp_path / "2024").mkdir()
    (tmp_path / "2024" / "rows.csv").write_text("a,b\n1,2\n3,4\n")
    for wish in (tmp_path, tmp_path / "2024", tmp_path / "*/*.csv"):
        with pytest.raises(ValueError, match=r"Hudi table.*deleted rows.*format\('hudi'\)"):
            lwcs.scan(wish)


def test_a_partition_of_hudi_on_a_store_is_refused(bucket):
    store = bucket.filesystem
    for name in (".hoodie/hoodie.properties", "west/.hoodie_partition_metadata", "west/rows.csv"):
        with store.open_output_stream(f"{bucket.name}/t/{name}") as file:
            file.write(b"a,b\n1,2\n3,4\n")
    for wish in ("t", "t/west", "t/west/*.csv", "t/*"):
        with pytest.raises(ValueError, match=r"Hudi table.*load\('.*/t'\)"):
            lwcs.scan(f"{bucket.name}/{wish}", filesystem=store)


def test_a_table_on_a_store_is_data_and_its_folder_is_refused(bucket, tmp_path):
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog(
        "c",
        **{
            "uri": f"sqlite:///{tmp_path}/c.db",
            "warehouse": bucket.uri("lake"),
            "s3.endpoint": bucket.endpoint,
            "s3.access-key-id": "testing",
            "s3.secret-access-key": "testing",
            "s3.region": "us-east-1",
        },
    )
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", schema=rows(0).schema)
    table.append(rows(0))
    table.delete("x < 0")
    assert_rows(lwcs.scan(table, exclude="word"), table.scan().to_arrow())
    place = table.location().removeprefix("s3://")
    for wish in (place, f"{place}/data", f"{place}/data/*.parquet", f"{bucket.name}/lake"):
        with pytest.raises(ValueError, match=r"Iceberg table.*deleted rows"):
            lwcs.scan(wish, filesystem=bucket.filesystem)
    catalog.close()


def test_polars_lazy_tables_are_data(table, monkeypatch):
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    source = lwcs.scan(pl.scan_iceberg(table), columns=["x", "y"])
    assert sum(source.gather(count)) == len(table.scan().to_arrow())


def test_models_are_fitted_on_tables_and_predict_them(table):
    model = lwcs.CoresetKMeans(3, random_state=0).fit(lwcs.scan(table, exclude="word"))
    present = table.scan().to_arrow()
    np.testing.assert_array_equal(model.predict(table), model.predict(present))
