"""The connection of a Python worker to Java, before the worker imports anything.

Spark's Java process starts some workers by itself: those of the query's source and of its stateful
operator. Each has 10 s to connect, which no setting changes, and imports PySpark before: 0.4 s of
CPU, which are more than 10 s on a busy machine or with a part of a core. Java waits without a limit
for all that follows the connection (docs/decisions/0282).
"""

from __future__ import annotations

import os

#: Java gives it to the workers that have to connect, and to no others.
_PORT = "PYTHON_WORKER_FACTORY_PORT"


def connect_early() -> None:
    """Connects to the Java process that waits for this one, if one does, and lets PySpark use the
    connection. Processes that this one starts do not connect again.
    """
    if _PORT not in os.environ:
        return
    import socket

    host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"
    made = [socket.create_connection((host, int(os.environ[_PORT])))]
    del os.environ[_PORT]
    from pyspark import util, worker_util

    def connect_and_auth(
        conn_info: str | int | None, auth_secret: str | None
    ) -> tuple[object, object]:
        if not made:
            return util.local_connect_and_auth(conn_info, auth_secret)
        connection = made.pop()
        file = connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536")))
        util._do_server_auth(file, auth_secret or "")
        return file, connection

    worker_util.local_connect_and_auth = connect_and_auth  # type: ignore[attr-defined]
