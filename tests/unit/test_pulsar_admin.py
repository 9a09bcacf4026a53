"""The admin client against brokers on real ports: every status, redirects that keep the token and
stay at home, deadlines, repetitions.
"""

import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

import pytest

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.topic_admin import pulsar_topic_facts
from sinks.topics.topic_settings import parse_topic
from strategies.errors import (
    AdminError,
    BrokerUnavailable,
    NotFound,
    NotOwned,
    Refused,
    SettingsError,
    Unauthorized,
)
from tests.pulsar_fake.model import Answer, Cluster
from tests.pulsar_fake.server import FakePulsar, Fault, answered, is_put

TOKEN = "eyJhbGciOi.secret-of-the-test.c2ln"
BUNDLE = "t/ns/0x00000000_0x80000000"
OTHER = "t/ns/0x80000000_0xffffffff"


Manager = Literal["modular", "extensible"]
#: Makes clients of a fake cluster; all are closed at the end of the test.
Connect = Callable[..., PulsarAdmin]


@contextmanager
def running(state: Cluster, brokers: int = 3) -> Iterator[FakePulsar]:
    """Brokers, the second of which owns BUNDLE and the third OTHER."""
    with FakePulsar(state, brokers) as pulsar:
        state.owners.update({BUNDLE: state.brokers[1], OTHER: state.brokers[2 % brokers]})
        yield pulsar


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with running(Cluster(token=TOKEN)) as found:
        yield found


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Connect]:
    with ExitStack() as stack:

        def connect(pulsar: FakePulsar, *, token: str = TOKEN, **given: object) -> PulsarAdmin:
            (tmp_path / "token").write_text(token + "\n", "utf-8")
            usual = {"cluster": "c", "admin_urls": pulsar.admin_urls, "backoff_ms": 0}
            settings = {**usual, "token_file": str(tmp_path / "token"), **given}
            client = PulsarAdmin(PulsarSettings(**settings))  # type: ignore[arg-type]
            stack.callback(client.close)
            return client

        yield connect


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_what_it_asks_and_what_it_does(admin: Connect, manager: Manager) -> None:
    policies: dict[str, object] = {"p": {"namespaces": []}}
    domains: dict[str, object] = {"d": {"brokers": []}}
    state = Cluster(token=TOKEN, manager=manager, policies=policies, domains=domains)
    state.groups["t/ns"] = "g1"
    with running(state) as pulsar:
        _, two, three = state.brokers
        client = admin(pulsar)
        assert client.brokers() == tuple(sorted(state.brokers))
        assert client.owner(BUNDLE) == two
        assert client.ranges("t/ns") == ("0x00000000_0x80000000", "0x80000000_0xffffffff")
        assert (client.isolation_policies(), client.failure_domains()) == (policies, domains)
        assert client.anti_affinity("t/ns") == "g1"
        assert client.anti_affinity("t/other") is None
        assert client.tenants() == ("t",)
        assert client.namespaces("t") == ("t/ns",)
        client.unload(BUNDLE, three)
        client.brokers()
        assert client.owner(BUNDLE) == three
        client.split(OTHER, "range_equally_divide", None)
        assert client.ranges("t/ns")[1:] == ("0x80000000_0xbfffffff", "0xbfffffff_0xffffffff")


@pytest.mark.parametrize(
    ("name", "quoted"),
    [("t/50%41", "t/50%2541"), ("t/a b?c#d", "t/a%20b%3Fc%23d"), ("t/é:1", "t/%C3%A9:1")],
)
def test_names_are_quoted_so_that_brokers_read_the_same_name(
    pulsar: FakePulsar, admin: Connect, name: str, quoted: str
) -> None:
    """Pulsar takes %41 in a path for an A, and what follows a ? or # for something else."""
    client = admin(pulsar)
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
def test_a_redirect_keeps_method_body_and_token(admin: Connect, manager: Manager) -> None:
    with running(Cluster(token=TOKEN, manager=manager)) as pulsar:
        client = admin(pulsar, admin_urls=f"http://{pulsar.cluster.brokers[2]}")
        client.unload(BUNDLE, pulsar.cluster.brokers[2])
        client.split(OTHER, "specified_positions_divide", [0x90000000])
        calls, (one, two, three) = pulsar.asked("PUT"), pulsar.cluster.brokers
        assert {call.headers.get("authorization") for call in calls} == {f"Bearer {TOKEN}"}
        hops = [call.broker for call in calls if "/unload" in call.target]
        assert hops == ([three, one, two] if manager == "modular" else [three, two])
        bodies = [call.body for call in calls if "/split" in call.target]
        assert bodies == [b"[2415919104]"]
        assert [done.action for done in pulsar.cluster.applied] == ["unload", "split"]


