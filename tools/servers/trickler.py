"""A server on a real port that reads and writes one byte at a time, so slowly that a whole answer
takes minutes.
"""

import queue
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

_EVERY_S = 0.02
_HANDSHAKE = b"\x16"
#: An answer of this number of bytes takes two minutes.
LONG = 6_000


@dataclass
class Trickler:
    """`at_once`: what it sends without waiting; `slowly`: byte after byte. `quick`: it answers as
    other servers do.
    """

    address: str
    at_once: bytes = b""
    slowly: bytes = b""
    quick: bytes = b""
    #: It reads the request as slowly as it would answer.
    reads_slowly: bool = False
    #: Of every client that closed its connection before the end: how many slow bytes had gone
    #: either way.
    cut: queue.SimpleQueue[int] = field(default_factory=queue.SimpleQueue)
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
        accepting = threading.Thread(
            target=_accept, args=(listening, server, tls, threads), name="trickler"
        )
        accepting.start()
        try:
            yield server
        finally:
            server.ended.set()
            listening.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()


def _accept(
    listening: socket.socket,
    server: Trickler,
    tls: ssl.SSLContext | None,
    threads: list[threading.Thread],
) -> None:
    with suppress(OSError):
        while not server.ended.is_set():
            connection, _ = listening.accept()
            threads.append(
                threading.Thread(target=_serve, args=(connection, server, tls), name="trickle")
            )
            threads[-1].start()


def _serve(connection: socket.socket, server: Trickler, tls: ssl.SSLContext | None) -> None:
    with closing(connection):
        connection.settimeout(0.05)
        try:
            talking = connection if tls is None else tls.wrap_socket(connection, server_side=True)
            with closing(talking):
                _answer(talking, server)
        except OSError:
            server.cut.put(0)


def _answer(connection: socket.socket, server: Trickler) -> None:
    if not (server.reads_slowly or server.at_once.startswith(_HANDSHAKE)):
        _read(connection, server)
    if server.quick:
        connection.sendall(server.quick)
        return
    connection.sendall(server.at_once)
    for number in range(len(server.slowly)):
        if server.ended.wait(_EVERY_S):
            return
        try:
            if server.reads_slowly:
                connection.recv(1)
            connection.sendall(server.slowly[number : number + 1])
        except OSError:
            server.cut.put(number)
            return


def _read(connection: socket.socket, server: Trickler) -> None:
    """The head of the request."""
    found = b""
    while b"\r\n\r\n" not in found and not server.ended.is_set():
        with suppress(TimeoutError):
            part = connection.recv(1000)
            if not part:
                raise ConnectionResetError
            found += part
