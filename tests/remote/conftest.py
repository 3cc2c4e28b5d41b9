"""A local S3 server (moto) on a free port, and a bucket for every test."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

# Only make test-remote installs the server, which these tests import.
collect_ignore_glob = [] if find_spec("moto") and find_spec("boto3") else ["test_*.py"]


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.remote)
            # Theirs, not ours: warnings of lwcs are errors here too.
            for theirs in (
                "ignore::DeprecationWarning:botocore",
                "ignore::DeprecationWarning:moto",
                "ignore::DeprecationWarning:pyiceberg",
                "ignore::ResourceWarning",
            ):
                item.add_marker(pytest.mark.filterwarnings(theirs))


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket of its own, by name, with what pyarrow and fsspec need to reach it."""

    name: str
    endpoint: str

    @property
    def storage_options(self) -> dict[str, Any]:
        """For fsspec."""
        return {
            "key": "testing",
            "secret": "testing",
            "client_kwargs": {"endpoint_url": self.endpoint, "region_name": "us-east-1"},
            # Instances are cached by their options: those of another test would know its files.
            "skip_instance_cache": True,
        }

    @property
    def filesystem(self) -> Any:
        """For pyarrow."""
        from pyarrow import fs

        return fs.S3FileSystem(
            access_key="testing",
            secret_key="testing",
            endpoint_override=self.endpoint,
            region="us-east-1",
            scheme="http",
        )

    def uri(self, path: str) -> str:
        return f"s3://{self.name}/{path}"


@pytest.fixture(scope="session")
def s3_server():
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_server):
    boto3 = pytest.importorskip("boto3")
    client = boto3.client(
        "s3",
        endpoint_url=s3_server,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    name = f"b{uuid4().hex[:12]}"
    client.create_bucket(Bucket=name)
    return Bucket(name, s3_server)
