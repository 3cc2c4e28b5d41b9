"""Reading from a store: few requests, the same bits, and failures that say what they are."""

from __future__ import annotations

import io
import logging
import pickle
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import lwcs
from tests.remote.conftest import Bucket
from tests.remote.servers import opened

FILES, GROUPS, ROWS, COLUMNS = 2, 4, 500, 40
NAMES = [f"x{j}" for j in range(COLUMNS)]


@pytest.fixture
def door(bucket):
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    door, end = opened(bucket.endpoint)
    yield door
    end()


@pytest.fixture
def store(door, bucket):
    """The bucket, behind the door."""
    return Bucket(bucket.name, door.endpoint)


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((FILES * GROUPS * ROWS, COLUMNS))


@pytest.fixture
def expected(X):
    return lwcs.build(X, 100, random_state=0, passes=2)


def put(bucket, name: str, data: bytes) -> None:
    where = f"{bucket.name}/{name}"
    with bucket.filesystem.open_output_stream(where, compression=None) as file:
        file.write(data)


def put_parquet(bucket, X, folder: str = "data", **options) -> None:
    for i, part in enumerate(np.array_split(X, FILES)):
        table = pa.table(dict(zip(NAMES, part.T, strict=True)))
        where = f"{bucket.name}/{folder}/{i}.parquet"
        pq.write_table(table, where, filesystem=bucket.filesystem, row_group_size=ROWS, **options)


def by(kind: str, store: Bucket) -> dict:
    if kind == "pyarrow":
        return {"filesystem": store.filesystem}
    return {"storage_options": store.storage_options}


def assert_equal(coreset, expected) -> None:
    np.testing.assert_array_equal(coreset.indices, expected.indices)
    np.testing.assert_array_equal(coreset.points, expected.points)
    np.testing.assert_array_equal(coreset.weights, expected.weights)


KINDS = pytest.mark.parametrize("kind", ["pyarrow", "fsspec"])


@KINDS
def test_two_passes_need_few_requests(kind, bucket, store, door, X, expected):
    put_parquet(bucket, X)
    source = lwcs.scan(store.uri("data"), **by(kind, store))
    coreset = lwcs.build(source, 100, random_state=0, passes=2)
    assert_equal(coreset, expected)
    # Six or seven of them look for the log of a table.
    assert door.total <= 28, door.counts


@KINDS
def test_some_columns_are_fetched_together(kind, bucket, store, door, X):
    put_parquet(bucket, X)
    names = NAMES[::3]
    source = lwcs.scan(store.uri("data"), columns=names, **by(kind, store))
    coreset = lwcs.build(source, 100, random_state=0, passes=2)
    assert_equal(coreset, lwcs.build(X[:, ::3].copy(), 100, random_state=0, passes=2))
    # Six or seven of them look for the log of a table.
    assert door.total <= 28, door.counts


@KINDS
def test_large_row_groups_are_read_in_windows(kind, bucket, store, X, expected, monkeypatch):
    put_parquet(bucket, X, use_dictionary=False)
    monkeypatch.setattr("lwcs.sources.blocks.Budget.small", 0)
    monkeypatch.setattr("lwcs.sources.blocks.Budget.ahead", 2**18)
    monkeypatch.setattr("lwcs.sources.remote.prefetch._SMALLEST", 2**11)
    source = lwcs.scan(store.uri("data"), **by(kind, store))
    assert_equal(lwcs.build(source, 100, random_state=0, passes=2), expected)


@KINDS
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.feather", "a.npy"])
def test_every_format_gives_the_bits_of_the_local_file(kind, name, bucket, store, X, tmp_path):
    path, delimiter = tmp_path / name, "\t" if "tsv" in name else ","
    if name.endswith("npy"):
        np.save(path, X)
    elif name.endswith("feather"):
        feather.write_feather(pa.table(dict(zip(NAMES, X.T, strict=True))), str(path), chunksize=99)
    else:
        np.savetxt(path, X, delimiter=delimiter, header=delimiter.join(NAMES), comments="")
    put(bucket, name, path.read_bytes())
    source = lwcs.scan(store.uri(name), **by(kind, store))
    assert_equal(lwcs.build(source, 100, random_state=0), lwcs.build(path, 100, random_state=0))


