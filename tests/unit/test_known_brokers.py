"""Brokers that a cluster listed stand in for those of the settings: while the program runs, and
after a new start, and nobody else does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.known_brokers import MOST_FALLBACKS, KnownBrokers
from sinks.pulsar_api.settings import PulsarSettings
from strategies.errors import BrokerUnavailable, Refused, Unauthorized
from tests.control_topic import Control
from tests.pulsar_fake.model import Answer, Cluster
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.unit.command_line import rebalancer
from tests.unit.test_collector import REPORT

pytestmark = pytest.mark.heavy

TOKEN = "a.token.of-the-test"
DAY_MS = 86_400_000
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


def listed_by(settings: PulsarSettings, known: KnownBrokers) -> tuple[str, ...]:
    with closing(PulsarAdmin(settings, known=known)) as admin:
        return admin.brokers()


def test_when_the_only_address_dies_the_others_are_asked_and_it_is_said_once(
    pulsar: FakePulsar, settings: PulsarSettings, said: list[str]
) -> None:
    with closing(PulsarAdmin(settings, known=KnownBrokers(settings, log=said.append))) as admin:
        dead, *alive = admin.brokers()[:1] + tuple(b for b in pulsar.cluster.brokers)
        assert dead in alive
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
        pulsar.faults = lambda request: Fault(delay_s=3_600) if request.broker == frozen else None

        assert len(admin.brokers()) == 4
        before = len(pulsar.calls)
        admin.version()
        assert [request.broker == frozen for request, _ in pulsar.calls[before:]] == [False], (
            "who failed is asked last"
        )


def test_a_broker_that_does_not_answer_about_itself_is_still_asked_about_the_cluster(
    pulsar: FakePulsar, settings: PulsarSettings, said: list[str]
) -> None:
    """Otherwise a broker that the cluster listed would take the place of a configured one, and
    nothing would say so.
    """
    named = pulsar.cluster.brokers[0]
    pulsar.faults = lambda request: (
        Fault(drop=True) if request.target.endswith("load-report") else None
    )
    with closing(
        PulsarAdmin(replace(settings, attempts=1), known=KnownBrokers(settings, log=said.append))
    ) as admin:
        admin.brokers()
        with pytest.raises(BrokerUnavailable):
            admin.load_report(named)
        admin.version()
    assert pulsar.calls[-1][0].broker == named
    assert said == []


def test_a_new_start_asks_the_brokers_of_the_last_one(
    pulsar: FakePulsar, settings: PulsarSettings, tmp_path: Path, said: list[str]
) -> None:
    listed_by(settings, KnownBrokers(settings, [tmp_path / "state"]))
    pulsar.kill(pulsar.cluster.brokers[0])

    with pytest.raises(BrokerUnavailable):
        listed_by(settings, KnownBrokers(settings))
    assert listed_by(settings, KnownBrokers(settings, [tmp_path / "state"], said.append)) == tuple(
        sorted(pulsar.cluster.brokers)
    )
    assert len(said) == 1


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b""),
        (401, b""),
        (403, b""),
        (412, b""),
        (500, b"oops"),
        (200, b"<html>"),
        (200, b"[]"),
    ],
)
def test_a_host_that_is_no_broker_any_more_is_passed_over(
    pulsar: FakePulsar, settings: PulsarSettings, tmp_path: Path, status: int, body: bytes
) -> None:
    """Its address went to another service while nothing of ours ran."""
    listed_by(settings, KnownBrokers(settings, [tmp_path / "state"]))
    dead, changed, *alive = pulsar.cluster.brokers
    pulsar.kill(dead)
    pulsar.faults = lambda request: (
        Fault(instead=Answer(status, body)) if request.broker == changed else None
    )

    for _ in range(2):
        assert set(alive) <= set(listed_by(settings, KnownBrokers(settings, [tmp_path / "state"])))
    known = KnownBrokers(settings, [tmp_path / "state"])
    with closing(PulsarAdmin(settings, known=known)) as admin:
        assert admin.configuration()["clusterName"] == settings.cluster, "the first call of a start"


def test_when_all_listed_brokers_refuse_the_token_the_token_is_named(
    pulsar: FakePulsar, settings: PulsarSettings, tmp_path: Path
) -> None:
    listed_by(settings, KnownBrokers(settings, [tmp_path / "state"]))
    pulsar.kill(pulsar.cluster.brokers[0])
    (tmp_path / "token").write_text("expired", "utf-8")

    with pytest.raises(Unauthorized):
        listed_by(settings, KnownBrokers(settings, [tmp_path / "state"]))


def test_an_empty_list_is_not_learned(
    pulsar: FakePulsar, settings: PulsarSettings, tmp_path: Path
) -> None:
    """A broker that answers and lists none has lost its session; the next call asks the brokers
    that were listed before.
    """
    known = KnownBrokers(settings, [tmp_path / "state"])
    listed = listed_by(settings, known)
    known.learn(())
    assert len(known.bases()) == len(listed)
    assert len(KnownBrokers(settings, [tmp_path / "state"]).bases()) == len(listed)


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
        with pytest.raises(
            BrokerUnavailable,
            match=rf"{first} does not accept.*None of 3 more brokers of the cluster answers",
        ):
            admin.brokers()


def file_of(folder: Path) -> Path:
    (file,) = folder.glob("brokers-*.json")
    return file


def test_the_file_is_for_its_owner_and_replaced_as_a_whole(
    settings: PulsarSettings, tmp_path: Path
) -> None:
    known = KnownBrokers(settings, [tmp_path / "state"])
    known.learn(["a:1", "b:1"])
    known.learn(["b:1", "c:1"])
    tree = json.loads(file_of(tmp_path / "state").read_text("utf-8"))
    assert (tree["brokers"], tree["cluster"]) == (["b:1", "c:1"], "c")
    assert file_of(tmp_path / "state").stat().st_mode & 0o777 == 0o600
    assert len(list((tmp_path / "state").iterdir())) == 1, "nothing is left beside it"


def test_it_is_written_when_it_changes_and_once_an_hour(
    settings: PulsarSettings, tmp_path: Path
) -> None:
    now = [0]
    known = KnownBrokers(settings, [tmp_path / "state"], clock_ms=lambda: now[0])
    times = []
    for hour, brokers in ((0, ["a:1"]), (0.5, ["a:1"]), (0.6, ["b:1"]), (2, ["b:1"])):
        now[0] = int(hour * 3_600_000)
        known.learn(brokers)
        times.append(json.loads(file_of(tmp_path / "state").read_text("utf-8"))["ts"] / 3_600_000)
    assert times == [0, 0, 0.6, 2]


def with_names(*names: object) -> Callable[[dict[str, Any]], object]:
    return lambda tree: {**tree, "brokers": list(names)}


UNUSABLE: dict[str, Callable[[dict[str, Any]], object]] = {
    "another-cluster": lambda tree: {**tree, "cluster": "d"},
    "other-addresses": lambda tree: {**tree, "admin_urls": ["http://elsewhere:1"]},
    "too-old": lambda tree: {**tree, "ts": tree["ts"] - 8 * DAY_MS},
    "from-the-future": lambda tree: {**tree, "ts": tree["ts"] + 3 * DAY_MS},
    "not-a-broker": with_names("good:1", "http://evil:80/"),
    "with-a-password": with_names("user@evil/x:80"),
    "a-number": with_names(7),
    "no-object": lambda tree: [tree],
    "unknown-version": lambda tree: {**tree, "v": 2},
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_file_that_cannot_be_believed_is_not_used(
    settings: PulsarSettings, tmp_path: Path, said: list[str], name: str
) -> None:
    KnownBrokers(settings, [tmp_path]).learn(["a:1", "b:1"])
    file = file_of(tmp_path)
    file.write_text(json.dumps(UNUSABLE[name](json.loads(file.read_text("utf-8")))), "utf-8")
    assert len(KnownBrokers(settings, [tmp_path], said.append).bases()) == 1
    assert len(said) == 1
    assert "is not used" in said[0]


@pytest.mark.parametrize(
    "text", [b"", b"\xff\xfe", b"{", b"[" * 100_000, b'{"v": 1}', b" " * (5 * 2**20)]
)
def test_neither_is_one_that_was_damaged(
    settings: PulsarSettings, tmp_path: Path, said: list[str], text: bytes
) -> None:
    KnownBrokers(settings, [tmp_path]).learn(["a:1"])
    file_of(tmp_path).write_bytes(text)
    again = KnownBrokers(settings, [tmp_path], said.append)
    assert (len(again.bases()), len(said)) == (1, 1)
    again.learn(["a:1"])
    assert len(KnownBrokers(settings, [tmp_path]).bases()) == 2, "it is written again"


def test_one_that_others_may_write_could_send_the_token_anywhere(
    settings: PulsarSettings, tmp_path: Path, said: list[str]
) -> None:
    KnownBrokers(settings, [tmp_path]).learn(["a:1"])
    file_of(tmp_path).chmod(0o666)
    assert len(KnownBrokers(settings, [tmp_path], said.append).bases()) == 1
    assert "the token is sent to the brokers in it" in said[0]


def test_a_link_and_a_pipe_are_no_files(
    settings: PulsarSettings, tmp_path: Path, said: list[str]
) -> None:
    KnownBrokers(settings, [tmp_path]).learn(["a:1"])
    file = file_of(tmp_path)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert len(KnownBrokers(settings, [tmp_path], said.append).bases()) == 1
    file.unlink()
    os.mkfifo(file)
    assert len(KnownBrokers(settings, [tmp_path], said.append).bases()) == 1
    assert len(said) == 2


def test_a_folder_that_cannot_be_made_is_a_warning(
    settings: PulsarSettings, tmp_path: Path, said: list[str]
) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    known = KnownBrokers(settings, [tmp_path / "file"], said.append)
    known.learn(["a:1"])
    known.learn(["b:1"])
    assert len(said) == 1
    assert [str(base) for base in known.bases()[1:]] == ["http://b:1"]


def test_listed_brokers_are_asked_by_the_scheme_of_the_settings_only(
    settings: PulsarSettings,
) -> None:
    known = KnownBrokers(replace(settings, admin_urls="https://a:8443", tls_port=8443))
    known.learn(["b:8080", "c:8080"])
    assert [str(base) for base in known.bases()] == [
        "https://a:8443",
        "https://b:8443",
        "https://c:8443",
    ]


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
        pulsar.faults = lambda request: (
            Fault(instead=away) if request.target.endswith("/version") else None
        )
        with pytest.raises(Refused, match="no broker in the cluster's list"):
            admin.version()
        assert stranger.calls == []


@pytest.mark.parametrize("scheme", ["modular", "extensible"])
def test_a_dead_address_is_no_end_of_executing(
    pulsar: FakePulsar, settings: PulsarSettings, tmp_path: Path, scheme: str
) -> None:
    pulsar.cluster.manager = scheme  # type: ignore[assignment]
    control = Control(tmp_path)
    (tmp_path / "commands").mkdir(exist_ok=True)
    words = [
        word
        for name in ("cluster", "admin_urls", "token_file")
        for word in ("--set", f"pulsar.{name}={getattr(settings, name)}")
    ]
    words += [
        "--set",
        f"executor.state={tmp_path / 'state'}",
        "--commands",
        control.uri("commands"),
        "--outcomes",
        control.uri("outcomes"),
    ]
    words += [
        "--set",
        f"topics.rounds={control.uri('rounds')}",
        "--set",
        f"topics.telemetry={control.uri('telemetry')}",
    ]
    words += ["--set", f"topics.rejected={control.uri('rejected')}"]
    assert rebalancer("execute", "--once", *words).code == 0
    pulsar.kill(pulsar.cluster.brokers[0])

    again = rebalancer("execute", "--once", *words)

    assert again.code == 0, again.words
    assert "other brokers of the cluster's list are asked" in again.words
