"""A server on a real port that reads and writes one byte at a time, so slowly that a whole answer takes minutes."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

_EVERY_S = 0.02
#: An answer of so many bytes takes two minutes.
LONG = 6_000


@dataclass
class Trickler:
    """`at_once`: what it sends without waiting; `slowly`: byte after byte. `quick`: it answers as other servers do."""

    address: str
    at_once: bytes = b""
    slowly: bytes = b""
    quick: bytes = b""
    #: It reads the request as slowly as it would answer.
    reads_slowly: bool = False
    #: How many clients closed their connection before they had all of the answer.
    cut: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://{self.address}"


@contextmanager
def trickler(tls: ssl.SSLContext | None = None) -> Iterator[Trickler]:
    """Serves every connection in a thread; all have ended behind the block."""
    with closing(socket.socket()) as listening:
        # A body does not fit into the buffers.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        server = Trickler(f"127.0.0.1:{listening.getsockname()[1]}")
        threads: list[threading.Thread] = []
        accepting = threading.Thread(target=_accept, args=(listening, server, tls, threads), name="trickler")
        accepting.start()
        try:
            yield server
        finally:
            server.ended.set()
            listening.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()


def _accept(listening: socket.socket, server: Trickler, tls: ssl.SSLContext | None, threads: list[threading.Thread]) -> None:
    with suppress(OSError):
        while not server.ended.is_set():
            connection, _ = listening.accept()
            threads.append(threading.Thread(target=_serve, args=(connection, server, tls), name="trickle"))
            threads[-1].start()


def _serve(connection: socket.socket, server: Trickler, tls: ssl.SSLContext | None) -> None:
    with closing(connection):
        connection.settimeout(0.05)
        try:
            talking = connection if tls is None else tls.wrap_socket(connection, server_side=True)
            with closing(talking):
                _answer(talking, server)
        except OSError:
            server.cut.release()


def _answer(connection: socket.socket, server: Trickler) -> None:
    if server.quick:
        _read(connection, server)
        connection.sendall(server.quick)
        return
    if server.reads_slowly:
        for _ in _ticks(server):
            if connection.recv(1) == b"":
                raise ConnectionResetError
        return
    if not server.at_once.startswith(b"\x16"):
        _read(connection, server)
    connection.sendall(server.at_once)
    for byte in _ticks(server):
        connection.sendall(server.slowly[byte : byte + 1])


def _read(connection: socket.socket, server: Trickler) -> None:
    """The head of the request."""
    found = b""
    while b"\r\n\r\n" not in found and not server.ended.is_set():
        with suppress(TimeoutError):
            found += connection.recv(1000)


def _ticks(server: Trickler) -> Iterator[int]:
    for number in range(len(server.slowly)):
        if server.ended.wait(_EVERY_S):
            return
        yield number
