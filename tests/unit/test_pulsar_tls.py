"""REST and client by TLS: who is signed by the authority of the settings is trusted, who is not is
one sentence.
"""

import json
import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.pulsar_api.http_exchange import tls_obstacle
from strategies.errors import BrokerUnavailable
from tests.python_process import python
from tests.unit.client_complaint import client_says
from tests.unit.command_line import rebalancer
from tools.processes.set_words import set_words

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="certificates for this test are made by openssl"
)


class Broker(BaseHTTPRequestHandler):
    """Lists itself."""

    def do_GET(self) -> None:
        body = json.dumps([f"127.0.0.1:{self.connection.getsockname()[1]}"]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


def certificate(folder: Path, name: str, address: str = "IP:127.0.0.1") -> Path:
    """A certificate for this machine that is its own authority, and beside it its key."""
    file = folder / f"{name}.pem"
    subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName={address}"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout"]
    files = [str(file.with_suffix(".key")), "-out", str(file)]
    words = ["openssl", "req", "-x509", "-days", "2", *subject, *key, *files]
    subprocess.run(words, check=True, capture_output=True)
    return file


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    return certificate(tmp_path, "ours")


@pytest.fixture
def broker(ours: Path) -> Iterator[str]:
    """host:port of a broker with that certificate."""
    with serving(ours) as address:
        yield address


@contextmanager
def serving(shown: Path | None, wanted: Path | None = None) -> Iterator[str]:
    """A broker: the certificate it shows, None = it does not speak TLS; who must have signed that
    of its clients.
    """
    with ThreadingHTTPServer(("127.0.0.1", 0), Broker) as server:
        if shown is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(shown, shown.with_suffix(".key"))
            if wanted is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(wanted)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # handshakes that fail are what is tested
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def settings(broker: str, ca: Path) -> PulsarSettings:
    once = PulsarSettings("c", f"https://{broker}", tls_ca_file=str(ca), attempts=1)
    return replace(once, deadline_ms=60_000, connect_timeout_ms=30_000)


@pytest.mark.heavy
@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
def test_whom_an_authority_of_the_machine_signed_is_trusted_too(
    broker: str, ours: Path, scheme: str
) -> None:
    code = (
        "from sinks.pulsar_api.admin import PulsarAdmin; "
        "from sinks.pulsar_api.connection_tls_and_token import "
        f"PulsarSettings; print(*PulsarAdmin(PulsarSettings('c', '{scheme}://{broker}')).brokers())"
    )
    told = python(code, environment=os.environ | {"SSL_CERT_FILE": str(ours)})
    assert told.strip() == broker


@pytest.mark.heavy
def test_who_was_signed_by_somebody_else_is_one_sentence(broker: str, tmp_path: Path) -> None:
    wrong = settings(broker, certificate(tmp_path, "theirs"))
    with (
        closing(PulsarAdmin(wrong)) as admin,
        pytest.raises(BrokerUnavailable, match="presents a TLS certificate that is not trusted"),
    ):
        admin.brokers()
    names = ("cluster", "admin_urls", "tls_ca_file")
    told = rebalancer(
        "collect", "--once", *set_words({f"pulsar.{name}": getattr(wrong, name) for name in names})
    )
    assert told.code == 1
    assert "add the certificate of its authority to pulsar.tls_ca_file" in told.words
    assert "Traceback" not in told.words


def test_the_client_says_so_too(broker: str, ours: Path, tmp_path: Path) -> None:
    said = client_says(f"pulsar+ssl://{broker}", settings(broker, certificate(tmp_path, "theirs")))
    assert "presents a TLS certificate that is not trusted" in said
    assert "add the certificate of its authority to pulsar.tls_ca_file" in said


def rest_says(given: PulsarSettings) -> str:
    with closing(PulsarAdmin(given)) as admin, pytest.raises(BrokerUnavailable) as caught:
        admin.brokers()
    return str(caught.value)


def both_say(broker: str, ca: Path) -> tuple[str, str]:
    """REST and client, both by TLS."""
    given = settings(broker, ca)
    return rest_says(given), client_says(f"pulsar+ssl://{broker}", given)


@pytest.mark.heavy
def test_http_where_tls_is_spoken_names_https(broker: str, ours: Path) -> None:
    plain = replace(settings(broker, ours), admin_urls=f"http://{broker}", tls_ca_file="")
    assert "speaks TLS at this port; write https:// in pulsar.admin_urls" in rest_says(plain)
    assert "speaks TLS at this port; write pulsar+ssl://" in client_says(
        f"pulsar://{broker}", plain
    )


def test_https_where_no_tls_is_spoken_names_the_port(ours: Path) -> None:
    with serving(None) as broker:
        said = both_say(broker, ours)
    for sentence in said:
        assert "does not speak TLS at this port" in sentence
        assert "webServicePortTls" in sentence
        assert "does not accept connections" not in sentence


def test_a_certificate_for_another_name_is_no_matter_of_authorities(tmp_path: Path) -> None:
    elsewhere = certificate(tmp_path, "elsewhere", "DNS:elsewhere.example")
    with serving(elsewhere) as broker:
        said = both_say(broker, elsewhere)
    for sentence in said:
        assert "use a host name that its certificate contains" in sentence
        assert "tls_ca_file" not in sentence


@pytest.mark.heavy
def test_a_broker_that_wants_a_certificate_of_ours_names_the_setting(
    ours: Path, tmp_path: Path
) -> None:
    theirs = certificate(tmp_path, "theirs")
    with serving(ours, wanted=theirs) as broker:
        for sentence in both_say(broker, ours):
            assert "requires a client certificate" in sentence
            assert "pulsar.tls_cert_file" in sentence
        none, keys = settings(broker, ours), (ours.with_suffix(".key"), theirs.with_suffix(".key"))
        wrong, right = (
            replace(none, tls_cert_file=str(shown), tls_key_file=str(key))
            for shown, key in zip((ours, theirs), keys, strict=True)
        )
        assert "does not accept our certificate" in rest_says(wrong)
        with closing(PulsarAdmin(right)) as admin:
            assert admin.brokers() == (broker,)


@pytest.mark.heavy  # the client of Pulsar keeps a core busy for three seconds before it gives up
def test_with_plain_admin_urls_topics_by_tls_are_judged_by_the_authorities_of_the_machine(
    broker: str, ours: Path
) -> None:
    """They trust the broker, which is no Pulsar: its certificate is not at fault."""
    code = (
        "from tests.unit.client_complaint import client_says; "
        "from sinks.pulsar_api.connection_tls_and_token "
        "import PulsarSettings;"
        f"print(client_says('pulsar+ssl://{broker}', PulsarSettings('c', "
        "'http://127.0.0.1:1', connect_timeout_ms=10_000)))"
    )
    told = python(code, environment=os.environ | {"SSL_CERT_FILE": str(ours)})
    assert "certificate" not in told
    assert "timeout" in told


def test_a_chain_of_causes_that_is_a_circle_has_an_end() -> None:
    first, second = OSError("reset"), ConnectionError("closed")
    first.__cause__, second.__cause__ = second, first
    assert tls_obstacle(first, PulsarSettings()) == ""
