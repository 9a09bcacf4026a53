"""The admin client against brokers on real ports: every status, redirects that keep the token and
stay at home, deadlines, repetitions.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Protocol

import pytest

from sinks.pulsar_api.access import PulsarSettings
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.topics.addresses import parse_topic
from sinks.topics.topic_admin import pulsar_topic_facts
from strategies.errors import (
    AdminError,
    BrokerUnavailable,
    NotFound,
    NotOwned,
    Refused,
    SettingsError,
    Unauthorized,
)
from tests.pulsar_fake.model import Answer, Cluster, Request
from tests.pulsar_fake.server import FakePulsar, Fault

TOKEN = "eyJhbGciOi.secret-of-the-test.c2ln"
BUNDLE = "t/ns/0x00000000_0x80000000"
OTHER = "t/ns/0x80000000_0xffffffff"


def cluster(**given: object) -> Cluster:
    return Cluster(token=TOKEN, **given)  # type: ignore[arg-type]


@contextmanager
def running(state: Cluster, brokers: int = 3) -> Iterator[FakePulsar]:
    """Brokers, the second of which owns BUNDLE and the third OTHER."""
    with FakePulsar(state, brokers) as pulsar:
        state.owners.update({BUNDLE: state.brokers[1], OTHER: state.brokers[2 % brokers]})
        yield pulsar


class Connect(Protocol):
    """Makes clients of a fake cluster; all are closed at the end of the test."""

    def __call__(
        self, pulsar: FakePulsar, *, token: str = TOKEN, **given: object
    ) -> PulsarAdmin: ...


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Connect]:
    with ExitStack() as stack:

        def connect(pulsar: FakePulsar, *, token: str = TOKEN, **given: object) -> PulsarAdmin:
            settings = {
                "cluster": "c",
                "admin_urls": pulsar.admin_urls,
                "token_file": str(tmp_path / "token"),
                "backoff_ms": 0,
            }
            (tmp_path / "token").write_text(token + "\n", "utf-8")
            client = PulsarAdmin(PulsarSettings(**{**settings, **given}))  # type: ignore[arg-type]
            stack.callback(client.close)
            return client

        yield connect


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_what_it_asks_and_what_it_does(admin: Connect, manager: str) -> None:
    state = cluster(
        manager=manager,
        policies={"p": {"namespaces": []}},
        domains={"d": {"brokers": []}},
        groups={"t/ns": "g1"},
    )
    with running(state) as pulsar:
        _, two, three = state.brokers
        client = admin(pulsar)

        assert client.brokers() == tuple(sorted(state.brokers))
        assert client.owner(BUNDLE) == two
        assert client.ranges("t/ns") == ("0x00000000_0x80000000", "0x80000000_0xffffffff")
        assert client.isolation_policies() == {"p": {"namespaces": []}}
        assert client.failure_domains() == {"d": {"brokers": []}}
        assert client.anti_affinity("t/ns") == "g1"
        assert client.anti_affinity("t/other") is None
        assert client.tenants() == ("t",)
        assert client.namespaces("t") == ("t/ns",)
        client.unload(BUNDLE, three)
        client.brokers()
        assert client.owner(BUNDLE) == three
        client.split(OTHER, "range_equally_divide", None)
        assert client.ranges("t/ns")[1:] == ("0x80000000_0xbfffffff", "0xbfffffff_0xffffffff")


def test_names_are_quoted_so_that_brokers_read_the_same_name(admin: Connect) -> None:
    """Pulsar takes %41 in a path for an A, and what follows a ? or # for something else."""
    with running(cluster()) as pulsar:
        client = admin(pulsar)
        for name, quoted in (
            ("t/50%41", "t/50%2541"),
            ("t/a b?c#d", "t/a%20b%3Fc%23d"),
            ("t/é:1", "t/%C3%A9:1"),
        ):
            with suppress(AdminError):
                client.ranges(name)
            assert pulsar.asked("GET")[-1].target == f"/admin/v2/namespaces/{quoted}/bundles"
            with suppress(AdminError):
                client.unload(f"{name}/0x00000000_0x80000000", "br&1:8080")
            unload = f"/admin/v2/namespaces/{quoted}/0x00000000_0x80000000/unload"
            assert pulsar.asked("PUT")[-1].target == f"{unload}?destinationBroker=br%261:8080"


