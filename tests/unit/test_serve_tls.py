"""The live page over TLS, and connections that do not send their request."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from pulsar_rebalancer.serve.server import check_certificate
from strategies.errors import SettingsError
from tests.live_server import API, VIEWER, page_of
from tests.live_topics import MadeUpCluster, publish

pytestmark = pytest.mark.heavy

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="the certificate of this test is made by openssl"
)


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-days", "2", "-newkey", "rsa:2048", "-nodes"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-out", str(cert), "-keyout", str(key)),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


@needs_openssl
def test_with_a_certificate_the_page_and_its_cookie_need_tls(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "page")
    publish(tmp_path, MadeUpCluster(time.time_ns() // 1_000_000))
    words = [f"serve.tls_cert={cert}", f"serve.tls_key={key}"]
    trusted = ssl.create_default_context(cafile=str(cert))

    with (
        page_of(tmp_path, words, tokens=True, verify=trusted) as page,
        httpx.Client(base_url=page.url, verify=trusted) as browser,
    ):
        answer = browser.post(f"{API}session", json={"token": VIEWER})
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(page.url.replace("https", "http"))

    assert page.url.startswith("https://127.0.0.1:")
    assert answer.status_code == 200
    assert "; secure" in answer.headers["set-cookie"].lower()


@needs_openssl
def test_a_certificate_and_a_key_that_do_not_fit_are_named(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "one")
    _, other = certificate(tmp_path, "two")

    check_certificate(str(cert), str(key))
    for wrong in (other, tmp_path / "missing.key", cert):
        with pytest.raises(SettingsError, match=r"serve\.tls_key: .* cannot be used"):
            check_certificate(str(cert), str(wrong))


@pytest.mark.heavy
def test_connections_that_do_not_send_their_request_are_closed(tmp_path: Path) -> None:
    publish(tmp_path, MadeUpCluster(time.time_ns() // 1_000_000))
    with (
        page_of(tmp_path) as page,
        socket.create_connection(page.place, timeout=120) as silent,
        socket.create_connection(page.place, timeout=120) as slow,
    ):
        slow.sendall(b"GET / HTTP/1.1\r\nHost: local")
        assert (silent.recv(1_000), slow.recv(1_000)) == (b"", b"")
