"""Pulsar answers for a cluster that does not exist, so each program compares the name."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pulsar_rebalancer.settings.merge_sources import load
from sinks.collector.open_cluster import discovered
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from strategies.errors import AdminError, SettingsError
from tests.control_topic import Control
from tests.pulsar_fake.model import Answer, Cluster
from tests.pulsar_fake.server import FakePulsar, Fault, answered
from tests.unit.command_line import rebalancer
from tests.unit.test_collector import POLICY, REPORT
from tests.unit.test_several_clusters import collected, telemetry
from tools.processes.set_words import set_words

COMMANDS = {
    "collect --once": ["collect", "--once"],
    "execute": ["execute", "--once"],
    "execute --apply": ["execute", "--once", "--apply"],
    "doctor": ["doctor", "--no-spark-start"],
}


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    """The cluster prod-eu-1, which has an isolation policy."""
    with FakePulsar(Cluster(name="prod-eu-1", report=REPORT, policies={"p": POLICY})) as running:
        yield running


def types(pulsar: FakePulsar, folder: Path, command: str, name: str) -> tuple[int, str]:
    """Exit code and text of a command with this `pulsar.cluster`."""
    given = Control(folder).settings(pulsar__cluster=name, pulsar__admin_urls=pulsar.admin_urls)
    answer = rebalancer(*COMMANDS[command], *set_words(given))
    return answer.code, answer.words


@pytest.mark.heavy
@pytest.mark.parametrize("command", [*COMMANDS])
def test_a_misspelt_name_is_refused_and_the_right_one_is_named(
    pulsar: FakePulsar, tmp_path: Path, command: str
) -> None:
    code, words = types(pulsar, tmp_path, command, "prod")
    assert code == (1 if command == "doctor" else 2)
    assert "pulsar.cluster: is prod, but" in words
    assert "belongs to prod-eu-1" in words
    assert "set pulsar.cluster" in words
    assert Control(tmp_path).read("telemetry") == []


def test_a_watch_begins_with_the_right_name_only(pulsar: FakePulsar) -> None:
    with pytest.raises(SettingsError, match=r"is prod, but .* belongs to prod-eu-1"):
        discovered(PulsarSettings("prod", pulsar.admin_urls), lambda _: True)
    found = discovered(PulsarSettings("prod-eu-1", pulsar.admin_urls), lambda _: True)
    assert sorted(found.brokers) == sorted(pulsar.cluster.brokers)


def test_a_collector_ends_before_its_first_pass(pulsar: FakePulsar, tmp_path: Path) -> None:
    given = ["pulsar.cluster=prod", f"pulsar.admin_urls={pulsar.admin_urls}"]
    with pytest.raises(SettingsError, match="belongs to prod-eu-1"):
        collected(load(flags=given), telemetry(tmp_path))
    assert Control(tmp_path).read("telemetry") == []


@pytest.mark.parametrize("command", ["collect --once", "execute"])
@pytest.mark.parametrize("said", ["prod-eu-1", ""], ids=["named", "not-named"])
def test_the_right_name_and_a_broker_that_names_no_cluster_pass(
    pulsar: FakePulsar, tmp_path: Path, command: str, said: str
) -> None:
    pulsar.cluster.configuration["clusterName"] = said
    assert types(pulsar, tmp_path, command, "prod-eu-1")[0] == 0


def test_no_record_of_one_of_several_clusters_has_a_misspelt_name(
    pulsar: FakePulsar, tmp_path: Path
) -> None:
    url, file = f'admin_urls = "{pulsar.admin_urls}"', tmp_path / "settings.toml"
    file.write_text(f"[clusters.prod]\n{url}\n[clusters.prod-eu-1]\n{url}\n", "utf-8")
    answer = rebalancer("collect", "--once", "--config", file)
    assert answer.code == 1
    assert "pulsar.cluster: is prod, but" in answer.words
    assert "the table in [clusters]" in answer.words
    assert pulsar.cluster.brokers[0] in answer.out, "the other cluster is shown"


#: Answers that do not say that nothing is set.
NO_ANSWER = {
    "another cluster": Answer(404, b'{"reason":"Cluster c does not exist."}'),
    "another cluster, newer": Answer(412, b'{"reason":"Cluster c does not exist."}'),
    "a proxy's page": Answer(404, b"<html><h1>404 Not Found</h1></html>"),
    "a proxy's JSON": Answer(404, b'{"message":"Not Found","status":"404"}'),
    "nothing at all": Answer(404),
    "no permission": Answer(403, b'{"reason":"Need super user"}'),
    "another place": Answer(307, location="http://127.0.0.1:1/elsewhere"),
    "no place": Answer(302),
    "a page of a login": Answer(200, b"<html>Sign in</html>"),
    "an empty page": Answer(200),
    "no content": Answer(204),
    "a list": Answer(200, b"[]"),
}


@pytest.mark.parametrize("part", ["namespaceIsolationPolicies", "failureDomains"])
@pytest.mark.parametrize("answer", NO_ANSWER.values(), ids=NO_ANSWER)
def test_only_pulsars_own_answer_says_that_nothing_is_set(answer: Answer, part: str) -> None:
    with (
        FakePulsar(Cluster(), 1) as pulsar,
        closing(PulsarAdmin(PulsarSettings("c", pulsar.admin_urls))) as admin,
    ):
        ask = admin.failure_domains if part == "failureDomains" else admin.isolation_policies
        assert ask() == {}
        pulsar.fail(part, Fault(instead=answer))
        with pytest.raises(AdminError):
            ask()


@pytest.mark.parametrize("status", [404, 412])
@pytest.mark.parametrize("body", [b"<html>", b"", b'{"message":"Not Found"}', b'{"rea'])
def test_a_page_of_a_proxy_does_not_say_that_a_bundle_is_gone(status: int, body: bytes) -> None:
    """Such a bundle would count as one without owner."""
    with (
        FakePulsar(Cluster(), 2) as pulsar,
        closing(PulsarAdmin(PulsarSettings("c", pulsar.admin_urls))) as admin,
    ):
        bundle = "t/ns/0x00000000_0xffffffff"
        pulsar.cluster.owners[bundle] = pulsar.cluster.brokers[0]
        assert admin.owner("t/none/0x00000000_0xffffffff") is None
        pulsar.fail("non-persistent", answered(status, body))
        with pytest.raises(AdminError, match=r"not an answer of Pulsar.*webServicePort"):
            admin.owner(bundle)
