"""A webhook on a loopback port that answers as a test says, and keeps what it received."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Delivered:
    """A request. `headers`: by lower-case name."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answered:
    """Status and headers of an answer. `hang_up`: closes the connection instead; `wait`: called
    before the answer.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_up: bool = False
    wait: Callable[[], object] = lambda: None


@dataclass
class Hook:
    """`answers`: of the next requests; afterwards 200."""

    port: int = 0
    answers: list[Answered] = field(default_factory=list)
    received: list[Delivered] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def ids(self) -> list[str]:
        return [one.headers["webhook-id"] for one in self.received]

    @property
    def kinds(self) -> list[str]:
        return [one.json["kind"] for one in self.received]


@contextmanager
def listening(*answers: Answered, certificate: Path | None = None) -> Iterator[Hook]:
    """The webhook for the time of a block. `certificate`: for https, with its key beside it."""
    hook = Hook(answers=list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            hook.received.append(Delivered(self.path, headers, body))
            answer = hook.answers.pop(0) if hook.answers else Answered()
            answer.wait()
            if answer.hang_up:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in {"Content-Length": "0", **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
    hook.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
