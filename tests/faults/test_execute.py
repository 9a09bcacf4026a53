"""`rebalancer execute` as a process: bad credentials, forged and stale commands, what it prints,
how it ends.
"""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinks.secret_file import Secret
from sinks.wire.record_encoding import encode_command
from sinks.wire.signing_keys import SigningKey
from strategies.cluster.model import Command
from tests.control_topic import command, now_ms
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tools.processes.real_executor import TOKEN, RealExecutor

pytestmark = [pytest.mark.servers, pytest.mark.faults]

ONE, TWO = "t/ns/0x00000000_0x80000000", "t/ns/0x80000000_0xffffffff"


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(token=TOKEN)) as running:
        running.cluster.owners |= dict.fromkeys((ONE, TWO), running.cluster.brokers[0])
        yield running


@pytest.fixture
def executor(pulsar: FakePulsar, tmp_path: Path) -> Iterator[RealExecutor]:
    with RealExecutor(tmp_path / "run", pulsar, executor__allow="t/*") as made:
        yield made


def send_one(pulsar: FakePulsar, executor: RealExecutor) -> Command:
    """A signed command that can be carried out."""
    one, two, _ = pulsar.cluster.brokers
    move = command(ONE, one, two)
    executor.control.send(move, key=executor.key)
    return move


def moves_one(pulsar: FakePulsar, executor: RealExecutor) -> None:
    """It is at work, and has carried out a command."""
    send_one(pulsar, executor)
    executor.start("--apply")
    executor.wait_until(lambda: len(executor.control.read("outcomes")) == 1)


def said(executor: RealExecutor) -> str:
    return executor.log.read_text("utf-8")


def test_what_must_not_be_carried_out_is_refused_with_an_outcome_and_no_secret_is_shown(
    pulsar: FakePulsar, executor: RealExecutor
) -> None:
    (one, two, _), control, key = pulsar.cluster.brokers, executor.control, executor.key
    done, newer = command(ONE, one, two, epoch=5), command(TWO, one, two, epoch=9)
    changed = key.sign(encode_command(command(TWO, one, two))).replace(two.encode(), one.encode())
    control.send(done, key=key)
    control.send(newer)
    control.send(newer, key=SigningKey(Secret(b"somebody else's key")))
    control.write("commands", [changed])
    control.send(
        done,
        command(TWO, one, two, epoch=5, expires_at_ms=now_ms() - 1),
        command(TWO, one, two, epoch=4),
        command("foreign/ns/0x00000000_0xffffffff", one, two, epoch=5),
        key=key,
    )

    assert executor.finish("--apply", "--json") == 0

    assert control.verdicts() == [
        ("applied", ""),
        ("refused", "unsigned"),
        ("refused", "wrong-signature"),
        ("refused", "wrong-signature"),
        ("already-done", "replayed"),
        ("expired", "expired"),
        ("refused", "older-epoch"),
        ("refused", "namespace-not-allowed"),
    ]
    assert executor.out.read_bytes().splitlines() == control.read("outcomes")
    assert len(pulsar.cluster.applied) == 1
    assert executor.leaks() == []


def test_without_apply_it_says_what_it_would_do(pulsar: FakePulsar, executor: RealExecutor) -> None:
    move = send_one(pulsar, executor)

    assert executor.finish() == 0

    would = f"would transfer {ONE} from {move.source} to {move.destination}"
    told = f"transfer {ONE}: {move.source} → {move.destination} [dry-run: {would}]"
    assert told in executor.out.read_text("utf-8")
    assert "dry run, nothing is changed (add --apply)" in said(executor)
    assert [one.command_id for one in executor.control.outcomes()] == [move.id]
    assert pulsar.asked("PUT") == []


@pytest.mark.parametrize(
    ("file", "content", "code", "told"),
    [
        ("token", "not-the-token-of-the-cluster", 1, "answered 401 to the configuration"),
        ("token", "", 2, "pulsar.token_file: "),
        ("key", "short", 2, "signing.key_file: "),
    ],
)
def test_bad_credentials_are_one_clear_error(
    pulsar: FakePulsar, executor: RealExecutor, *, file: str, content: str, code: int, told: str
) -> None:
    send_one(pulsar, executor)
    (executor.folder / file).write_text(content, "utf-8")

    assert executor.finish("--apply") == code

    (error,) = [line for line in said(executor).splitlines() if " error: " in line]
    assert told in error
    assert content == "" or content not in said(executor)
    assert executor.leaks() == []
    assert executor.control.outcomes() == []


def test_a_cluster_that_is_not_there(pulsar: FakePulsar, executor: RealExecutor) -> None:
    for broker in list(pulsar.cluster.brokers):
        pulsar.kill(broker)

    assert executor.finish("--apply") == 1
    assert re.search("error: 127.0.0.1:.* does not accept connections", said(executor))
    assert executor.leaks() == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_cleanly(
    pulsar: FakePulsar, executor: RealExecutor, number: signal.Signals, code: int
) -> None:
    moves_one(pulsar, executor)

    assert executor.stop(number) == code
    assert f"stopped ({number.name}) after 1 applied" in said(executor)