def test_the_name_of_a_topic_is_quoted_too() -> None:
    with running(Cluster()) as pulsar:
        topic = parse_topic("pulsar://host:1/t/ns/50%2541%20b")
        assert topic.name.endswith("50%41 b")
        assert pulsar_topic_facts(topic, PulsarSettings("c", pulsar.admin_urls)) is None
        assert pulsar.asked("GET")[-1].target == "/admin/v2/persistent/t/ns/50%2541%20b/partitions"


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_a_redirect_keeps_method_body_and_token(admin: Connect, manager: str) -> None:
    with running(cluster(manager=manager)) as pulsar:
        client = admin(pulsar, admin_urls=f"http://{pulsar.cluster.brokers[2]}")

        client.unload(BUNDLE, pulsar.cluster.brokers[2])
        client.split(OTHER, "specified_positions_divide", [0x90000000])

        assert {call.headers.get("authorization") for call in pulsar.asked("PUT")} == {
            f"Bearer {TOKEN}"
        }
        hops = [call.broker for call in pulsar.asked("PUT") if "/unload" in call.target]
        one, two, three = pulsar.cluster.brokers
        assert hops == ([three, one, two] if manager == "modular" else [three, two])
        assert [call.body for call in pulsar.asked("PUT") if "/split" in call.target] == [
            b"[2415919104]"
        ]
        assert [done.action for done in pulsar.cluster.applied] == ["unload", "split"]


def test_a_redirect_to_a_stranger_is_not_followed(admin: Connect) -> None:
    with running(cluster()) as pulsar, running(cluster()) as stranger:
        there = stranger.cluster.brokers[0]
        pulsar.faults = instead_of_put(
            Answer(307, location=f"http://{there}/admin/v2/namespaces/{BUNDLE}/unload")
        )

        with pytest.raises(
            Refused, match=f"{there}, which is no broker in the cluster's list"
        ) as caught:
            admin(pulsar).unload(BUNDLE, None)

        assert stranger.calls == []
        assert TOKEN not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "location",
    [
        "https://{broker}/x",
        "http://user@{broker}/x",
        "http://{broker}@127.0.0.1:9/x",
        "//127.0.0.1:9/x",
        "ftp://{broker}/",
        "http://[::1/x",
    ],
)
def test_a_redirect_in_disguise_is_not_followed_either(admin: Connect, location: str) -> None:
    with running(cluster()) as pulsar:
        pulsar.faults = instead_of_put(
            Answer(307, location=location.format(broker=pulsar.cluster.brokers[0]))
        )

        with pytest.raises(Refused, match="not followed"):
            admin(pulsar).unload(BUNDLE, None)

        assert len(pulsar.asked("PUT")) == 1


def test_a_broker_that_joined_a_moment_ago_is_no_stranger(admin: Connect) -> None:
    with running(cluster()) as pulsar:
        client = admin(pulsar)
        pulsar.cluster.owners[BUNDLE] = pulsar.join()

        client.unload(BUNDLE, None)

        assert len(pulsar.cluster.applied) == 1


def test_a_redirect_without_end_is_given_up(admin: Connect) -> None:
    with running(cluster()) as pulsar:
        pulsar.faults = instead_of_put(
            Answer(307, location=f"http://{pulsar.cluster.brokers[0]}/x")
        )

        with pytest.raises(NotOwned, match="no broker claims the bundle"):
            admin(pulsar).unload(BUNDLE, None)


def instead_of_put(answer: Answer) -> Callable[[Request], Fault | None]:
    return lambda request: Fault(instead=answer) if request.method == "PUT" else None


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Refused),
        (401, Unauthorized),
        (403, Unauthorized),
        (404, NotFound),
        (405, Refused),
        (409, Refused),
        (412, NotFound),
        (429, BrokerUnavailable),
        (500, Refused),
        (502, BrokerUnavailable),
        (503, BrokerUnavailable),
        (504, BrokerUnavailable),
        (300, Refused),
    ],
)
def test_every_status_has_its_error(admin: Connect, status: int, kind: type[AdminError]) -> None:
    with running(cluster()) as pulsar:
        pulsar.faults = instead_of_put(Answer(status, b'{"reason":"it is so\\nat java.lang"}'))

        with pytest.raises(
            kind, match=f"answered {status} to the unload of {BUNDLE} .it is so."
        ) as caught:
            admin(pulsar).unload(BUNDLE, None)

        assert caught.value.retryable is (kind is BrokerUnavailable)
        assert len(pulsar.asked("PUT")) == 1, "an unload is never repeated by the client"


