"""A proxy in front of a server, for what the network does only when a machine is busy."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: Longer than a Kafka broker waits between a refused login and the close of its connection.
_QUIET_S = 0.3


@contextmanager
def last_answer_with_close(server: tuple[str, int]) -> Iterator[str]:
    """Yields the address of a proxy whose clients get the server's last bytes and the end of the
    connection in one packet.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=_accept, args=(listener, server), daemon=True)
        accepting.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()


def _accept(listener: socket.socket, server: tuple[str, int]) -> None:
    with suppress(OSError):  # the listener is closed
        while True:
            client = listener.accept()[0]
            behind = socket.create_connection(server)
            threading.Thread(target=_forward, args=(client, behind), daemon=True).start()
            threading.Thread(target=_answer, args=(behind, client), daemon=True).start()


def _forward(client: socket.socket, server: socket.socket) -> None:
    with suppress(OSError), server:
        while data := client.recv(65_536):
            server.sendall(data)


def _answer(server: socket.socket, client: socket.socket) -> None:
    """Holds each answer back until it knows whether the server closes after it."""
    server.settimeout(_QUIET_S)
    held = b""
    with suppress(OSError), client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        while True:
            try:
                data = server.recv(65_536)
            except TimeoutError:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
                client.sendall(held)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
                held = b""
                continue
            held += data
            if not data:
                client.sendall(held)
                client.shutdown(socket.SHUT_RDWR)
                return
