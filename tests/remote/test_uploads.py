"""Every request of an upload fails once, for every output: no failure is reported as success."""

from __future__ import annotations

import boto3
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import lwcs
from tests.cli.running import run
from tests.remote.conftest import Bucket
from tests.remote.servers import opened

X = np.random.default_rng(0).standard_normal((400, 3))
REQUESTS = ("PUT", "CREATE", "PART", "COMPLETE")
"""Those by which objects are made; an upload makes one or three of them."""
FAILURES = {"refused": 403, "failing": 500, "busy": 503, "dropped": 0}


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


def objects(bucket) -> dict[str, bytes]:
    """The objects of a bucket, reached without the door."""
    client = boto3.client(
        "s3",
        endpoint_url=bucket.endpoint,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    keys = [each["Key"] for each in client.list_objects_v2(Bucket=bucket.name).get("Contents", [])]
    return {key: client.get_object(Bucket=bucket.name, Key=key)["Body"].read() for key in keys}


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
    return bucket.uri(path) if route == "fsspec" else f"{bucket.name}/{path}"


CASES = [
    ("model", route, request, failure)
    for route in ("pyarrow", "fsspec")
    for request in REQUESTS
    for failure in FAILURES
] + [(kind, "pyarrow", "COMPLETE", "refused") for kind in SAVED if kind != "model"]


@pytest.mark.parametrize(("kind", "route", "request_", "failure"), CASES)
def test_save_tells_of_every_request_that_fails(
    kind, route, request_, failure, bucket, store, door
):
    name, access = named(store, "saved.parquet", route), options(store, route)
    SAVED[kind](0).save(name, **access)
    before, counts = objects(bucket), dict(door.counts)
    if not counts.get(request_):
        pytest.skip(f"{route} makes no {request_} for so few bytes")
    door.refuse(FAILURES[failure], request_)
    with pytest.raises(OSError, match=r"^(\[Errno \d+\] )?cannot write .*saved\.parquet") as told:
        SAVED[kind](1).save(name, **access)
    assert "the output was not written" in str(told.value)
    assert objects(bucket) == before, "the old object is kept, and nothing else is there"
    door.refuse_from = None
    SAVED[kind](1).save(name, **access)
    assert objects(bucket) != before


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


@pytest.mark.parametrize("request_", ["CREATE", "PART", "COMPLETE"])
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_end_with_an_error_where_a_request_fails(
    command, request_, bucket, store, door, tmp_path, monkeypatch
):
    if command == "report":
        pytest.importorskip("bokeh")
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({f"x{j}": X[:, j] for j in range(3)}), "rows.parquet")
    model(0).save("model.parquet")
    arguments = [each.format(f"s3://{bucket.name}") for each in COMMANDS[command]]
    door.refuse(403, request_)
    code, out, err = run(*arguments)
    assert door.counts[request_], "this request is made"
    assert code == 1
    assert "wrote" not in out
    assert f"s3://{bucket.name}/new" in err
    assert objects(bucket) == {}


@pytest.mark.parametrize("route", ["pyarrow", "fsspec"])
@pytest.mark.parametrize("failure", ["failing", "busy", "dropped"])
@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_of_an_upload_that_fails_once_is_made_again(
    request_, failure, route, bucket, store, door
):
    access = options(store, route) if route == "fsspec" else {}
    name, saved = bucket.uri("c.parquet"), SAVED["coreset"](0)
    door.refuse(FAILURES[failure], request_, most=1)
    saved.save(name, **access)
    assert lwcs.load(name, **access) == saved
