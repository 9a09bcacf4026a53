"""The connection of a Python worker to Java, before the worker imports anything.

Spark's Java process starts some workers by itself: those of the query's source and of its stateful
operator. Each has 10 s to connect and 10 s more to send its secret, which no setting changes, and
imports PySpark before: 0.4 s of CPU, which are more than 10 s on a busy machine or with a part of a
core. Java waits without a limit for all that follows the secret (docs/decisions/0130).
"""

import os
import socket

#: Java gives both to the workers that have to connect, and the port to no others.
_PORT, _SECRET = "PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SECRET"


def connect_early() -> None:
    """Connects to the Java process that waits for this one, if one does, and lets PySpark use the
    connection. Processes that this one starts do not connect again.
    """
    if _PORT not in os.environ:
        return
    host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"
    connection = socket.create_connection((host, int(os.environ[_PORT])))
    secret = os.environ[_SECRET].encode()
    connection.sendall(len(secret).to_bytes(4, "big") + secret)
    del os.environ[_PORT]
    _hand_over(connection)


def _hand_over(connection: socket.socket) -> None:
    """Gives PySpark this connection as its first one, which gets the answer to the secret."""
    from pyspark import util, worker_util

    waiting = [connection]

    def connect_and_auth(
        conn_info: str | int | None, auth_secret: str | None
    ) -> tuple[object, object]:
        if not waiting:
            return util.local_connect_and_auth(conn_info, auth_secret)
        size = int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))
        file = waiting[0].makefile("rwb", size)
        if file.read(int.from_bytes(file.read(4), "big")) != b"ok":
            raise ConnectionRefusedError("Java does not accept the secret of this worker")
        return file, waiting.pop()

    worker_util.local_connect_and_auth = connect_and_auth  # type: ignore[attr-defined]