@pytest.mark.parametrize(
    ("manager", "bundle", "destination", "kind"),
    [
        ("modular", "t/ns/0x00000000_0x10000000", None, NotFound),  # 412: stale after a split
        ("modular", "t/none/0x00000000_0x10000000", None, NotFound),  # 404
        ("modular", "t/ns/0x0_0x1", None, Refused),  # 500: malformed
        ("extensible", BUNDLE, "gone:1", Refused),  # 409
        ("extensible", BUNDLE, "owner", Refused),  # 500
    ],
)
def test_answers_to_an_unload_that_pulsar_declines(
    admin: Connect, manager: str, bundle: str, destination: str | None, kind: type[AdminError]
) -> None:
    with running(cluster(manager=manager)) as pulsar:
        where = pulsar.cluster.brokers[1] if destination == "owner" else destination

        with pytest.raises(kind):
            admin(pulsar).unload(bundle, where)

        assert pulsar.cluster.applied == []


@pytest.mark.parametrize("token", ["wrong", "wrong.one"])
def test_a_wrong_token_is_one_clear_sentence(admin: Connect, token: str) -> None:
    with (
        running(cluster()) as pulsar,
        pytest.raises(Unauthorized, match=r"answered 401 .*pulsar\.token_file.*superUserRoles"),
    ):
        admin(pulsar, token=token).brokers()


def test_a_new_token_counts_without_a_restart(admin: Connect, tmp_path: Path) -> None:
    with running(cluster()) as pulsar:
        client = admin(pulsar)
        pulsar.cluster.token = "rotated"
        (tmp_path / "token").write_text("rotated", "utf-8")

        assert len(client.brokers()) == 3


def test_what_repeats_the_token_does_not_bring_it_into_a_message(admin: Connect) -> None:
    with running(cluster()) as pulsar:
        pulsar.faults = instead_of_put(
            Answer(500, f"you sent Authorization: Bearer {TOKEN}".encode())
        )

        with pytest.raises(Refused) as caught:
            admin(pulsar).unload(BUNDLE, None)

    assert "Bearer (token)" in str(caught.value)
    assert TOKEN not in "".join(traceback.format_exception(caught.value))


def test_a_passing_fault_is_overcome_and_a_lasting_one_is_told(admin: Connect) -> None:
    with running(cluster()) as pulsar:
        client, faults = (
            admin(pulsar, attempts=3),
            iter([Fault(drop=True), Fault(instead=Answer(503))]),
        )
        pulsar.faults = lambda _: next(faults, None)
        assert len(client.brokers()) == 3

        pulsar.faults = lambda _: Fault(instead=Answer(503))
        before = len(pulsar.calls)
        with pytest.raises(BrokerUnavailable, match="answered 503"):
            client.brokers()
        assert len(pulsar.calls) - before == 3


def test_an_unload_whose_answer_is_lost_is_not_repeated(admin: Connect) -> None:
    with running(cluster()) as pulsar:
        pulsar.faults = lambda request: Fault(drop_after=True) if request.method == "PUT" else None

        with pytest.raises(BrokerUnavailable, match="closed the connection during"):
            admin(pulsar, admin_urls=f"http://{pulsar.cluster.brokers[1]}").unload(BUNDLE, None)

        assert len(pulsar.cluster.applied) == 1


@pytest.mark.parametrize("delay_s", [5.0, 600.0])
def test_a_silent_broker_is_given_up_at_the_deadline(admin: Connect, delay_s: float) -> None:
    with running(cluster()) as pulsar:
        pulsar.faults = lambda _: Fault(delay_s=delay_s)

        with pytest.raises(
            BrokerUnavailable, match=r"did not answer the list of brokers within 2 s"
        ):
            admin(pulsar, deadline_ms=2_000).brokers()


