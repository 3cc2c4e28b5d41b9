"""The S3 server of the tests, with a door in front of it that counts requests and refuses some."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from dataclasses import dataclass, field
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from werkzeug.serving import make_server
from werkzeug.wrappers import Request as Asked
from werkzeug.wrappers import Response


def kind_of(asked: Asked) -> str:
    """GET, HEAD, LIST; or PUT of a whole object, CREATE, PART, COMPLETE, ABORT of an upload."""
    if asked.method == "GET":
        listing = "list-type" in asked.args or asked.path.count("/") < 2
        return "LIST" if listing else "GET"
    if asked.method == "POST" and "delete" not in asked.args:
        return "CREATE" if "uploads" in asked.args else "COMPLETE"
    if "uploadId" in asked.args:
        return "PART" if asked.method == "PUT" else "ABORT"
    return asked.method


@dataclass
class Door:
    """What passes on to a server: all requests, or only the first few."""

    inner: str
    counts: Counter[str] = field(default_factory=Counter)
    """Requests by kind. One that a client makes again, as it does when this machine is busy and
    an answer takes seconds, is counted once."""
    attempts: Counter[str] = field(default_factory=Counter)
    """The same with every time that a request was made."""
    known: set[str] = field(default_factory=set)
    refuse_from: int | None = None
    """The number of the GET of an object from which on all of them are refused."""
    status: int = 503
    refused: str = "GET"
    """The kind of requests that are refused, as `kind_of` names it."""
    most: int | None = None
    """How many of them are refused; None: all."""
    endpoint: str = ""

    @property
    def total(self) -> int:
        return self.counts.total()

    def refuse(
        self, status: int, kind: str = "GET", after: int = 0, most: int | None = None
    ) -> None:
        """Refuse requests with a status; with 0, the connection is dropped."""
        self.status, self.refused, self.most = status, kind, most
        self.refuse_from = self.attempts[kind] + after

    def _count(self, asked: Asked, kind: str) -> None:
        self.attempts[kind] += 1
        # Both client libraries keep it when they make a request again.
        number = asked.headers.get("amz-sdk-invocation-id", str(self.attempts.total()))
        if number not in self.known:
            self.known.add(number)
            self.counts[kind] += 1

    def __call__(self, environ, start_response):
        asked = Asked(environ)
        kind = kind_of(asked)
        self._count(asked, kind)
        limit = self.refuse_from if kind == self.refused else None
        past = 0 if limit is None else self.attempts[kind] - limit
        if past > 0 and (self.most is None or past <= self.most):
            if not self.status:
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return Response(b"", self.status or 500)(environ, start_response)
        query = f"?{asked.query_string.decode()}" if asked.query_string else ""
        # What is said of the connection is not passed on.
        own = ("Connection", "Content-Length", "Expect", "Transfer-Encoding")
        headers = {key: value for key, value in asked.headers.items() if key not in own}
        # urllib would call it a form.
        headers.setdefault("Content-Type", "application/octet-stream")
        passed = Request(
            f"{self.inner}{asked.path}{query}",
            data=asked.get_data() or None,
            headers=headers,
            method=asked.method,
        )
        try:
            with urlopen(passed) as answer:
                body, status, told = answer.read(), answer.status, answer.headers
        except HTTPError as error:
            body, status, told = error.read(), error.code, error.headers
        kept = [(key, value) for key, value in told.items() if key not in ("Connection", "Date")]
        # As it came: the answer to HEAD says how long a body would be.
        start_response(f"{status} passed on", kept)
        return [body]


def opened(inner: str):
    """A door to a server, on a port of its own, and what ends it."""
    door = Door(inner)
    server = make_server("127.0.0.1", 0, door, threaded=True)
    door.endpoint = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return door, server.shutdown
