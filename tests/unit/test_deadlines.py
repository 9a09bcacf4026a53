"""A deadline bounds a whole exchange with a server that sends or reads one byte at a time."""

import gc
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import httpx  # noqa: F401  # the first call would load it, and its deadline would run
import pytest

from sinks.collector.broker_poll import BrokerPoll
from sinks.collector.open_cluster import hasty_admin
from sinks.collector.settings import CollectorSettings
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.admin_errors import Call
from sinks.pulsar_api.broker_facts import broker_time_s
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.pulsar_api.http import PulsarHttp
from sinks.pulsar_api.http_exchange import HttpConnections
from strategies.errors import BrokerUnavailable
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tools.servers.trickler import LONG, Trickler, trickler

pytestmark = pytest.mark.heavy

BODY = json.dumps(["127.0.0.1:1"]).encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
#: Longer than a busy machine needs to connect, much shorter than the answer.
SHORT_MS = 750


#: What is sent at once, and what byte by byte.
TRICKLES = {
    "status-line": (
        b"HTTP/1.1 200 ",
        b"O" * LONG + b"\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY,
    ),
    "header": (
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX: " % len(BODY),
        b"x" * LONG + b"\r\n\r\n" + BODY,
    ),
    "endless-continue": (
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * (LONG // 25) + HEAD % len(BODY) + BODY,
    ),
    # JSON stays the same with blanks before it.
    "body": (HEAD % LONG, BODY.rjust(LONG)),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"1\r\n \r\n" * (LONG // 6) + b"13\r\n%s\r\n0\r\n\r\n" % BODY,
    ),
    "redirect": (
        b"HTTP/1.1 307 Temporary Redirect\r\nContent-Length: 0\r\nLocation: "
        b"/admin/v2/brokers/c\r\nX: ",
        b"x" * LONG + b"\r\n\r\n",
    ),
}


@pytest.fixture
def server() -> Iterator[Trickler]:
    with trickler() as running:
        yield running


def settings(server: Trickler, **given: Any) -> PulsarSettings:
    short = {"attempts": 1, "deadline_ms": SHORT_MS, "connect_timeout_ms": 60_000}
    return PulsarSettings("c", **{"admin_urls": server.url, **short, **given})


def gave_up_early(server: Trickler) -> bool:
    """Whether the connection was closed long before the end."""
    return server.cut.get(timeout=120) < LONG // 2


@pytest.mark.parametrize("name", TRICKLES)
def test_a_broker_that_trickles_is_cut_off_at_the_deadline(server: Trickler, name: str) -> None:
    server.at_once, server.slowly = TRICKLES[name]
    says = r"did not answer the list of brokers within 0\.75 s.*raise pulsar\.deadline_ms"
    # Repetitions are part of the deadline.
    admin = PulsarAdmin(settings(server, attempts=100, backoff_ms=0))
    with closing(admin), pytest.raises(BrokerUnavailable, match=says):
        admin.brokers()
    assert gave_up_early(server)
    assert server.cut.empty(), "there was no time left for another attempt"


def test_the_connections_of_others_stay_usable(server: Trickler) -> None:
    """The one that was cut off is not used again; the next call gets a new one."""
    server.at_once, server.slowly = TRICKLES["body"]
    # Its last call has to succeed, on a busy machine too.
    admin = PulsarAdmin(settings(server, deadline_ms=2 * SHORT_MS))
    patient = PulsarAdmin(settings(server, deadline_ms=60_000))
    with closing(admin), closing(patient):
        with pytest.raises(BrokerUnavailable):
            admin.brokers()
        server.quick = HEAD % len(BODY) + BODY
        assert patient.brokers() == admin.brokers() == ("127.0.0.1:1",)


def test_a_body_that_is_taken_byte_by_byte_is_cut_off(server: Trickler) -> None:
    server.reads_slowly, server.slowly = True, bytes(LONG)
    call = Call("making a topic", "/admin/v2/x", "PUT", body=bytes(32 * 2**20))
    with (
        closing(PulsarHttp(settings(server), frozenset)) as http,
        pytest.raises(BrokerUnavailable, match=r"within 0\.75 s"),
    ):
        http.ask(call)
    assert gave_up_early(server)


@pytest.mark.parametrize("hurried", ["connect_timeout_ms", "deadline_ms"])
def test_a_tls_handshake_that_trickles_is_cut_off(server: Trickler, hurried: str) -> None:
    """The first bytes of a record of 16 KiB that never ends."""
    server.at_once, server.slowly = b"\x16\x03\x03\x3f\xff", bytes(LONG)
    times = {"connect_timeout_ms": 60_000, "deadline_ms": 60_000, hurried: SHORT_MS}
    secure = settings(server, admin_urls=f"https://{server.address}", **times)
    with closing(PulsarAdmin(secure)) as admin, pytest.raises(BrokerUnavailable, match="handshake"):
        admin.brokers()
    assert gave_up_early(server)
    gc.collect()  # a connection that stays open is a ResourceWarning


def test_a_closed_client_keeps_no_connection_open() -> None:
    """Another thread may still call it."""
    with FakePulsar(Cluster(), 1) as pulsar:
        admin = PulsarAdmin(PulsarSettings("c", pulsar.admin_urls))
        admin.close()
        assert admin.brokers()
        del admin
        gc.collect()


def test_a_pass_names_the_broker_and_the_setting_that_gave_up(server: Trickler) -> None:
    server.at_once, server.slowly = TRICKLES["header"]
    quick = CollectorSettings(broker_deadline_ms=SHORT_MS)
    with closing(hasty_admin(settings(server, deadline_ms=600_000), quick)) as admin:
        done = BrokerPoll(admin.load_report, 4, 8, lambda: 0).run([server.address])
    ((broker, why),) = done.missing.items()
    assert broker == server.address
    assert "within 0.75 s; check the broker, or raise collector.broker_deadline_ms" in why


def test_a_clock_is_not_waited_for(server: Trickler) -> None:
    server.at_once, server.slowly = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate: Sun, 22 Nov 2026 12:00:00 GMT\r\nX: ",
        b"x" * LONG + b"\r\n\r\n",
    )
    assert broker_time_s(server.address, settings(server)) is None
    assert gave_up_early(server)


