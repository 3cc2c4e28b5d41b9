"""`lwcs assign` to folders: partitioned by columns, or one file per input file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import lwcs
from lwcs.cli import folders
from tests.cli.running import run

DAYS = [None, "a b", "c/d", "=%"]


@pytest.fixture
def work(tmp_path, monkeypatch) -> Path:
    """Three files, the last of which has no rows, in two folders, and a model."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((900, 2))
    Path("in/sub").mkdir(parents=True)
    for name, part in zip(("a", "sub/b", "sub/c"), np.split(X, [500, 900]), strict=True):
        n = len(part)
        days = pa.array([DAYS[i % 4] for i in range(n)], pa.string())
        table = {"x": part[:, 0], "y": part[:, 1], "id": np.arange(n), "day": days}
        pq.write_table(pa.table(table), f"in/{name}.parquet")
    model = lwcs.CoresetKMeans(3, coreset_size=100, random_state=0)
    model.fit(X).save("m.parquet")
    assert (
        run("assign", "in", "m.parquet", *COLUMNS, "--keep", "id,day", "-o", "all.parquet")[0] == 0
    )
    return tmp_path


COLUMNS = ("--columns", "x,y")


def assigned(*more: str) -> str:
    code, _, said = run("assign", "in", "m.parquet", *COLUMNS, "--keep", "id,day", *more)
    assert code == 0, said
    return said


def refused(*more: str) -> str:
    code, _, said = run("assign", "in", "m.parquet", *COLUMNS, *more)
    assert code in (1, 2), said
    return said.strip().splitlines()[-1]


def test_partitions_hold_all_rows_under_the_names_of_their_values(work, small_partitions):
    assigned("--partition-by", "label,day", "-o", "out")
    found = ds.dataset("out", partitioning="hive").to_table().sort_by("row")
    whole = pq.read_table("all.parquet")
    for name in whole.column_names:
        assert found[name].to_pylist() == whole[name].to_pylist()
    assert "label" not in pq.read_schema("out/label=0/day=a b/part-0.parquet").names
    assert Path("out/label=0/day=__HIVE_DEFAULT_PARTITION__/part-0.parquet").exists()


def test_more_partitions_than_open_files_lose_nothing(work, monkeypatch, small_partitions):
    monkeypatch.setattr(folders, "_OPEN_FILES", 2)
    monkeypatch.setattr(folders, "_WAITING_BYTES", 0)
    assigned("--partition-by", "day", "-o", "out.csv")
    files = list(Path("out.csv").rglob("*.csv"))
    assert len(files) > 4
    rows = sorted(row for file in files for row in pc.read_csv(file)["row"].to_pylist())
    assert rows == list(range(900))


def test_one_file_per_file_has_its_rows_from_zero(work, small_partitions):
    assigned("--per-file", "-o", "out")
    found = sorted(str(path) for path in Path("out").rglob("*.parquet"))
    assert found == ["out/a.parquet", "out/sub/b.parquet", "out/sub/c.parquet"]
    tables = [pq.read_table(path) for path in found]
    assert [len(table) for table in tables] == [500, 400, 0]
    whole = pq.read_table("all.parquet")
    for table in tables:
        assert table["row"].to_pylist() == table["id"].to_pylist()
        assert table.schema.equals(whole.schema)
    assert pa.concat_tables(tables)["label"].equals(whole["label"])


def test_files_of_a_list_keep_the_folders_in_which_they_differ(work):
    run(
        "assign", "in/a.parquet", "in/sub/b.parquet", "m.parquet", *COLUMNS, "--per-file", "-o", "o"
    )
    assert sorted(str(path) for path in Path("o").rglob("*.parquet")) == [
        "o/a.parquet",
        "o/sub/b.parquet",
    ]


def test_the_ending_of_the_folder_is_that_of_its_files(work):
    assigned("--per-file", "-o", "out.tsv.gz")
    assert Path("out.tsv.gz/sub/b.tsv.gz").exists()


def test_what_cannot_be_a_folder_of_files_is_refused(work):
    assert "there are files in it" in refused("--per-file", "-o", "in")
    assert "'m.parquet': that is a file; name a folder" in refused("--per-file", "-o", "m.parquet")
    assert "--per-file writes a folder, not standard output" in refused("--per-file", "-o", "-")
    both = refused("--per-file", "--partition-by", "label", "-o", "out")
    assert "--partition-by and --per-file are both given" in both
    by = "--partition-by"
    assert "the output has no such column; its columns are row," in refused(by, "day", "-o", "out")
    assert "has a value of its own in every row" in refused(by, "row", "-o", "out")
    assert "the column holds double" in refused(by, "squared_distance", "-o", "out")
    assert "names a column twice" in refused(by, "label,label", "-o", "out")
    pc.write_csv(pq.read_table("in/a.parquet"), "a.csv")
    Path("a.csv.gz").write_bytes(pa.compress(Path("a.csv").read_bytes(), "gzip", asbytes=True))
    files = ["assign", "a.csv", "a.csv.gz", "m.parquet", *COLUMNS, "--per-file", "-o", "out"]
    assert "would both be written to 'a.parquet'" in run(*files)[2]
    np.save("x.npy", np.zeros((3, 2)))
    arrays = ["assign", "x.npy", "m.parquet", "--per-file", "-o", "out"]
    assert "--per-file is for Parquet, Feather and CSV files" in run(*arrays)[2]
    assert not Path("out").exists()


def test_too_many_partitions_leave_nothing(work, monkeypatch):
    monkeypatch.setattr(folders, "MOST_PARTITIONS", 100)
    said = refused("--keep", "id", "--partition-by", "id", "-o", "out")
    assert said == (
        "Error: --partition-by id gives more than 100 folders; pass columns with fewer values"
    )
    assert sorted(path.name for path in work.iterdir()) == ["all.parquet", "in", "m.parquet"]


def test_an_empty_folder_is_filled(work):
    Path("out").mkdir()
    assigned("--per-file", "-o", "out")
    assert Path("out/a.parquet").exists()


@pytest.mark.parametrize("data", ["in", "in/*.parquet", "./in/"])
def test_an_output_that_the_next_run_would_read_is_refused(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"x": np.random.default_rng(0).random(50)})
    (tmp_path / "in").mkdir()
    pq.write_table(rows, "in/a.parquet")
    assert run("fit", data, "-k", "2", "-o", "m.parquet")[0] == 0
    code, _, said = run("assign", data, "m.parquet", "-o", "in/labels.parquet")
    assert code == 2
    assert "would be a part of DATA" in said
    assert run("assign", data, "m.parquet", "-o", "in/.labels.parquet")[0] == 0
    if "*" not in data:
        (tmp_path / "in" / "out").mkdir()
        code, _, said = run("assign", data, "m.parquet", "--per-file", "-o", "in/out")
        assert (code, "would be a part of DATA" in said) == (2, True)
