"""Failures of stores: of the same type whatever is done there, and told from bad contents."""

from __future__ import annotations

import errno
import os
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import lwcs
from lwcs.sources.tables import table_formats as delta
from lwcs.storage import persistence as storage
from lwcs.storage.locations import Access, explaining
from lwcs.storage.stores import FsspecFiles, fsspec_files

fsspec = pytest.importorskip("fsspec")
X = np.random.default_rng(0).standard_normal((500, 2))


class TheirError(Exception):
    """Says what went wrong as errors of botocore do, which are of no type of Python's own."""

    def __init__(self, status: int, said: str = "An error occurred") -> None:
        super().__init__(said)
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


class Failing(fsspec.get_filesystem_class("memory")):
    """Files in memory, which can be reached while there is no `error`."""

    protocol = "failing"
    store, pseudo_dirs, error, lists = {}, [""], None, False
    """`lists`: whether it says in spite of an error which files there are."""

    def _check(self):
        if self.error is not None:
            raise type(self).error

    def info(self, *args, **options):
        self.lists or self._check()
        return super().info(*args, **options)

    def ls(self, *args, **options):
        self.lists or self._check()
        return super().ls(*args, **options)

    def cat_file(self, *args, **options):
        self._check()
        return super().cat_file(*args, **options)

    def _open(self, *args, **options):
        self._check()
        return super()._open(*args, **options)


@pytest.fixture
def store():
    """The store, with a coreset, a table and the log of a Delta table."""
    Failing.store, Failing.pseudo_dirs, Failing.error, Failing.lists = {}, [""], None, False
    own = Failing(skip_instance_cache=True)
    lwcs.build(X, 50, random_state=0).save("c.parquet", filesystem=own)
    with own.open("/x.parquet", "wb") as file:
        pq.write_table(pa.table({"x": X[:, 0], "y": X[:, 1]}), file)
    own.pipe("/t/_delta_log/00000000000000000000.json", b"{}")
    yield own
    Failing.error = None


def dataset_on(store):
    """As pyarrow wraps a file system of fsspec."""
    return ds.dataset("/x.parquet", filesystem=fs.PyFileSystem(fs.FSSpecHandler(store)))


def loading(store):
    return lambda: lwcs.load("c.parquet", filesystem=store)


def saving(store):
    coreset = lwcs.build(X, 20, random_state=0)
    return lambda: coreset.save("c.parquet", filesystem=store)


def reading_a_path(store):
    source = lwcs.scan("x.parquet", filesystem=store)
    return lambda: lwcs.build(source, 20, random_state=0)


def reading_a_dataset(store):
    source = lwcs.scan(dataset_on(store))
    return lambda: lwcs.build(source, 20, random_state=0)


def reading_under_a_filter(store):
    source, Failing.lists = lwcs.scan(dataset_on(store).filter(pc.field("x") > 0)), True
    return lambda: lwcs.build(source, 20, random_state=0)


def reading_a_scanner(store):
    source = lwcs.scan(dataset_on(store).filter(pc.field("x") > 0).scanner())
    return lambda: lwcs.build(source, 20, random_state=0)


def listing_a_log(store):
    def work():
        with delta._log(fs.PyFileSystem(FsspecFiles(store)), "/t"):
            pass

    return work


def reading_a_log(store):
    Failing.lists = True
    return listing_a_log(store)


WAYS = [
    loading,
    saving,
    reading_a_path,
    reading_a_dataset,
    reading_under_a_filter,
    reading_a_scanner,
    listing_a_log,
    reading_a_log,
]


@pytest.mark.parametrize("way", WAYS)
def test_a_refusal_is_a_permission_error_whatever_is_done(way, store):
    work = way(store)
    Failing.error = TheirError(403)
    with pytest.raises(PermissionError, match=r"refused .*403, Forb.*check the cred") as found:
        work()
    assert found.value.errno == errno.EACCES


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("error", "kind", "number"),
    [
        (TheirError(504), TimeoutError, errno.ETIMEDOUT),
        (TheirError(503, "Slow Down"), OSError, errno.EIO),
        (ConnectionError("the network is gone"), ConnectionError, errno.ECONNREFUSED),
    ],
)
def test_failures_have_the_type_and_number_of_what_failed(way, error, kind, number, store):
    work = way(store)
    Failing.error = error
    with pytest.raises(kind) as found:
        work()
    assert found.value.errno == number


def test_a_file_of_a_dataset_that_is_gone_is_said_to_have_vanished(store):
    work = reading_a_scanner(store)
    Failing.error = TheirError(404)
    with pytest.raises(FileNotFoundError, match=r"a file of the scanner vanished .*open it"):
        work()


