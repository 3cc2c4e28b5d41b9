"""Coreset files: plain Parquet for others, exact for us, whole or not there at all."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.storage import atomic_write
from lwcs.storage import persistence as storage


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).standard_t(4, size=(500, 4))


def coresets(X: np.ndarray) -> dict[str, lwcs.Coreset]:
    frame = pd.DataFrame(X, columns=["weight", "count", "index", "größe"])
    half = lwcs.build(X[:250], 40, random_state=0)
    return {
        "dense": lwcs.build(X, 50, random_state=0),
        "float32": lwcs.build(X.astype(np.float32), 50, random_state=0),
        "float16": lwcs.build(X.astype(np.float16), 50, random_state=0),
        "int8": lwcs.build((10 * X).clip(-100, 100).astype(np.int8), 50, random_state=0),
        "sparse": lwcs.build(sp.csr_array(np.where(X > 0, X, 0)), 50, random_state=0),
        "sparse, no non-zeros": lwcs.build(sp.csr_array((30, 4)), 5, random_state=0),
        "scaled": lwcs.build(lwcs.scan(X, scale="standard"), 50, random_state=0),
        "features called weight, count and index": lwcs.build(frame, 50, random_state=0),
        "uniform": lwcs.build(X, 50, method="uniform", random_state=0),
        "union": half + half,
        "reduced union": (half + half).reduce(10, random_state=0),
        "large seed": lwcs.build(X, 50, random_state=2**62 + 1),
    }


@pytest.mark.parametrize("name", coresets(np.ones((500, 4))))
def test_what_is_saved_is_loaded(X, name, tmp_path):
    coreset = coresets(X)[name]
    coreset.save(tmp_path / "c.parquet")
    assert lwcs.load(tmp_path / "c.parquet") == coreset
    assert lwcs.load(str(tmp_path / "c.parquet")) == coreset


def test_other_tools_read_a_plain_table(X, tmp_path):
    coreset = lwcs.build(pd.DataFrame(X, columns=list("abcd")), 50, random_state=0)
    path = tmp_path / "c.parquet"
    coreset.save(path)
    for frame in (
        pd.read_parquet(path),
        pl.read_parquet(path).to_pandas(),
        duckdb.sql(f"select * from '{path}'").df(),
    ):
        assert list(frame.columns) == ["index", "weight", "count", "a", "b", "c", "d"]
        np.testing.assert_array_equal(frame["weight"], coreset.weights)
        np.testing.assert_array_equal(frame[list("abcd")], coreset.points)


def test_the_schema_says_how_it_was_made(X, tmp_path):
    lwcs.build(X, 50, random_state=7).save(tmp_path / "c.parquet")
    metadata = json.loads(pq.read_schema(tmp_path / "c.parquet").metadata[b"lwcs"])
    assert metadata["format_version"] == 2
    assert metadata["kind"] == "coreset"
    assert metadata["method"] == "lightweight"
    assert metadata["divergence"] == "sqeuclidean"
    assert metadata["n_samples"] == 500
    assert metadata["total_weight"] == 500.0
    assert metadata["seed"] == 7
    assert metadata["library_version"] == lwcs.__version__
    assert metadata["feature_names"] is None
    assert metadata["columns"]["weight"] == "weight"
    np.testing.assert_allclose(metadata["mean"], X.mean(axis=0))
    assert metadata["total_cost"] == pytest.approx(((X - X.mean(axis=0)) ** 2).sum())


def test_to_arrow_is_what_the_file_holds(X, tmp_path):
    coreset = lwcs.build(X, 50, random_state=0)
    coreset.save(tmp_path / "c.parquet")
    assert coreset.to_arrow().equals(pq.read_table(tmp_path / "c.parquet"), check_metadata=True)


@pytest.mark.parametrize("keep", [0, 3, 100, 0.5, 0.99])
def test_a_truncated_file_is_refused(X, keep, tmp_path):
    path = tmp_path / "c.parquet"
    lwcs.build(X, 50, random_state=0).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: keep if isinstance(keep, int) else int(keep * len(whole))])
    with pytest.raises(ValueError, match=r"c\.parquet' cannot be read as Parquet"):
        lwcs.load(path)


def test_a_flipped_bit_in_the_rows_is_noticed(X, tmp_path):
    path = tmp_path / "c.parquet"
    lwcs.build(X, 50, random_state=0).save(path)
    whole = path.read_bytes()
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    assert column.path_in_schema == "weight"
    at = column.dictionary_page_offset or column.data_page_offset
    damaged = bytearray(whole)
    damaged[at + column.total_compressed_size - 10] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        lwcs.load(path)


def test_a_foreign_table_is_refused(tmp_path):
    pq.write_table(pa.table({"weight": [1.0]}), tmp_path / "c.parquet")
    with pytest.raises(ValueError, match="lwcs did not write"):
        lwcs.load(tmp_path / "c.parquet")


def rewritten(path: Path, **changes: object) -> None:
    table = pq.read_table(path)
    metadata = json.loads(table.schema.metadata[b"lwcs"])
    pq.write_table(storage.sealed(table, metadata | changes), path)


def test_a_newer_format_is_refused(X, tmp_path):
    path = tmp_path / "c.parquet"
    lwcs.build(X, 50, random_state=0).save(path)
    rewritten(path, format_version=99)
    with pytest.raises(ValueError, match=r"format version 99.*upgrade lwcs"):
        lwcs.load(path)


def test_an_unknown_kind_is_refused(X, tmp_path):
    path = tmp_path / "c.parquet"
    lwcs.build(X, 50, random_state=0).save(path)
    rewritten(path, kind="horoscope")
    with pytest.raises(ValueError, match="'horoscope'"):
        lwcs.load(path)


@pytest.mark.parametrize("change", [{"columns": None}, {"n_features": 9}, {"mean": "x"}])
def test_damaged_metadata_is_refused(X, change, tmp_path):
    path = tmp_path / "c.parquet"
    lwcs.build(X, 50, random_state=0).save(path)
    rewritten(path, **change)
    with pytest.raises(ValueError, match="is damaged: "):
        lwcs.load(path)


def test_a_pickle_is_never_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    (tmp_path / "c.parquet").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        lwcs.load(tmp_path / "c.parquet")
    assert not (tmp_path / "exploded").exists()


def test_pickle_is_used_for_messages_between_processes_alone():
    package = Path(lwcs.__file__).parent
    users = sorted(p for p in package.rglob("*.py") if "import pickle" in p.read_text("utf-8"))
    assert users == [package / "sources" / "engines" / name for name in ("engine.py", "workers.py")]
    for user in users:
        assert "open(" not in user.read_text("utf-8").replace("open_local(", "")


def test_a_missing_file_and_folder_are_named(X, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        lwcs.load(tmp_path / "nowhere.parquet")
    with pytest.raises(ValueError, match="is not a file"):
        lwcs.load(tmp_path)
    with pytest.raises(IsADirectoryError, match="name a file in it"):
        lwcs.build(X, 5).save(tmp_path)
    with pytest.raises(FileNotFoundError, match="create it first"):
        lwcs.build(X, 5).save(tmp_path / "no" / "c.parquet")


@pytest.mark.parametrize("error", [OSError("No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(X, error, tmp_path, monkeypatch):
    path = tmp_path / "c.parquet"
    old = lwcs.build(X, 50, random_state=0)
    old.save(path)

    def fail(table, where, **_):
        Path(where).write_bytes(b"PAR1 half of")
        raise error

    monkeypatch.setattr(pq, "write_table", fail)
    with pytest.raises(type(error)):
        lwcs.build(X, 50, random_state=1).save(path)
    assert lwcs.load(path) == old
    assert os.listdir(tmp_path) == ["c.parquet"]


def test_a_link_is_followed(X, tmp_path):
    (tmp_path / "link.parquet").symlink_to(tmp_path / ("c" * 240 + ".parquet"))
    coreset = lwcs.build(X, 5, random_state=0)
    coreset.save(tmp_path / "link.parquet")
    assert (tmp_path / "link.parquet").is_symlink()
    assert lwcs.load(tmp_path / ("c" * 240 + ".parquet")) == coreset


def test_a_saved_file_has_ordinary_permissions(tmp_path):
    umask = os.umask(0o022)
    try:
        with atomic_write.replacing(tmp_path / "f") as temporary:
            temporary.write_text("x")
    finally:
        os.umask(umask)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o644
