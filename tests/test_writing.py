"""Saving and loading by URI and by file system, and objects as tables and back."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import lwcs
from lwcs.cli.inputs import access_of
from lwcs.storage import atomic_write as replacing
from lwcs.storage import stores
from lwcs.storage.locations import Access
from tests.cli.running import run

fsspec = pytest.importorskip("fsspec")
X = np.random.default_rng(0).standard_normal((500, 3))


@pytest.fixture(scope="module")
def coreset() -> lwcs.Coreset:
    return lwcs.build(X, 50, random_state=0)


@pytest.fixture
def memory():
    """The store of fsspec in memory, empty."""
    store = fsspec.filesystem("memory")
    store.store.clear()
    store.pseudo_dirs[:] = [""]
    return store


def things() -> dict[str, object]:
    return {
        "coreset": lwcs.build(X, 50, random_state=0),
        "kmeans": lwcs.CoresetKMeans(3, coreset_size=50, random_state=0).fit(X),
        "mixture": lwcs.CoresetMixture(2, coreset_size=200, random_state=0).fit(X),
    }


@pytest.mark.parametrize("name", ["coreset", "kmeans", "mixture"])
def test_from_arrow_gives_back_what_to_arrow_took(name):
    thing = things()[name]
    table = thing.to_arrow()
    parquet, ipc = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet, row_group_size=7)
    feather.write_feather(table, ipc)
    for each in (table, pq.read_table(parquet), feather.read_table(ipc)):
        again = type(thing).from_arrow(each)
        assert type(again) is type(thing)
        assert again.to_arrow().equals(table, check_metadata=True)


def test_tables_that_are_something_else_are_refused(coreset):
    model = lwcs.CoresetKMeans(3, coreset_size=50, random_state=0).fit(X)
    with pytest.raises(ValueError, match="holds an object of kind 'kmeans', not a Coreset"):
        lwcs.Coreset.from_arrow(model.to_arrow())
    with pytest.raises(ValueError, match="has no lwcs metadata"):
        lwcs.Coreset.from_arrow(pa.table({"x": [1.0]}))
    with pytest.raises(ValueError, match="does not agree with its checksum"):
        lwcs.Coreset.from_arrow(coreset.to_arrow().slice(1))
    with pytest.raises(TypeError, match="table= is a list; pass the pyarrow table"):
        lwcs.Coreset.from_arrow([1])


def test_every_kind_is_saved_to_a_uri_and_loaded_from_it(memory):
    stream = lwcs.StreamingCoreset(50, random_state=0)
    stream.update(X)
    for name, thing in {**things(), "stream": stream}.items():
        thing.save(f"memory://models/{name}.parquet")
        again = lwcs.load(f"memory://models/{name}.parquet")
        assert type(again) is type(thing)
    assert sorted(memory.find("/")) == [
        f"/models/{n}.parquet" for n in sorted([*things(), "stream"])
    ]
    assert not os.path.exists("memory:")


def test_file_systems_of_both_libraries_and_paths_name_the_same_file(coreset, tmp_path):
    path = tmp_path / "c.parquet"
    under = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    for name, given in {
        path: None,
        path.as_uri(): None,
        str(path): fs.LocalFileSystem(),
        f"{path}": fsspec.filesystem("file"),
        "c.parquet": under,
    }.items():
        coreset.save(name, filesystem=given)
        assert lwcs.load(name, filesystem=given) == coreset
        assert os.listdir(tmp_path) == ["c.parquet"]
        path.unlink()


def test_comparisons_are_saved_to_and_resumed_from_a_uri(memory):
    wanted = {"sizes": [50], "methods": ["full", "lightweight"], "path": "memory://r/c.parquet"}
    first = lwcs.compare(X, 2, repeats=1, **wanted)
    again = lwcs.compare(X, 2, repeats=2, **wanted)
    assert set(first.trials) < set(again.trials)
    assert lwcs.load("memory://r/c.parquet").trials == again.trials


def test_an_upload_that_fails_leaves_the_old_object(coreset, memory, monkeypatch):
    coreset.save("memory://c.parquet")
    before = memory.cat("/c.parquet")

    def fail(source, target, *_):
        target.write(b"half of it")
        raise error

    monkeypatch.setattr(stores.shutil, "copyfileobj", fail)
    for error in (KeyboardInterrupt(), ConnectionError("the network is gone")):
        with pytest.raises(type(error)):
            lwcs.build(X, 20, random_state=1).save("memory://c.parquet")
        assert memory.cat("/c.parquet") == before


def test_errors_of_a_store_are_os_errors_that_name_the_file(coreset, memory, monkeypatch):
    class TheirError(Exception):
        pass

    def fail(*_):
        raise TheirError("503 Slow Down")

    coreset.save("memory://c.parquet")
    monkeypatch.setattr(type(memory), "info", fail)
    words = r"reading failed; try again: 503 Slow Down: 'memory://c.parquet'"
    with pytest.raises(OSError, match=words) as found:
        lwcs.load("memory://c.parquet")
    assert found.value.errno == errno.EIO
    monkeypatch.undo()
    monkeypatch.setattr(stores.shutil, "copyfileobj", fail)
    words = r"cannot write 'memory://c.parquet': writing failed; try again: 503 Slow Down"
    with pytest.raises(OSError, match=words) as found:
        coreset.save("memory://c.parquet")
    assert found.value.errno == errno.EIO


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("s4://bucket/c.parquet", "'s4://bucket/c.parquet' is not a URI that can be opened"),
        ("http://127.0.0.1:9/c.parquet", "a file system for 'http' can only be read"),
        ("memory://folder", "'memory://folder': that is a folder; name a file in it"),
        ("file:///nowhere/c.parquet", "the folder '/nowhere' does not exist; create it first"),
    ],
)
def test_targets_that_cannot_be_written_are_refused_first(name, words, memory):
    memory.pipe("/folder/x", b"x")
    with pytest.raises((OSError, ValueError), match=words):
        replacing.check_target(name, Access())


def test_a_full_disk_is_named_with_the_file_and_its_number(coreset, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "Error writing bytes. Detail: [errno 28] No space left")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OSError, match=r"cannot write '.*c.parquet': No space left on dev") as found:
        coreset.save(tmp_path / "c.parquet")
    assert found.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match=r"memory://c.parquet': No space .* TMPDIR") as found:
        coreset.save("memory://c.parquet")
    assert found.value.errno == errno.ENOSPC
    assert os.listdir(tmp_path) == []


def test_an_error_of_the_input_is_not_taken_for_one_of_the_output(tmp_path):
    with pytest.raises(OSError, match=r"^the input is gone$"), replacing.replacing(tmp_path / "f"):
        raise OSError("the input is gone")


def test_the_name_is_on_disk_before_a_save_returns(coreset, tmp_path, monkeypatch):
    synced, whole = [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda n: (synced.append(os.readlink(f"/proc/self/fd/{n}")), whole(n))
    )
    coreset.save(tmp_path / "c.parquet")
    assert len(synced) == 2
    assert Path(synced[0]).parent == Path(synced[1]) == tmp_path


def test_a_folder_on_a_store_that_is_not_completed_is_emptied(memory, monkeypatch):
    whole, done = stores.upload, []

    def interrupted(file, place):
        if done:
            raise KeyboardInterrupt
        done.append(place.path)
        whole(file, place)

    def fill():
        with replacing.filling("memory://out") as folder:
            for name in ("a", "b"):
                (folder / name).write_text(name)

    monkeypatch.setattr(stores, "upload", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fill()
    assert done == ["/out/a"]
    assert memory.find("/") == []
    monkeypatch.undo()
    fill()
    assert memory.find("/") == ["/out/a", "/out/b"]


def test_options_for_uris_are_refused_where_there_are_none(tmp_path):
    np.save(tmp_path / "x.npy", X)
    line = ["build", str(tmp_path / "x.npy"), "--size", "5", "-o", str(tmp_path / "c.parquet")]
    code, _, said = run(*line, "--storage-option", "anon=true")
    assert code == 2
    assert "--storage-option is for URIs such as s3://bucket/name, but all inputs" in said


def test_storage_options_are_text_unless_they_can_be_nothing_but_json():
    given = {
        "anon=true": True,
        "use_ssl=false": False,
        "key=123456789012": "123456789012",
        "token=null": "null",
        "secret=1e5": "1e5",
        'config={"retries": 3}': {"retries": 3},
        "tags=[1]": [1],
        'quoted="true"': "true",
        "odd={x": "{x",
    }
    assert access_of(list(given)).storage_options == {
        text.split("=")[0]: value for text, value in given.items()
    }
    with pytest.raises(click.UsageError, match="'anon' is not KEY=VALUE"):
        access_of(["anon"])