def test_loading_names_the_file_and_what_cannot_be_reached_is_not_ours(store):
    assert storage.is_ours("c.parquet", Access(store))
    Failing.error = TheirError(403)
    with pytest.raises(PermissionError, match=r"'c\.parquet'$"):
        lwcs.load("c.parquet", filesystem=store)
    assert not storage.is_ours("c.parquet", Access(store))


@pytest.mark.parametrize("missing", [True, False])
def test_a_folder_that_cannot_be_reached_is_not_taken_for_an_empty_one(missing, store):
    Failing.error = ConnectionError("the network is gone")
    own = fs.PyFileSystem(FsspecFiles(store))
    with pytest.raises(ConnectionError, match="the network is gone"):
        own.get_file_info(fs.FileSelector("/t", allow_not_found=missing))


def test_a_read_only_bucket_of_pyarrow_says_that_nothing_was_written(monkeypatch):
    def refuse(*_, **__):
        # As pyarrow says it: without an errno.
        raise OSError(
            "When initiating multiple part upload for key 'c' in bucket 'b': AWS Error "
            "ACCESS_DENIED during CreateMultipartUpload operation: Access Denied"
        )

    # Where bytes are sent to the stream of the object.
    monkeypatch.setattr("lwcs.storage.stores.shutil.copyfileobj", refuse)
    coreset = lwcs.build(X, 20, random_state=0)
    words = "cannot write 'c.parquet': access was refused; check the cred.*output was not written"
    with pytest.raises(PermissionError, match=words) as found:
        coreset.save("c.parquet", filesystem=pa._fs._MockFileSystem())
    assert found.value.errno == errno.EACCES


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("AWS Error ACCESS_DENIED during GetObject operation: No response body", PermissionError),
        ("Generic S3 error: Server returned non-2xx status code: 403 Forbidden", PermissionError),
        ("AWS Error NETWORK_CONNECTION during GetObject: curlCode: 7", ConnectionError),
    ],
)
def test_failures_that_libraries_give_no_number_are_not_taken_for_damage(said, kind):
    with pytest.raises(kind) as found, explaining("the table"):
        raise OSError(said)
    assert found.value.errno is not None
    assert found.value.filename == "the table"
    with pytest.raises(ValueError, match="the table cannot be read"), explaining("the table"):
        raise OSError("Couldn't deserialize thrift")


def damaged(folder):
    """A Parquet file with pages that cannot be read, and a footer that can."""
    path = folder / "x.parquet"
    pq.write_table(
        pa.table({"x": X[:, 0], "y": X[:, 1]}), path, use_dictionary=False, compression="none"
    )
    content = bytearray(path.read_bytes())
    content[4:40] = b"\xff" * 36
    path.write_bytes(content)
    return path


def test_a_damaged_page_names_the_file_of_a_dataset(tmp_path):
    source = lwcs.scan(ds.dataset(damaged(tmp_path)))
    with pytest.raises(ValueError, match=r"x\.parquet' cannot be read \(it may be truncated"):
        lwcs.build(source, 20, random_state=0)


def test_a_damaged_page_under_a_filter_names_the_dataset(tmp_path):
    source = lwcs.scan(ds.dataset(damaged(tmp_path)).filter(pc.field("x") > 0))
    with pytest.raises(ValueError, match=r"^the dataset cannot be read \(it may be truncated"):
        lwcs.build(source, 20, random_state=0)


def test_the_copy_of_a_log_is_removed(store, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with delta._log(fs.PyFileSystem(FsspecFiles(store)), "/t") as here:
        assert os.path.basename(here).startswith(".lwcs-")
        assert os.listdir(f"{here}/_delta_log") == ["00000000000000000000.json"]
    assert os.listdir(tmp_path) == []


def test_a_file_system_of_fsspec_is_known_however_it_is_wrapped(store):
    for wrapped in (fs.FSSpecHandler(store), FsspecFiles(store)):
        assert fsspec_files(fs.PyFileSystem(wrapped)).fs is store
    assert fsspec_files(fs.LocalFileSystem()) is None


def test_options_that_a_store_does_not_take_are_no_failure_to_try_again():
    pytest.importorskip("s3fs")
    with pytest.raises(ValueError, match=r"with these options: .*endpoint_urll.*storage_options="):
        lwcs.scan("s3://bucket/x.parquet", storage_options={"endpoint_urll": "http://127.0.0.1:9"})
    with pytest.raises(TypeError, match="storage_options= is a str; pass a dict"):
        lwcs.scan("s3://bucket/x.parquet", storage_options="anon")
