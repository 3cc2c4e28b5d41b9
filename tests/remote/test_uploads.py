"""Every request of an upload fails once, for every output: no failure is reported as success."""

from __future__ import annotations

import errno
import gc
import re

import boto3
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import lwcs
from lwcs.storage import stores
from lwcs.storage.locations import Access
from tests.cli.running import run
from tests.remote.conftest import Bucket
from tests.remote.servers import opened

X = np.random.default_rng(0).standard_normal((400, 3))
PARTS = ("CREATE", "PART", "COMPLETE")
"""The requests by which an object is made in parts; a small one by pyarrow may take one PUT."""
FAILURES = {"refused": 403, "failing": 500, "busy": 503, "dropped": 0}
CAUSES = {
    "refused": "access was refused",
    "failing": "HTTP status 500",
    "busy": "HTTP status 503|reduce your request rate",
    "dropped": "cannot be reached",
}
"""What an error says of each of these failures."""


@pytest.fixture
def door(bucket):
    door, end = opened(bucket.endpoint)
    yield door
    end()


@pytest.fixture
def store(door, bucket, monkeypatch):
    """The bucket, behind the door; pyarrow finds it by the environment."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": door.endpoint,
    }.items():
        monkeypatch.setenv(name, value)
    return Bucket(bucket.name, door.endpoint)


def client(bucket):
    """The bucket, reached without the door."""
    return boto3.client(
        "s3",
        endpoint_url=bucket.endpoint,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )


def objects(bucket) -> dict[str, bytes]:
    own = client(bucket)
    keys = [each["Key"] for each in own.list_objects_v2(Bucket=bucket.name).get("Contents", [])]
    return {key: own.get_object(Bucket=bucket.name, Key=key)["Body"].read() for key in keys}


def uploads(bucket) -> list[str]:
    """What has parts in the store without being an object."""
    found = client(bucket).list_multipart_uploads(Bucket=bucket.name)
    return [each["Key"] for each in found.get("Uploads", [])]


def model(seed: int) -> lwcs.CoresetKMeans:
    return lwcs.CoresetKMeans(3, coreset_size=100, random_state=seed).fit(X)


def stream(seed: int) -> lwcs.StreamingCoreset:
    made = lwcs.StreamingCoreset(50, random_state=seed)
    made.update(X)
    return made


SAVED = {
    "coreset": lambda seed: lwcs.build(X, 50, random_state=seed),
    "model": model,
    "stream": stream,
    "mixture": lambda seed: lwcs.CoresetMixture(2, coreset_size=100, random_state=seed).fit(X),
}


def options(store, route: str) -> dict[str, object]:
    """How a store is reached; pyarrow would try again for seconds."""
    if route == "uri":
        return {}
    if route == "fsspec":
        return {"storage_options": store.storage_options}
    once = fs.AwsStandardS3RetryStrategy(max_attempts=1)
    filesystem = fs.S3FileSystem(
        access_key="testing",
        secret_key="testing",
        endpoint_override=store.endpoint,
        region="us-east-1",
        scheme="http",
        retry_strategy=once,
    )
    return {"filesystem": filesystem}


def named(bucket, path: str, route: str) -> str:
    return f"{bucket.name}/{path}" if route == "pyarrow" else bucket.uri(path)


CASES = [
    ("model", route, request, failure)
    for route in ("pyarrow", "fsspec")
    for request in PARTS
    for failure in FAILURES
]
CASES += [(kind, "pyarrow", "COMPLETE", "refused") for kind in SAVED if kind != "model"]
# By default, pyarrow tries again for seconds unless it is refused.
CASES += [("model", "uri", "PUT", "refused")]


@pytest.fixture
def tried_once(monkeypatch):
    """No request is made again, which takes s3fs up to a minute."""
    s3fs = pytest.importorskip("s3fs")
    monkeypatch.setattr(s3fs.core.S3FileSystem, "retries", 1)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")


@pytest.mark.usefixtures("tried_once")
@pytest.mark.parametrize(("kind", "route", "request_", "failure"), CASES)
def test_save_tells_of_every_request_that_fails(
    kind, route, request_, failure, bucket, store, door
):
    name, access = named(store, "saved.parquet", route), options(store, route)
    SAVED[kind](0).save(name, **access)
    before = objects(bucket)
    assert door.counts[request_], "this request is made"
    door.refuse(FAILURES[failure], request_)
    with pytest.raises(OSError, match=r"^(\[Errno \d+\] )?cannot write .*saved\.parquet") as told:
        SAVED[kind](1).save(name, **access)
    assert "the output was not written" in str(told.value)
    assert re.search(CAUSES[failure], str(told.value))
    assert isinstance(told.value, PermissionError) == (failure == "refused")
    assert objects(bucket) == before, "the old object is kept, and nothing else is there"
    if route != "pyarrow":
        assert uploads(bucket) == []
    door.refuse_from = None
    SAVED[kind](1).save(name, **access)
    assert objects(bucket) != before


LARGE = 12_000_000
"""Bytes from which on every route sends an output in parts."""


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(bytes(LARGE))
    return path


@pytest.mark.parametrize("route", ["uri", "fsspec"])
@pytest.mark.parametrize("request_", PARTS)
def test_a_large_output_tells_of_every_request_that_is_refused(
    route, request_, bucket, store, door, large
):
    place = Access(**options(store, route)).place(named(store, "large", route))
    client(bucket).put_object(Bucket=bucket.name, Key="large", Body=b"old")
    door.refuse(403, request_)
    with pytest.raises((OSError, RuntimeError)) as told:
        stores.upload(large, place)
    assert door.counts[request_], "this request is made"
    assert re.search("(?i)access.denied|forbidden|403", str(told.value))
    assert objects(bucket) == {"large": b"old"}


@pytest.mark.parametrize("route", ["uri", "pyarrow", "fsspec"])
def test_half_of_an_output_that_cannot_be_read_is_not_uploaded(
    route, bucket, store, large, monkeypatch
):
    place = Access(**options(store, route)).place(named(store, "large", route))
    client(bucket).put_object(Bucket=bucket.name, Key="large", Body=b"old")

    def fail(source, target, *_):
        target.write(source.read(LARGE - 1))
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(stores.shutil, "copyfileobj", fail)
    with pytest.raises(OSError, match="Input/output error"):
        stores.upload(large, place)
    gc.collect()
    assert objects(bucket) == {"large": b"old"}


@pytest.mark.parametrize("size", [0, 1, LARGE])
@pytest.mark.parametrize("route", ["uri", "pyarrow", "fsspec"])
def test_an_output_of_any_size_is_uploaded(route, size, bucket, store, door, large):
    with large.open("r+b") as file:
        file.truncate(size)
    place = Access(**options(store, route)).place(named(store, "large", route))
    stores.upload(large, place)
    assert objects(bucket) == {"large": bytes(size)}
    if route == "uri" and size < LARGE:
        assert not door.counts["CREATE"], "small outputs are one request, and leave no parts"


@pytest.mark.parametrize("route", ["pyarrow", "fsspec"])
def test_an_object_of_the_same_bytes_is_no_failure(route, bucket, store):
    name, access, saved = (
        named(store, "c.parquet", route),
        options(store, route),
        SAVED["coreset"](0),
    )
    for _ in range(3):
        saved.save(name, **access)
    assert lwcs.load(name, **access) == saved


COMMANDS = {
    "build": ["build", "rows.parquet", "--size", "50", "-o", "{}/new.parquet"],
    "fit": ["fit", "rows.parquet", "-k", "3", "-o", "{}/new.parquet"],
    "mixture": ["mixture", "rows.parquet", "-k", "2", "-o", "{}/new.parquet"],
    "assign": ["assign", "rows.parquet", "model.parquet", "-o", "{}/new.parquet"],
    "per file": ["assign", "rows.parquet", "model.parquet", "--per-file", "-o", "{}/new"],
    "partitioned": [
        "assign", "rows.parquet", "model.parquet", "--partition-by", "label", "-o", "{}/new",
    ],
    "report": ["report", "rows.parquet", "model.parquet", "-o", "{}/new.html"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("route", "request_"),
    [("uri", "PUT"), *(("fsspec", each) for each in PARTS)],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_end_with_an_error_where_a_request_fails(
    command, route, request_, bucket, store, door, tmp_path, monkeypatch
):
    if command == "report":
        pytest.importorskip("bokeh")
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({f"x{j}": X[:, j] for j in range(3)}), "rows.parquet")
    model(0).save("model.parquet")
    arguments = [each.format(f"s3://{bucket.name}") for each in COMMANDS[command]]
    if route == "fsspec":
        arguments += ["--storage-option", f"client_kwargs.endpoint_url={store.endpoint}"]
    door.refuse(403, request_)
    code, out, err = run(*arguments)
    assert door.counts[request_], "this request is made"
    assert code == 1
    assert "access was refused" in err
    assert "wrote" not in out
    assert f"s3://{bucket.name}/new" in err
    assert objects(bucket) == {}


@pytest.mark.parametrize("failure", ["failing", "busy", "dropped"])
@pytest.mark.parametrize(
    ("route", "request_"),
    [("uri", "PUT"), *((route, each) for route in ("uri", "fsspec") for each in PARTS)],
)
def test_a_request_of_an_upload_that_fails_once_is_made_again(
    route, request_, failure, bucket, store, door, large
):
    place = Access(**options(store, route)).place(named(store, "large", route))
    if request_ == "PUT":
        large.write_bytes(b"small")
    door.refuse(FAILURES[failure], request_, most=1)
    stores.upload(large, place)
    assert door.attempts[request_] > door.counts[request_], "it failed, and was made again"
    assert objects(bucket) == {"large": large.read_bytes()}