def test_a_redirect_to_a_stranger_is_not_followed(pulsar: FakePulsar, admin: Connect) -> None:
    with running(Cluster(token=TOKEN)) as stranger:
        there = stranger.cluster.brokers[0]
        pulsar.fail(is_put, sent_to(f"http://{there}/admin/v2/namespaces/{BUNDLE}/unload"))
        with pytest.raises(Refused, match=f"{there}, which is no broker in the cluster") as caught:
            admin(pulsar).unload(BUNDLE, None)
        assert stranger.calls == []
        assert TOKEN not in "".join(traceback.format_exception(caught.value))


def sent_to(location: str) -> Fault:
    return Fault(instead=Answer(307, location=location))


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
def test_a_redirect_in_disguise_is_not_followed_either(
    pulsar: FakePulsar, admin: Connect, location: str
) -> None:
    pulsar.fail(is_put, sent_to(location.format(broker=pulsar.cluster.brokers[0])))
    with pytest.raises(Refused, match="not followed"):
        admin(pulsar).unload(BUNDLE, None)
    assert len(pulsar.asked("PUT")) == 1


def test_a_broker_that_joined_a_moment_ago_is_no_stranger(
    pulsar: FakePulsar, admin: Connect
) -> None:
    client = admin(pulsar)
    pulsar.cluster.owners[BUNDLE] = pulsar.join()
    client.unload(BUNDLE, None)
    assert len(pulsar.cluster.applied) == 1


def test_a_redirect_without_end_is_given_up(pulsar: FakePulsar, admin: Connect) -> None:
    pulsar.fail(is_put, sent_to(f"http://{pulsar.cluster.brokers[0]}/x"))
    with pytest.raises(NotOwned, match="no broker claims the bundle"):
        admin(pulsar).unload(BUNDLE, None)


@pytest.mark.parametrize(
    ("kind", "statuses"),
    [
        (Refused, (300, 400, 405, 409, 500)),
        (Unauthorized, (401, 403)),
        (NotFound, (404, 412)),
        (BrokerUnavailable, (429, 502, 503, 504)),
    ],
)
def test_every_status_has_its_error(
    pulsar: FakePulsar, admin: Connect, kind: type[AdminError], statuses: tuple[int, ...]
) -> None:
    client = admin(pulsar)
    for asked, status in enumerate(statuses, 1):
        pulsar.fail(is_put, answered(status, b'{"reason":"it is so\\nat java.lang"}'))
        said = f"answered {status} to the unload of {BUNDLE} .it is so."
        with pytest.raises(AdminError, match=said) as caught:
            client.unload(BUNDLE, None)
        assert isinstance(caught.value, kind)
        assert caught.value.retryable is (kind is BrokerUnavailable)
        assert len(pulsar.asked("PUT")) == asked, "an unload is never repeated by the client"


@pytest.mark.parametrize("token", ["wrong", "wrong.one"])
def test_a_wrong_token_is_one_clear_sentence(
    pulsar: FakePulsar, admin: Connect, token: str
) -> None:
    with pytest.raises(Unauthorized, match=r"answered 401 .*pulsar\.token_file.*superUserRoles"):
        admin(pulsar, token=token).brokers()


def test_a_new_token_counts_without_a_restart(
    pulsar: FakePulsar, admin: Connect, tmp_path: Path
) -> None:
    client = admin(pulsar)
    pulsar.cluster.token = "rotated"
    (tmp_path / "token").write_text("rotated", "utf-8")
    assert len(client.brokers()) == 3


def test_what_repeats_the_token_does_not_bring_it_into_a_message(
    pulsar: FakePulsar, admin: Connect
) -> None:
    pulsar.fail(is_put, answered(500, f"you sent Authorization: Bearer {TOKEN}".encode()))
    with pytest.raises(Refused) as caught:
        admin(pulsar).unload(BUNDLE, None)
    assert "Bearer (token)" in str(caught.value)
    assert TOKEN not in "".join(traceback.format_exception(caught.value))


def test_a_passing_fault_is_overcome_and_a_lasting_one_is_told(
    pulsar: FakePulsar, admin: Connect
) -> None:
    client, faults = admin(pulsar, attempts=3), iter([Fault(drop=True), answered(503)])
    pulsar.faults = lambda _: next(faults, None)
    assert len(client.brokers()) == 3
    pulsar.fail("", answered(503))
    pulsar.calls.clear()
    with pytest.raises(BrokerUnavailable, match="answered 503"):
        client.brokers()
    assert len(pulsar.calls) == 3


