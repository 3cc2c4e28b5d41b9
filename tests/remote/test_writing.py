"""Outputs on S3: a whole object or none, by pyarrow and by fsspec, whatever happens meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import boto3
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lwcs
from lwcs.storage import atomic_write as replacing
from lwcs.storage import stores
from lwcs.storage.locations import Access

X = np.random.default_rng(0).standard_normal((2000, 3))
COMMAND = [sys.executable, "-m", "lwcs"]


@pytest.fixture
def coreset() -> lwcs.Coreset:
    return lwcs.build(X, 50, random_state=0)


def client(bucket):
    return boto3.client(
        "s3",
        endpoint_url=bucket.endpoint,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )


def objects(bucket) -> dict[str, int]:
    found = client(bucket).list_objects_v2(Bucket=bucket.name)
    return {each["Key"]: each["Size"] for each in found.get("Contents", [])}


def uploads(bucket) -> list[str]:
    found = client(bucket).list_multipart_uploads(Bucket=bucket.name)
    return [each["Key"] for each in found.get("Uploads", [])]


def ways(bucket) -> dict[str, dict[str, object]]:
    """How the bucket is reached: by the path, and the keywords."""
    return {
        bucket.uri("{}"): {"storage_options": bucket.storage_options},
        f"{bucket.name}/{{}}": {"filesystem": bucket.filesystem},
    }


def environment(bucket, tmp_path) -> dict[str, str]:
    return os.environ | {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": bucket.endpoint,
        "TMPDIR": str(tmp_path),
    }


def run(bucket, tmp_path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        env=environment(bucket, tmp_path),
        cwd=tmp_path,
    )
    said = done.stderr.strip().splitlines()
    return done.returncode, said[-1] if said else done.stdout


def test_what_is_saved_is_loaded(bucket, coreset):
    for path, way in ways(bucket).items():
        name = path.format("models/c.parquet")
        coreset.save(name, **way)
        assert lwcs.load(name, **way) == coreset
        assert list(objects(bucket)) == ["models/c.parquet"]
        assert uploads(bucket) == []


def test_what_cannot_be_written_is_refused_first(bucket, coreset):
    client(bucket).put_object(Bucket=bucket.name, Key="folder/x", Body=b"x")
    for path, way in ways(bucket).items():
        access = Access(**way)
        for wrong, words in (
            (path.format("folder"), "that is a folder; name a file in it"),
            (path.format("").rstrip("/"), "that is a folder; name a file in it"),
            (path.replace(bucket.name, "bukket").format("c"), "there is no bucket 'bukket'"),
        ):
            with pytest.raises(OSError, match=words):
                replacing.check_target(wrong, access)
        replacing.check_target(path.format("c"), access)
        with pytest.raises(FileExistsError, match="there are files in it"):
            replacing.check_folder(path.format("folder"), access)
    assert list(objects(bucket)) == ["folder/x"]
    assert uploads(bucket) == []


def test_without_permission_to_write_nothing_is_begun(bucket, monkeypatch):
    """Reading is allowed: only an upload that is begun shows that writing is not."""
    s3fs = pytest.importorskip("s3fs")
    whole = s3fs.core.S3File._call_s3

    def denied(self, method, *arguments, **options):
        if method == "create_multipart_upload":
            raise PermissionError(13, "Access Denied")
        return whole(self, method, *arguments, **options)

    monkeypatch.setattr(s3fs.core.S3File, "_call_s3", denied)
    access = Access(storage_options=bucket.storage_options)
    words = "refused; check the credentials: Access Denied; the output was not written"
    with pytest.raises(PermissionError, match=words):
        replacing.check_target(bucket.uri("c.parquet"), access)


def test_an_upload_that_fails_midway_leaves_the_old_object(bucket, coreset, monkeypatch, tmp_path):
    old = tmp_path / "old"
    old.write_bytes(b"old")
    name, way = bucket.uri("c"), {"storage_options": bucket.storage_options}
    stores.upload(old, Access(**way).place(name))

    def fail(source, target, *_):
        # Two parts are at the store already.
        target.write(b"x" * 120_000_000)
        raise KeyboardInterrupt

    monkeypatch.setattr(stores.shutil, "copyfileobj", fail)
    with pytest.raises(KeyboardInterrupt):
        coreset.save(name, **way)
    assert objects(bucket) == {"c": 3}
    assert uploads(bucket) == []


def test_an_interrupt_lets_an_upload_of_pyarrow_finish(bucket, tmp_path, monkeypatch):
    """Its streams cannot be given up: a half object would appear."""
    complete = stores._uninterrupted

    def interrupted(work):
        complete(lambda: (os.kill(os.getpid(), signal.SIGALRM), work()))

    monkeypatch.setattr(stores, "_uninterrupted", interrupted)
    file = tmp_path / "big"
    file.write_bytes(bytes(30_000_000))
    place = Access(filesystem=bucket.filesystem).place(f"{bucket.name}/big")
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            stores.upload(file, place)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert objects(bucket) == {"big": 30_000_000}
    assert uploads(bucket) == []


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Rows and a model beside the test."""
    (tmp_path / "rows").mkdir()
    for i, part in enumerate(np.split(X, 2)):
        table = pa.table({f"x{j}": part[:, j] for j in range(3)})
        pq.write_table(table, tmp_path / f"rows/{i}.parquet")
    return tmp_path