def test_a_wish_to_stop_ends_the_repetitions(admin: Connect) -> None:
    with running(cluster()) as pulsar:
        pulsar.faults = lambda _: Fault(instead=Answer(503))
        client = PulsarAdmin(
            PulsarSettings("c", pulsar.admin_urls, attempts=100, backoff_ms=1), wait=lambda _: True
        )

        with closing(client), pytest.raises(BrokerUnavailable):
            client.brokers()

        assert len(pulsar.calls) == 2, "each address once"


def test_of_a_stack_trace_the_line_that_says_something_is_told(admin: Connect) -> None:
    with running(cluster(manager="extensible")) as pulsar:
        with pytest.raises(
            Refused,
            match=r"\(java\.lang\.IllegalArgumentException: .*cannot be "
            r"transfer to same broker\.\)",
        ):
            admin(pulsar).unload(BUNDLE, pulsar.cluster.brokers[1])
        with pytest.raises(Refused, match=r"\(java\.lang\.UnsupportedOperationException\)"):
            admin(pulsar).load_report(pulsar.cluster.brokers[0])


def test_something_else_than_a_broker(admin: Connect) -> None:
    with running(cluster()) as pulsar:
        pulsar.faults = lambda _: Fault(instead=Answer(200, b"<html>welcome</html>"))

        with pytest.raises(Refused, match="is not one of Pulsar's admin API"):
            admin(pulsar).brokers()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"cluster": ""}, ["pulsar.cluster: is empty"]),
        ({"admin_urls": ""}, ["pulsar.admin_urls: is empty"]),
        (
            {"cluster": "", "admin_urls": " , "},
            ["pulsar.cluster: is empty", "pulsar.admin_urls: is empty"],
        ),
        ({"admin_urls": "broker:8080"}, ["pulsar.admin_urls: broker:8080 is not the address"]),
        (
            {"admin_urls": "http://a:8080/admin"},
            ["pulsar.admin_urls: http://a:8080/admin is not the address"],
        ),
        (
            {"admin_urls": "http://me:pass@a:8080"},
            ["pulsar.admin_urls: an address contains a user or password"],
        ),
        ({"admin_urls": "http://a:80800"}, ["pulsar.admin_urls: an entry is not the address"]),
        (
            {"admin_urls": "http://::1:8080"},
            [
                "pulsar.admin_urls: an entry is not the address of a web service; write "
                "http://host:port or https://host:port, with an IPv6 host in brackets"
            ],
        ),
        ({"admin_urls": "http://a,https://b"}, ["pulsar.admin_urls: mixes http and https"]),
        ({"token_file": "/nowhere/token"}, ["pulsar.token_file: /nowhere/token cannot be read"]),
        (
            {"tls_ca_file": "/nowhere/ca"},
            ["pulsar.tls_ca_file: /nowhere/ca contains no certificates"],
        ),
        (
            {"tls_cert_file": "/nowhere/cert"},
            ["pulsar.tls_cert_file: it and pulsar.tls_key_file are no certificate"],
        ),
    ],
)
def test_settings_that_cannot_work_are_told_before_anybody_is_asked(
    given: dict[str, str], told: list[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        PulsarAdmin(PulsarSettings(**{"cluster": "c", "admin_urls": "http://a:8080", **given}))  # type: ignore[arg-type]

    assert [
        complaint[: len(start)]
        for complaint, start in zip(caught.value.complaints, told, strict=True)
    ] == told
    assert "pass" not in str(caught.value).replace("password", "")


def test_a_token_of_two_words_is_refused_without_being_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("token: abc", "utf-8")

    with pytest.raises(SettingsError, match="more than one word") as caught:
        PulsarAdmin(PulsarSettings("c", "http://a:8080", str(tmp_path / "token")))

    assert "abc" not in str(caught.value)


def test_brokers_can_see_in_their_logs_who_calls(admin: Connect) -> None:
    with running(cluster()) as pulsar:
        client = admin(pulsar)
        client.brokers()
        client.unload(BUNDLE, None)

        assert {request.headers["user-agent"] for request, _ in pulsar.calls} == {
            "pulsar-rebalancer"
        }


def test_an_ipv6_address_without_brackets_is_named_before_a_call(admin: Connect) -> None:
    with running(cluster()) as pulsar:
        client = admin(pulsar)

        with pytest.raises(
            Refused, match=r"::1:8080 is an IPv6 address .* advertisedAddress=\[::1\]"
        ):
            client.load_report("::1:8080")
