"""Brokers that a cluster listed stand in for those of the settings while the program runs, and
nobody else does.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import MOST_FALLBACKS, KnownBrokers, PulsarSettings
from strategies.errors import BrokerUnavailable, Refused
from tests.pulsar_fake.model import Answer, Cluster
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.unit.test_collector import REPORT

pytestmark = pytest.mark.heavy

TOKEN = "a.token.of-the-test"
BUNDLE = "t/ns/0x00000000_0x80000000"


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(token=TOKEN, report=REPORT), 4) as running:
        yield running


@pytest.fixture
def settings(pulsar: FakePulsar, tmp_path: Path) -> PulsarSettings:
    """Only the first broker is named."""
    (tmp_path / "token").write_text(TOKEN, "utf-8")
    return PulsarSettings(
        "c", f"http://{pulsar.cluster.brokers[0]}", str(tmp_path / "token"), backoff_ms=0
    )


@pytest.fixture
def said() -> list[str]:
    return []


def test_when_the_only_address_dies_the_others_are_asked_and_it_is_said_once(
    pulsar: FakePulsar, settings: PulsarSettings, said: list[str]
) -> None:
    with closing(PulsarAdmin(settings, known=KnownBrokers(settings, said.append))) as admin:
        admin.brokers()
        pulsar.kill(pulsar.cluster.brokers[0])
        assert admin.brokers() == tuple(sorted(pulsar.cluster.brokers))
        assert admin.version() == "4.2.4"
    (sentence,) = said
    assert "does not accept connections" in sentence
    assert "other brokers of the cluster's list are asked" in sentence


# half of the deadline is waited for, and the other half is enough for the others on a busy machine
@pytest.mark.heavy
def test_a_broker_that_accepts_and_never_answers_leaves_time_for_the_others(
    pulsar: FakePulsar, settings: PulsarSettings
) -> None:
    frozen = pulsar.cluster.brokers[0]
    with closing(PulsarAdmin(replace(settings, deadline_ms=20_000))) as admin:
        admin.brokers()
        pulsar.fail(lambda request: request.broker == frozen, Fault(delay_s=3_600))
        assert len(admin.brokers()) == 4
        before = len(pulsar.calls)
        admin.version()
        ((request, _),) = pulsar.calls[before:]
        assert request.broker != frozen, "who failed is asked last"


def test_a_broker_that_does_not_answer_about_itself_is_still_asked_about_the_cluster(
    pulsar: FakePulsar, settings: PulsarSettings, said: list[str]
) -> None:
    """Otherwise a listed broker would take the place of a configured one unsaid."""
    named = pulsar.cluster.brokers[0]
    pulsar.fail(lambda request: request.target.endswith("load-report"), Fault(drop=True))
    with closing(
        PulsarAdmin(replace(settings, attempts=1), known=KnownBrokers(settings, said.append))
    ) as admin:
        admin.brokers()
        with pytest.raises(BrokerUnavailable):
            admin.load_report(named)
        admin.version()
    assert pulsar.calls[-1][0].broker == named
    assert said == []


def test_an_empty_list_is_not_learned(settings: PulsarSettings) -> None:
    """A broker that answers and lists none has lost its session."""
    known = KnownBrokers(settings)
    known.learn(["b:1", "c:1"])
    known.learn(())
    assert [str(base) for base in known.bases()[1:]] == ["http://b:1", "http://c:1"]


def test_an_unload_that_was_never_sent_goes_to_a_listed_broker(
    pulsar: FakePulsar, settings: PulsarSettings
) -> None:
    pulsar.cluster.owners[BUNDLE] = pulsar.cluster.brokers[1]
    with closing(PulsarAdmin(settings)) as admin:
        admin.brokers()
        pulsar.kill(pulsar.cluster.brokers[0])
        admin.unload(BUNDLE, None)
    assert [done.bundle for done in pulsar.cluster.applied] == [BUNDLE]


def test_when_nobody_lives_the_sentence_is_about_the_address_of_the_settings(
    pulsar: FakePulsar, settings: PulsarSettings
) -> None:
    first = pulsar.cluster.brokers[0]
    with closing(PulsarAdmin(settings)) as admin:
        admin.brokers()
        for broker in list(pulsar.cluster.brokers):
            pulsar.kill(broker, still_listed=True)
        said = rf"{first} does not accept.*None of 3 more brokers of the cluster answers"
        with pytest.raises(BrokerUnavailable, match=said):
            admin.brokers()


def test_listed_brokers_are_asked_by_the_scheme_of_the_settings_only(
    settings: PulsarSettings,
) -> None:
    known = KnownBrokers(replace(settings, admin_urls="https://a:8443", tls_port=8443))
    known.learn(["b:8080", "c:8080"])
    assert [str(base) for base in known.bases()] == [f"https://{name}:8443" for name in "abc"]


def test_a_call_asks_a_few_of_many_and_the_next_call_others(settings: PulsarSettings) -> None:
    known = KnownBrokers(settings)
    known.learn([f"b{number}:1" for number in range(1_000)])
    first = known.bases()
    assert len(first) == 1 + MOST_FALLBACKS
    for base in first:
        known.failed(base)
    assert not set(first[1:]) & set(known.bases())
    assert first[0] in known.bases(), "those of the settings are always among them"


def test_a_listed_broker_cannot_send_the_token_to_a_stranger(
    pulsar: FakePulsar, settings: PulsarSettings
) -> None:
    """The rules for redirects hold whoever was asked."""
    with FakePulsar(Cluster(), 1) as stranger, closing(PulsarAdmin(settings)) as admin:
        admin.brokers()
        pulsar.kill(pulsar.cluster.brokers[0])
        away = Answer(
            307, location=f"http://{stranger.cluster.brokers[0]}/admin/v2/brokers/version"
        )
        pulsar.fail(lambda request: request.target.endswith("/version"), Fault(instead=away))
        with pytest.raises(Refused, match="no broker in the cluster's list"):
            admin.version()
        assert stranger.calls == []