def test_every_command_writes_to_and_reads_from_a_store(bucket, rows):
    model, coreset = bucket.uri("m.parquet"), bucket.uri("c.parquet")
    options = []
    for key, value in (("key", "testing"), ("client_kwargs.endpoint_url", bucket.endpoint)):
        options += ["--storage-option", f"{key}={value}"]
    options += ["--storage-option", "secret=testing"]
    lines = [
        ["build", "rows", "--size", "50", "-o", coreset, *options],
        ["fit", coreset, "-k", "2", "-o", model],
        ["mixture", coreset, "-n", "2", "-o", bucket.uri("x.parquet"), *options],
        ["assign", "rows", model, "-o", bucket.uri("l.csv.gz"), *options],
        ["assign", "rows", model, "--per-file", "-o", bucket.uri("each")],
        ["assign", "rows", model, "--partition-by", "label", "-o", bucket.uri("by"), *options],
        ["inspect", model, "--json"],
    ]
    for line in lines:
        code, said = run(bucket, rows, *line)
        assert code == 0, said
    names = ["by/label=0/part-0.parquet", "by/label=1/part-0.parquet", "c.parquet"]
    names += ["each/0.parquet", "each/1.parquet", "l.csv.gz", "m.parquet", "x.parquet"]
    assert list(objects(bucket)) == names
    assert uploads(bucket) == []
    assert sorted(os.listdir(rows)) == ["rows"]
    code, said = run(
        bucket, rows, "assign", bucket.uri("each"), model, "-o", bucket.uri("each/0.parquet")
    )
    assert code == 2
    assert "is also an input of this command" in said
    code, said = run(bucket, rows, *lines[4])
    assert code == 2
    assert "there are files in it, with which the output would be mixed" in said


@pytest.mark.parametrize("way", ["pyarrow", "fsspec"])
@pytest.mark.parametrize("what", ["build", "assign", "per-file"])
def test_told_to_end_while_uploading_it_leaves_no_part_of_an_object(bucket, rows, what, way):
    lwcs.CoresetKMeans(2, coreset_size=50, random_state=0).fit(X).save(rows / "m.parquet")
    line = {
        "build": ["build", "rows", "--size", "50", "-o", bucket.uri("out.parquet")],
        "assign": ["assign", "rows", "m.parquet", "-o", bucket.uri("out.csv")],
        "per-file": ["assign", "rows", "m.parquet", "--per-file", "-o", bucket.uri("out")],
    }[what]
    if way == "fsspec":
        line += ["--storage-option", f"client_kwargs.endpoint_url={bucket.endpoint}"]
    here = os.getcwd()
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.slowly", "upload", *line, "-q"],
        stderr=subprocess.PIPE,
        env=environment(bucket, rows)
        | {"PYTHONPATH": f"{here}:{os.environ.get('PYTHONPATH', '')}"},
        cwd=rows,
    )
    assert child.stderr is not None
    assert child.stderr.readline() == b"writing\n"
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 143, said
    assert objects(bucket) == {}
    assert uploads(bucket) == []
    assert sorted(os.listdir(rows)) == ["m.parquet", "rows"]