def test_an_unload_whose_answer_is_lost_is_not_repeated(pulsar: FakePulsar, admin: Connect) -> None:
    pulsar.fail(is_put, Fault(drop_after=True))
    with pytest.raises(BrokerUnavailable, match="closed the connection during"):
        admin(pulsar, admin_urls=f"http://{pulsar.cluster.brokers[1]}").unload(BUNDLE, None)
    assert len(pulsar.cluster.applied) == 1


@pytest.mark.parametrize("delay_s", [5.0, 600.0])
def test_a_silent_broker_is_given_up_at_the_deadline(
    pulsar: FakePulsar, admin: Connect, delay_s: float
) -> None:
    pulsar.fail("", Fault(delay_s=delay_s))
    with pytest.raises(BrokerUnavailable, match=r"did not answer the list of brokers within 2 s"):
        admin(pulsar, deadline_ms=2_000).brokers()


def test_a_wish_to_stop_ends_the_repetitions(pulsar: FakePulsar, admin: Connect) -> None:
    pulsar.fail("", answered(503))
    client = PulsarAdmin(
        PulsarSettings("c", pulsar.admin_urls, attempts=100, backoff_ms=1), wait=lambda _: True
    )
    with closing(client), pytest.raises(BrokerUnavailable):
        client.brokers()
    assert len(pulsar.calls) == 2, "each address once"


def test_of_a_stack_trace_the_line_that_says_something_is_told(admin: Connect) -> None:
    with running(Cluster(token=TOKEN, manager="extensible")) as pulsar:
        with pytest.raises(Refused, match=r"\(java\.lang\.IllegalArgument.* to same broker\.\)"):
            admin(pulsar).unload(BUNDLE, pulsar.cluster.brokers[1])
        with pytest.raises(Refused, match=r"\(java\.lang\.UnsupportedOperationException\)"):
            admin(pulsar).load_report(pulsar.cluster.brokers[0])


def test_something_else_than_a_broker(pulsar: FakePulsar, admin: Connect) -> None:
    pulsar.fail("", answered(200, b"<html>welcome</html>"))
    with pytest.raises(Refused, match="is not one of Pulsar's admin API"):
        admin(pulsar).brokers()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"cluster": ""}, "cluster: is empty"),
        ({"admin_urls": ""}, "admin_urls: is empty"),
        ({"admin_urls": " , "}, "admin_urls: is empty"),
        ({"admin_urls": "broker:8080"}, "admin_urls: broker:8080 is not the address"),
        ({"admin_urls": "http://a:8080/admin"}, "admin_urls: http://a:8080/admin is not the"),
        ({"admin_urls": "http://me:pass@a"}, "admin_urls: an address contains a user or password"),
        ({"admin_urls": "http://a:80800"}, "admin_urls: an entry is not the address"),
        ({"admin_urls": "http://::1:8080"}, "admin_urls: an entry is not the address of a web"),
        ({"admin_urls": "http://a,https://b"}, "admin_urls: mixes http and https"),
        ({"token_file": "/nowhere/token"}, "token_file: /nowhere/token cannot be read"),
        ({"tls_ca_file": "/nowhere/ca"}, "tls_ca_file: /nowhere/ca contains no certificates"),
        ({"tls_cert_file": "/nowhere/cert"}, "tls_cert_file: it and pulsar.tls_key_file are no"),
    ],
)
def test_settings_that_cannot_work_are_told_before_anybody_is_asked(
    given: dict[str, str], told: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        PulsarAdmin(PulsarSettings(**{"cluster": "c", "admin_urls": "http://a:8080", **given}))  # type: ignore[arg-type]
    (complaint,) = caught.value.complaints
    assert complaint.startswith(f"pulsar.{told}")
    assert "pass" not in complaint.replace("password", "")


def test_a_token_of_two_words_is_refused_without_being_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("token: abc", "utf-8")
    with pytest.raises(SettingsError, match="more than one word") as caught:
        PulsarAdmin(PulsarSettings("c", "http://a:8080", str(tmp_path / "token")))
    assert "abc" not in str(caught.value)


def test_brokers_can_see_in_their_logs_who_calls(pulsar: FakePulsar, admin: Connect) -> None:
    client = admin(pulsar)
    client.brokers()
    client.unload(BUNDLE, None)
    assert {request.headers["user-agent"] for request, _ in pulsar.calls} == {"pulsar-rebalancer"}


def test_an_ipv6_address_without_brackets_is_named_before_a_call(
    pulsar: FakePulsar, admin: Connect
) -> None:
    client = admin(pulsar)
    with pytest.raises(Refused, match=r"::1:8080 is an IPv6 address .* advertisedAddress=\[::1\]"):
        client.load_report("::1:8080")
