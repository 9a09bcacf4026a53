"""REST and client by TLS: who is signed by the authority of the settings is trusted, who is not is one sentence."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sinks.pulsar_admin import PulsarAdmin
from sinks.pulsar_client import open_client, pulsar_errors
from sinks.pulsar_settings import PulsarSettings
from strategies.errors import BrokerUnavailable, PublishTimeout
from tests.unit.command_line import rebalancer

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates for this test are made by openssl")


class Broker(BaseHTTPRequestHandler):
    """Lists itself."""

    def do_GET(self) -> None:
        body = json.dumps([f"127.0.0.1:{self.connection.getsockname()[1]}"]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


def certificate(folder: Path, name: str) -> Path:
    """A certificate for this machine that is its own authority, and beside it its key."""
    file = folder / f"{name}.pem"
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(file.with_suffix(".key"))]
    subprocess.run(["openssl", "req", "-x509", "-days", "2", *key, *subject, "-out", str(file)], check=True, capture_output=True)
    return file


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    return certificate(tmp_path, "ours")


@pytest.fixture
def broker(ours: Path) -> Iterator[str]:
    """host:port of a broker with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ours, ours.with_suffix(".key"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Broker) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # handshakes that fail are what is tested
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def settings(broker: str, ca: Path) -> PulsarSettings:
    return PulsarSettings("c", f"https://{broker}", tls_ca_file=str(ca), attempts=1, deadline_ms=60_000, connect_timeout_ms=30_000)


def test_whom_the_own_authority_signed_is_trusted(broker: str, ours: Path) -> None:
    with closing(PulsarAdmin(settings(broker, ours))) as admin:
        assert admin.brokers() == (broker,)


def test_who_was_signed_by_somebody_else_is_one_sentence(broker: str, tmp_path: Path) -> None:
    wrong = settings(broker, certificate(tmp_path, "theirs"))
    with closing(PulsarAdmin(wrong)) as admin, pytest.raises(BrokerUnavailable, match="shows a certificate that is not trusted"):
        admin.brokers()
    told = rebalancer("collect", "--once", *[word for name in ("cluster", "admin_urls", "tls_ca_file") for word in given(wrong, name)])
    assert told.code == 1
    assert "name who signed it in pulsar.tls_ca_file" in told.words
    assert "Traceback" not in told.words


def given(wrong: PulsarSettings, name: str) -> list[str]:
    return ["--set", f"pulsar.{name}={getattr(wrong, name)}"]


def test_the_client_says_so_too(broker: str, ours: Path, tmp_path: Path) -> None:
    url = f"pulsar+ssl://{broker}"
    wrong = replace(settings(broker, certificate(tmp_path, "theirs")), deadline_ms=3_000)
    with (
        closing(open_client(url, wrong)) as client,
        pytest.raises(PublishTimeout, match=r"no trust: check pulsar\.tls_ca_file.*CERTIFICATE_VERIFY_FAILED"),
        pulsar_errors("the load topic", url, wrong),
    ):
        client.create_producer("persistent://t/ns/topic")
