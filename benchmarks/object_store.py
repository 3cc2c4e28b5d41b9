"""`python -m benchmarks.object_store FOLDER SECONDS`: a folder as an S3 server, with latency.

It answers what reading asks for (GET with ranges, HEAD, ListObjectsV2) and counts the requests;
every request waits first, and does little else, so that the latency is what is measured. The
tests run against moto, which answers much more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pyarrow as pa
from pyarrow import fs

BUCKET = "bucket"


@dataclass(frozen=True, slots=True)
class Store:
    """A running server."""

    endpoint: str

    @property
    def filesystem(self) -> fs.S3FileSystem:
        """For pyarrow."""
        return fs.S3FileSystem(
            access_key="x", secret_key="x", endpoint_override=self.endpoint, region="us-east-1",
            scheme="http",
        )  # fmt: skip

    @property
    def storage_options(self) -> dict[str, Any]:
        """For fsspec."""
        return {
            "key": "x",
            "secret": "x",
            "client_kwargs": {"endpoint_url": self.endpoint, "region_name": "us-east-1"},
        }

    def requests(self) -> dict[str, int]:
        """How many requests of each kind there were since the last call."""
        with urlopen(f"{self.endpoint}/_requests") as answer:
            return dict(json.load(answer))


@contextmanager
def serving(folder: Path, seconds: float) -> Iterator[Store]:
    """Serve a folder as a bucket, in a separate process, with a latency in seconds per request."""
    command = [sys.executable, "-m", "benchmarks.object_store", str(folder), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Store(f"http://127.0.0.1:{process.stdout.readline().strip()}")
        finally:
            process.terminate()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    root: Path
    seconds: float
    counts: ClassVar[Counter[str]] = Counter()
    lock = threading.Lock()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/_requests":
            counts, type(self).counts = self.counts, Counter()
            return self._send(200, json.dumps(counts).encode())
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        key = url.path.removeprefix(f"/{BUCKET}").strip("/")
        self._wait("LIST" if "list-type" in query else self.command)
        if "list-type" in query:
            return self._send(200, self._listed(query.get("prefix", ""), "delimiter" in query))
        path = self.root / key
        if not path.is_file():
            return self._send(200 if not key else 404, b"")
        return self._object(path)

    do_HEAD = do_GET  # noqa: N815

    def _object(self, path: Path) -> None:
        size, start, status = path.stat().st_size, 0, 200
        stop = size
        if wanted := self.headers.get("Range"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start = int(first) if first else size - int(last)
            stop = min(size, int(last) + 1) if first and last else size
            status = 206
        headers = {
            "ETag": f'"{size:x}"',
            "Last-Modified": formatdate(path.stat().st_mtime, usegmt=True),
            "Accept-Ranges": "bytes",
        }
        if status == 206:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        self._send(status, pa.memory_map(str(path)).read_at(stop - start, start), headers)

    def _listed(self, prefix: str, level: bool) -> bytes:
        files, folders = [], set()
        for path in sorted(self.root.rglob("*")):
            key = path.relative_to(self.root).as_posix()
            if not path.is_file() or not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if level and "/" in rest:
                folders.add(prefix + rest.split("/")[0] + "/")
            else:
                files.append(
                    f"<Contents><Key>{key}</Key><Size>{path.stat().st_size}</Size><LastModified>"
                    f"{time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime(path.stat().st_mtime))}"
                    "</LastModified><ETag>x</ETag></Contents>"
                )
        common = [
            f"<CommonPrefixes><Prefix>{each}</Prefix></CommonPrefixes>" for each in sorted(folders)
        ]
        return (
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{BUCKET}</Name><Prefix>{prefix}</Prefix><KeyCount>{len(files) + len(common)}"
            f"</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>"
            f"{''.join(files + common)}</ListBucketResult>"
        ).encode()

    def _wait(self, kind: str) -> None:
        with self.lock:
            self.counts[kind] += 1
        time.sleep(self.seconds)

    def _send(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def main() -> None:
    _Handler.root, _Handler.seconds = Path(sys.argv[1]), float(sys.argv[2])
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    # The parent may have been killed.
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    server.serve_forever()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    main()
