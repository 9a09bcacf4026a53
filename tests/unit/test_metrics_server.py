"""The HTTP server of the metrics: what Prometheus and probes get, and that no request ends it."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)

from sinks.metrics.http_server_and_probes import (
    BoundedLabel,
    Liveness,
    code_of,
    process_registry,
    serving,
)
from sinks.metrics.settings import ListenAddress, MetricsSettings, listen_address
from strategies.errors import SettingsError, SinkError
from tests.unit.metric_samples import get, scraped

pytestmark = pytest.mark.heavy

HERE = ListenAddress("127.0.0.1", 0)


@dataclass
class Process:
    """A process whose time and stop a test sets, and its server."""

    now_s: float = 0.0
    stopping: bool = False
    liveness: Liveness = field(init=False)
    address: ListenAddress = HERE

    def __post_init__(self) -> None:
        loops, stopping, clock = ["east", "west"], lambda: self.stopping, lambda: self.now_s
        self.liveness = Liveness(60, "a pass", loops=loops, is_stopping=stopping, clock=clock)


@pytest.fixture
def process() -> Iterator[Process]:
    one = Process()
    with serving(HERE, process_registry("0.1.0"), one.liveness) as one.address:
        yield one


def test_prometheus_gets_text_and_openmetrics_if_it_asks_for_it(process: Process) -> None:
    status, kind, text = get(process.address, "/metrics")
    assert (status, kind.startswith("text/plain; version=0.0.4")) == (200, True)
    assert scraped(text) == {("pulsar_rebalancer_build_info", "0.1.0"): 1.0}
    accept = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
    status, kind, text = get(process.address, "/metrics?name=x", headers=accept)
    assert (status, kind.startswith("application/openmetrics-text")) == (200, True)
    families = openmetrics_families(text)  # type: ignore[no-untyped-call]
    assert [family.name for family in families] == ["pulsar_rebalancer_build"]


def test_a_process_is_ready_after_its_first_success_and_until_it_stops(process: Process) -> None:
    not_yet = "The process has not finished a pass yet.\n"
    assert get(process.address, "/readyz")[::2] == (503, not_yet)
    process.liveness.succeeded()
    assert get(process.address, "/readyz")[::2] == (200, "ok\n")
    process.stopping = True
    assert get(process.address, "/readyz")[::2] == (503, "The process is stopping.\n")


def test_a_process_works_as_long_as_each_of_its_loops_turns(process: Process) -> None:
    process.now_s = 60
    assert get(process.address, "/healthz")[::2] == (200, "ok\n")
    process.liveness.turned("east")
    process.now_s = 61
    status, _, text = get(process.address, "/healthz")
    assert status == 503
    assert text.startswith("The main loop of west has not turned for 61 s, more than 60 s: ")
    process.liveness.turned()
    assert get(process.address, "/healthz")[0] == 200


def test_a_loop_that_waits_on_purpose_works(process: Process) -> None:
    process.now_s = 60
    assert process.liveness.turning(lambda seconds: seconds == 5)(5)
    process.now_s = 120
    assert process.liveness.not_healthy() == ""


def test_a_process_with_one_loop_names_none() -> None:
    now = iter([0.0, 61.0])
    liveness = Liveness(60, "a step", clock=lambda: next(now))
    assert liveness.not_healthy().startswith("The main loop has not turned for 61 s")


def test_unknown_paths_and_methods_are_refused(process: Process) -> None:
    assert get(process.address, "/")[::2] == (404, "Known paths: /metrics, /healthz, /readyz\n")
    assert get(process.address, "/metrics", "POST")[0] == 501
    for path in ("/healthz", "/metrics"):
        assert get(process.address, path, "HEAD")[::2] == (200, "")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        b"\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"GET /metrics HTTP/1.1\r\nAccept: text/plain; version=1.x.9\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\n\r\n",
    ],
)
def test_no_malformed_request_ends_it(
    process: Process, request_bytes: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(process.address, timeout=60) as client:
        client.sendall(request_bytes)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65_536):
            pass
    assert get(process.address, "/metrics")[0] == 200
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nHost: a\r\n"],
    ids=["idle", "line", "head"],
)
def test_connections_without_a_request_make_no_probe_fail(process: Process, begun: bytes) -> None:
    """Kubernetes would restart a process that works."""
    with ExitStack() as stack:
        for _ in range(40):
            waiting = stack.enter_context(socket.create_connection(process.address, timeout=60))
            waiting.sendall(begun)
        probes = [get(process.address, path)[0] for path in ("/healthz", "/metrics") * 13]
    assert probes == [200] * 26


@pytest.mark.parametrize("host", ["203.0.113.1", "no-such-host.invalid", "a" * 300, "a..b"])
def test_an_address_of_another_machine_is_one_sentence(host: str) -> None:
    with (
        pytest.raises(SinkError, match=r"^metrics\.listen: .* cannot be used \(.*; name a free"),
        serving(ListenAddress(host, 0), process_registry("0.1.0"), Process().liveness),
    ):
        pass


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6")
def test_all_ipv6_addresses_take_ipv4_too() -> None:
    with serving(ListenAddress("::", 0), process_registry("0.1.0"), Liveness(60, "a step")) as at:
        assert get(ListenAddress("127.0.0.1", at.port), "/healthz")[0] == 200


def test_the_port_is_free_again_after_the_block() -> None:
    registry, liveness = process_registry("0.1.0"), Process().liveness
    with serving(HERE, registry, liveness) as first:
        pass
    with serving(first, registry, liveness) as again:
        assert get(again, "/metrics")[0] == 200


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9090", ListenAddress("127.0.0.1", 9090)),
        ("localhost:0", ListenAddress("localhost", 0)),
        ("[::1]:9090", ListenAddress("::1", 9090)),
        ("", None),
    ],
)
def test_an_address_is_read(text: str, address: ListenAddress | None) -> None:
    assert listen_address(MetricsSettings(text)) == address
    assert address is None or str(address) == text


@pytest.mark.parametrize(
    "text", ["9090", ":9090", "a", "a:", "a:b", "a:99999", "::1:9090", "http://a:1", "a b:1", " "]
)
def test_any_other_address_is_a_complaint(text: str) -> None:
    with pytest.raises(SettingsError, match=r"metrics\.listen: .* is not host:port"):
        listen_address(MetricsSettings(text))


def test_labels_have_a_limited_number_of_values() -> None:
    label = BoundedLabel(2)
    assert [label(name) for name in ("a", "b", "c", "a", "c")] == ["a", "b", "other", "a", "other"]


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (None, ""),
        ("", ""),
        ("came-back: Pulsar released it", "came-back"),
        ("A sentence without code", "other"),
        ("x" * 65, "other"),
    ],
)
def test_the_code_of_a_reason_is_in_front_of_the_colon(reason: str | None, code: str) -> None:
    assert code_of(reason) == code