@pytest.mark.parametrize("ending", ["parquet", "feather", "csv", "npy"])
def test_a_scan_of_a_store_can_be_sent_to_another_process(ending, X, expected):
    fsspec = pytest.importorskip("fsspec")
    table, name = pa.table(dict(zip(NAMES, X.T, strict=True))), f"memory://sent/a.{ending}"
    with fsspec.open(name, "wb") as file:
        if ending == "npy":
            np.save(file, X)
        elif ending == "csv":
            np.savetxt(file, X, fmt="%.17g", delimiter=",", header=",".join(NAMES), comments="")
        else:
            {"parquet": pq.write_table, "feather": feather.write_feather}[ending](table, file)
    source = lwcs.scan(name)
    for _ in range(2):
        sent = pickle.loads(pickle.dumps(source))
        assert_equal(lwcs.build(sent, 100, random_state=0, passes=2), expected)
        # Also after it was read.
        assert_equal(lwcs.build(source, 100, random_state=0, passes=2), expected)


def test_windows_of_an_array_meet(bucket, X, tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", X)
    put(bucket, "a.npy", (tmp_path / "a.npy").read_bytes())
    monkeypatch.setattr("lwcs.sources.remote.prefetch.LARGEST", 1001)
    monkeypatch.setattr("lwcs.sources.remote.remote_arrays._GAP", 5000)
    source = lwcs.scan(bucket.uri("a.npy"), storage_options=bucket.storage_options)
    np.testing.assert_array_equal(source.read(3, 400), X[3:400])
    rows = np.array([5, 3999, 7, 7, 100, 1500])
    np.testing.assert_array_equal(source.take(rows), X[rows])


def test_arrays_that_are_not_read_from_a_store_are_refused_with_a_way_out(bucket, X):
    file = io.BytesIO()
    np.save(file, np.asfortranarray(X))
    put(bucket, "f.npy", file.getvalue())
    with pytest.raises(ValueError, match=r"f\.npy' cannot be read: it is in Fortran order.*copy"):
        lwcs.scan(bucket.uri("f.npy"), storage_options=bucket.storage_options)
    for name in ("a.npz", "a.h5"):
        put(bucket, name, b"x")
        with pytest.raises(ValueError, match=r"not on this machine.*copy it"):
            lwcs.scan(bucket.uri(name), storage_options=bucket.storage_options)


def test_zarr_is_read_through_fsspec(bucket, X, expected):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(
        bucket.uri("a.zarr"), shape=X.shape, chunks=(1000, COLUMNS), dtype=X.dtype,
        storage_options=bucket.storage_options,
    )  # fmt: skip
    array[:] = X
    source = lwcs.scan(bucket.uri("a.zarr"), storage_options=bucket.storage_options)
    assert_equal(lwcs.build(source, 100, random_state=0, passes=2), expected)


MANY = 20


def arrow_of(kind: str, store: Bucket):
    """The store for pyarrow, without lwcs."""
    if kind == "pyarrow":
        return store.filesystem
    s3fs = pytest.importorskip("s3fs")
    return fs.PyFileSystem(fs.FSSpecHandler(s3fs.S3FileSystem(**store.storage_options)))


def put_many(bucket, X, ending: str, folder: str = "many") -> list[str]:
    """Files with the rows of X; their keys."""
    keys = []
    for i, part in enumerate(np.array_split(X, MANY)):
        table, file = pa.table(dict(zip(NAMES, part.T, strict=True))), io.BytesIO()
        if ending == "npy":
            np.save(file, part)
        elif ending == "csv":
            pa.csv.write_csv(table, file)
        else:
            {"parquet": pq.write_table, "feather": feather.write_feather}[ending](table, file)
        keys.append(f"{folder}/{i:02}.{ending}")
        put(bucket, keys[-1], file.getvalue())
    return keys


def read_by_pyarrow(filesystem, bucket: str, keys: list[str], named: bool, **columns) -> None:
    """One pass by pyarrow alone: over a folder, or over files that are named."""
    paths, folder = [f"{bucket}/{key}" for key in keys], f"{bucket}/many"
    if keys[0].endswith("npy"):
        if not named:
            filesystem.get_file_info(fs.FileSelector(folder))
        for path in paths:
            with filesystem.open_input_file(path) as file:
                file.read()
        return
    ending = keys[0].rpartition(".")[2]
    data = ds.dataset(paths if named else folder, filesystem=filesystem, format=ending)
    data.to_table(**columns)


@KINDS
@pytest.mark.parametrize("how", ["folder", "glob", "list"])
@pytest.mark.parametrize("ending", ["parquet", "csv", "feather", "npy"])
def test_a_pass_takes_about_the_requests_of_pyarrow(kind, how, ending, bucket, store, door, X):
    keys = put_many(bucket, X, ending)
    door.counts.clear()
    read_by_pyarrow(arrow_of(kind, store), store.name, keys, how == "list")
    theirs = door.total
    given = {
        "folder": store.uri("many"),
        "glob": store.uri(f"many/*.{ending}"),
        "list": [store.uri(key) for key in keys],
    }[how]
    door.counts.clear()
    source = lwcs.scan(given, **by(kind, store))
    lwcs.build(source, 100, random_state=0, passes=2)
    assert door.total <= 1.2 * 2 * theirs, (door.counts, theirs)
    # pyarrow opens a file by its name alone, and asks for its size: once per scan. The others look
    # for the log of a table, or are about the folder.
    assert door.counts["HEAD"] <= (MANY if kind == "pyarrow" else 0) + 10, door.counts


@KINDS
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("ending", ["parquet", "csv", "feather"])
def test_a_dataset_takes_about_the_requests_of_pyarrow(
    kind, filtered, ending, bucket, store, door, X
):
    put_many(bucket, X, ending)
    door.counts.clear()
    data = ds.dataset(f"{store.name}/many", filesystem=arrow_of(kind, store), format=ending)
    if filtered:
        data = data.filter(ds.field("x0") > -100.0)
    data.to_table()
    theirs = door.total
    door.counts.clear()
    data = ds.dataset(f"{store.name}/many", filesystem=arrow_of(kind, store), format=ending)
    if filtered:
        data = data.filter(ds.field("x0") > -100.0)
    assert lwcs.build(data, 100, random_state=0, passes=2).n_samples == len(X)
    # Only Parquet says how many rows there are: so few are counted first.
    passes = 2 if ending == "parquet" else 3
    assert door.total <= 1.2 * passes * theirs, (door.counts, theirs)


@KINDS
@pytest.mark.parametrize("given", ["file", "dataset"])
def test_a_wide_file_takes_about_the_requests_of_pyarrow(kind, given, bucket, store, door):
    columns, rows = 400, 5_000
    values = np.random.default_rng(0).standard_normal((rows, columns))
    table = pa.table({f"x{j}": values[:, j] for j in range(columns)})
    where = f"{bucket.name}/wide.parquet"
    pq.write_table(table, where, filesystem=bucket.filesystem, row_group_size=rows // 2)
    door.counts.clear()
    ds.dataset(where, filesystem=arrow_of(kind, store), format="parquet").to_table()
    theirs = door.counts["GET"]
    door.counts.clear()
    if given == "dataset":
        data = ds.dataset(where, filesystem=arrow_of(kind, store), format="parquet")
        source = lwcs.scan(data)
    else:
        source = lwcs.scan(store.uri("wide.parquet"), **by(kind, store))
    lwcs.build(source, 100, random_state=0, passes=2)
    assert door.counts["GET"] <= 1.2 * 2 * theirs, (door.counts, theirs)


@pytest.fixture(scope="module")
def large(s3_server):
    """A file with two row groups of 64 MB."""
    X = np.random.default_rng(0).standard_normal((2 * 200_000, COLUMNS))
    table, file = pa.table(dict(zip(NAMES, X.T, strict=True))), io.BytesIO()
    pq.write_table(table, file, row_group_size=len(X) // 2)
    return X, file.getvalue()


@KINDS
@pytest.mark.parametrize("limit", [None, "512MB"])
def test_large_row_groups_take_about_the_requests_of_pyarrow(
    kind, limit, bucket, store, door, large
):
    X, data = large
    put(bucket, "large.parquet", data)
    door.counts.clear()
    # By its own file system, and with the footer once.
    pq.read_table(f"{bucket.name}/large.parquet", filesystem=store.filesystem)
    theirs = door.counts["GET"]
    door.counts.clear()
    source = lwcs.scan(store.uri("large.parquet"), memory_limit=limit, **by(kind, store))
    coreset = lwcs.build(source, 100, random_state=0, passes=2)
    assert door.counts["GET"] <= 1.2 * 2 * theirs, (door.counts, theirs)
    assert_equal(coreset, lwcs.build(X, 100, random_state=0, passes=2))


@KINDS
def test_scattered_columns_take_the_requests_of_pyarrow(kind, bucket, store, door):
    X = np.random.default_rng(1).standard_normal((MANY * 4000, COLUMNS))
    names = NAMES[::8]
    keys = put_many(bucket, X, "parquet")
    door.counts.clear()
    # By its own file system: through fsspec, it fetches all bytes of all columns.
    read_by_pyarrow(store.filesystem, store.name, keys, False, columns=names)
    theirs = door.counts["GET"]
    door.counts.clear()
    source = lwcs.scan(store.uri("many"), columns=names, **by(kind, store))
    lwcs.build(source, 100, random_state=0, passes=2)
    assert door.counts["GET"] <= 1.2 * 2 * theirs, (door.counts, theirs)


@KINDS
@pytest.mark.parametrize("ending", ["parquet", "csv", "feather", "npy"])
@pytest.mark.parametrize("change", ["replaced", "removed"])
def test_one_changed_file_of_many_is_noticed(kind, ending, change, bucket, store, X):
    keys = put_many(bucket, X, ending)
    source = lwcs.scan(store.uri("many"), **by(kind, store))
    lwcs.build(source, 100, random_state=0)
    if change == "removed":
        bucket.filesystem.delete_file(f"{bucket.name}/{keys[7]}")
    else:
        with bucket.filesystem.open_input_file(f"{bucket.name}/{keys[7]}") as file:
            content = file.read()
        put(bucket, keys[7], content + b"\n")
    with pytest.raises((ValueError, FileNotFoundError), match=r"many/07.*(changed|vanished)"):
        lwcs.build(source, 100, random_state=0)


@KINDS
def test_named_files_are_read_where_listing_is_denied(kind, bucket, store, door, X):
    keys = put_many(bucket, X, "npy")
    door.refuse(403, "LIST")
    source = lwcs.scan([store.uri(key) for key in keys], **by(kind, store))
    assert source.n_rows == len(X)
    assert lwcs.build(source, 100, random_state=0).n_samples == len(X)


@KINDS
def test_patterns_list_no_more_than_they_name(kind, bucket, store, door, X):
    put_parquet(bucket, X, "data/2024")
    for i in range(5):
        put(bucket, f"data/other/{i}/deep/x.txt", b"x")
    door.counts.clear()
    source = lwcs.scan(store.uri("data/20*/*.parquet"), **by(kind, store))
    assert source.n_rows == len(X)
    listed = door.counts["LIST"]
    put(bucket, "data/other/more/and/more/x.txt", b"x")
    door.counts.clear()
    lwcs.scan(store.uri("data/20*/*.parquet"), **by(kind, store))
    assert door.counts["LIST"] == listed


@KINDS
def test_a_file_that_changes_between_the_passes_is_noticed(kind, bucket, store, X):
    put_parquet(bucket, X)
    source = lwcs.scan(store.uri("data"), **by(kind, store))
    put_parquet(bucket, X[::-1][: len(X) // 2])
    with pytest.raises(ValueError, match="changed while it was being read"):
        lwcs.build(source, 100, random_state=0)


@KINDS
@pytest.mark.parametrize(
    ("status", "error"), [(403, PermissionError), (503, OSError), (404, FileNotFoundError)]
)
def test_a_refusal_in_the_middle_is_an_error_of_the_place(
    kind, status, error, bucket, store, door, X, expected
):
    put_parquet(bucket, X)
    source = lwcs.scan(store.uri("data"), **by(kind, store))
    door.refuse(status, after=1)
    with pytest.raises(error, match=r"data/\d\.parquet") as failed:
        lwcs.build(source, 100, random_state=0, passes=2)
    assert "damaged" not in str(failed.value)
    assert "truncated" not in str(failed.value)
    if status == 503:
        assert "HTTP status 503" in str(failed.value)
    # And it can be tried again.
    door.refuse_from = None
    assert_equal(lwcs.build(source, 100, random_state=0, passes=2), expected)


@KINDS
@pytest.mark.parametrize("status", [500, 503, 0])
@pytest.mark.parametrize("request_", ["HEAD", "LIST", "GET"])
def test_a_request_that_fails_once_is_made_again(
    kind, status, request_, bucket, store, door, X, expected
):
    put_parquet(bucket, X)
    door.refuse(status, request_, most=1)
    source = lwcs.scan(store.uri("data"), **by(kind, store))
    door.refuse(status, request_, most=1)
    assert_equal(lwcs.build(source, 100, random_state=0, passes=2), expected)


@KINDS
@pytest.mark.parametrize("refused", ["HEAD", "LIST", "GET"])
def test_a_refusal_while_files_are_found_is_an_error_of_the_place(
    kind, refused, bucket, store, door, X
):
    put_parquet(bucket, X)
    door.refuse(403, refused)
    with pytest.raises(PermissionError, match="access was refused"):
        lwcs.scan(store.uri("data"), **by(kind, store))


@KINDS
def test_what_is_not_there_is_said_in_one_line(kind, store, X):
    name = store.uri("nothing.parquet")
    with pytest.raises(FileNotFoundError, match=f"^'{name}' does not exist$"):
        lwcs.scan(name, **by(kind, store))
    with pytest.raises(FileNotFoundError, match="no file matches"):
        lwcs.scan(store.uri("no/*.parquet"), **by(kind, store))


@KINDS
@pytest.mark.parametrize("path", ["x.parquet", "folder", "x/*.parquet", "*.csv"])
def test_a_missing_bucket_is_named(kind, path, store):
    name = f"s3://no-such-bucket-at-all/{path}"
    with pytest.raises(FileNotFoundError, match="there is no bucket 'no-such-bucket-at-all'"):
        lwcs.scan(name, **by(kind, store))


@KINDS
def test_a_missing_bucket_is_named_when_writing(kind, store, X):
    coreset = lwcs.build(X, 10, random_state=0)
    with pytest.raises(FileNotFoundError, match="there is no bucket 'no-such-bucket-at-all'"):
        coreset.save("s3://no-such-bucket-at-all/c.parquet", **by(kind, store))


@pytest.mark.parametrize("name", ["s3://b/a.parquet", "http://127.0.0.1:9/a.parquet"])
def test_a_server_that_is_not_there_is_a_connection_error(name):
    from pyarrow import fs

    nowhere = fs.S3FileSystem(
        access_key="x", secret_key="x", endpoint_override="http://127.0.0.1:9", scheme="http"
    )
    with pytest.raises(ConnectionError, match="cannot be reached"):
        lwcs.scan(name, filesystem=nowhere if name.startswith("s3") else None)


@pytest.mark.parametrize("ending", ["", ".parquet"])
def test_a_presigned_url_is_read(ending, bucket, X, expected):
    import boto3

    file = io.BytesIO()
    pq.write_table(pa.table(dict(zip(NAMES, X.T, strict=True))), file)
    put(bucket, f"rows{ending}", file.getvalue())
    client = boto3.client(
        "s3", endpoint_url=bucket.endpoint, region_name="us-east-1",
        aws_access_key_id="testing", aws_secret_access_key="testing",
    )  # fmt: skip
    wish = {"Bucket": bucket.name, "Key": f"rows{ending}"}
    url = client.generate_presigned_url("get_object", Params=wish)
    source = lwcs.scan(url, format=None if ending else "parquet")
    assert_equal(lwcs.build(source, 100, random_state=0), expected)
    if not ending:
        with pytest.raises(ValueError, match="name their format with format="):
            lwcs.scan(url)


HANGING = """
import sys, threading
import fsspec
from fsspec.implementations.memory import MemoryFileSystem

class Hanging(MemoryFileSystem):
    protocol = "hanging"
    store, pseudo_dirs = {}, [""]

def hang(*_, **__):
    print("hanging", flush=True)
    threading.Event().wait()

fsspec.register_implementation("hanging", Hanging)
with fsspec.open("hanging://p/a." + sys.argv[1], "wb") as file:
    file.write(b"x" * 10_000)
setattr(Hanging, sys.argv[2], hang)
from lwcs.cli import main
main(["build", sys.argv[3], "--size", "5", "-o", "out.parquet"], prog_name="lwcs")
"""


@pytest.mark.parametrize(
    ("ending", "hangs", "path"),
    [
        ("parquet", "cat_file", "p"),
        ("feather", "cat_file", "p"),
        ("csv", "cat_file", "p/a.csv"),
        ("npy", "cat_file", "p/a.npy"),
        ("parquet", "info", "p/a.parquet"),
        ("parquet", "find", "p/*.parquet"),
    ],
)
def test_told_to_end_while_a_store_hangs_a_command_ends(ending, hangs, path, tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", HANGING, ending, hangs, f"hanging://{path}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "hanging\n"
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=30)
    finally:
        child.kill()
    assert child.returncode == 143, said
    assert "no incomplete output was left behind" in said
    assert list(tmp_path.iterdir()) == []
