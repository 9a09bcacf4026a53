"""`rebalancer serve` as a process, with TLS too."""

import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from pulsar_rebalancer.serve.page_start_and_readiness import check_certificate
from strategies.errors import SettingsError
from tests.live_server import API, VIEWER, page_of
from tests.live_topics import MadeUpCluster, publish, settings_of
from tools.waiting import eventually

pytestmark = pytest.mark.heavy
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_cleanly_with_viewers_connected(
    tmp_path: Path, number: int, code: int
) -> None:
    publish(tmp_path, MadeUpCluster(time.time_ns() // 1_000_000))
    given = ["serve.listen=127.0.0.1:0", "metrics.listen=127.0.0.1:0", *settings_of(tmp_path)]
    words = [word for setting in given for word in ("--set", setting)]
    log = tmp_path / "log"
    program = [sys.executable, "-m", "pulsar_rebalancer", "serve", *words]
    with log.open("wb") as out:
        process = subprocess.Popen(program, cwd=ROOT, stderr=out, stdout=out)
    try:
        eventually(lambda: " page: http" in log.read_text(), 60, log.read_text)
        page, metrics = address(log, " page: "), address(log, " metrics: ")
        eventually(lambda: httpx.get(metrics.replace("metrics", "readyz")).status_code == 200, 60)
        with httpx.stream("GET", f"{page}api/v1/events", timeout=30) as stream:
            lines = stream.iter_lines()
            next(lines)
            text = httpx.get(metrics).text
            process.send_signal(number)
            assert process.wait(30) == code
    finally:
        process.kill()
        process.wait()

    assert 'pulsar_rebalancer_page_records{topic="rounds"} 60.0' in text
    assert 'pulsar_rebalancer_page_last_round_timestamp_seconds{cluster="production"} 1.' in text
    assert 'pulsar_rebalancer_page_requests_total{route="/api/v1/events"' not in text
    assert f"stopped ({signal.Signals(number).name})" in log.read_text()
    assert "Traceback" not in log.read_text()


def address(log: Path, before: str) -> str:
    """The URL behind these words in the log."""
    return log.read_text().partition(before)[2].split()[0]


needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="the certificate of this test is made by openssl"
)


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    words: list[str | Path] = ["req", "-x509", "-days", "2", "-newkey", "rsa:2048", "-nodes"]
    words += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    words += ["-out", cert, "-keyout", key]
    subprocess.run(["openssl", *words], check=True, capture_output=True)
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


def test_connections_that_do_not_send_their_request_are_closed(tmp_path: Path) -> None:
    publish(tmp_path, MadeUpCluster(time.time_ns() // 1_000_000))
    with (
        page_of(tmp_path) as page,
        socket.create_connection(page.place, timeout=120) as silent,
        socket.create_connection(page.place, timeout=120) as slow,
    ):
        slow.sendall(b"GET / HTTP/1.1\r\nHost: local")
        assert (silent.recv(1_000), slow.recv(1_000)) == (b"", b"")