def test_a_connection_that_opens_after_all_were_closed_is_closed_too() -> None:
    """A full queue of the server holds back the connection."""
    connections = HttpConnections(ssl.create_default_context(), 1, 30)
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as server,
        socket.create_connection(server.getsockname()),
        ThreadPoolExecutor(1) as threads,
    ):
        url, until = f"http://127.0.0.1:{server.getsockname()[1]}/", time.monotonic() + 30
        late = threads.submit(
            connections.exchange, "GET", url, headers={}, body=None, until=until, most=1
        )
        while not connections._transport._pool.connections:
            time.sleep(0.001)
        connections.close()
        server.accept()[0].close()
        peer, _ = server.accept()
        with peer:
            peer.settimeout(30)
            assert peer.recv(1_000).startswith(b"GET")
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            assert peer.recv(1_000) == b""
        assert late.result().status == 200


def test_a_look_up_that_hangs_holds_up_neither_the_call_nor_the_end_of_the_process() -> None:
    program = (
        "import socket, ssl, threading, time\n"
        "from sinks.pulsar_api.http_exchange import HttpConnections, LateConnection\n"
        "socket.getaddrinfo = lambda *_: threading.Event().wait()\n"
        "connections = HttpConnections(ssl.create_default_context(), 1, 60)\n"
        "try:\n"
        "    connections.exchange('GET', 'http://hangs/', headers={}, body=None,\n"
        "                         until=time.monotonic() + 0.1, most=1)\n"
        "except LateConnection:\n"
        "    print('late')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "late\n"
