"""The executor on a fake cluster: what it calls, what it leaves alone, and the one outcome it gives
each command.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

import pytest

from sinks.executor.executor import Stopped
from sinks.executor.guard import RateLimiter
from sinks.executor.journal import Journal, Received
from sinks.executor.settings import ExecutorConfig
from sinks.secret_file import Secret
from sinks.wire.codec import decode, decode_rejected, encode_command
from sinks.wire.origin import Position
from sinks.wire.signing import SigningKey
from strategies.cluster.model import Command, OutcomeReport
from strategies.executor.admission import AdmissionRules
from strategies.java.pulsar_releases import PulsarRelease
from tests.control_topic import Control, command, now_ms
from tests.pulsar_fake.model import Applied, Request
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.unit.executor_lives import APPLY, FOUR, ONE, THREE, TWO, Life, run
from tools.waiting import eventually

KEY = SigningKey(Secret(b"k" * 32))


def test_a_transfer_is_carried_out_and_told(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(move := command(ONE, one, two))

    assert run(pulsar, control) == [("applied", "")]

    (outcome,) = control.outcomes()
    assert (outcome.command_id, outcome.bundle, outcome.owner_before, outcome.owner_after) == (
        move.id,
        ONE,
        one,
        two,
    )
    assert pulsar.cluster.owners[ONE] == two
    assert pulsar.cluster.applied == [Applied("unload", ONE, one, two)]


def test_the_outcome_comes_back_into_the_telemetry(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(command(ONE, one, two))
    run(pulsar, control)

    (fed_back,) = [decode(value, b"") for value in control.read("telemetry")]
    assert isinstance(fed_back, OutcomeReport)
    assert [fed_back.outcome] == control.outcomes()


def test_an_unload_goes_where_pulsar_places_it(pulsar: FakePulsar, control: Control) -> None:
    one, _, _ = pulsar.cluster.brokers
    control.send(command(ONE, one))

    assert run(pulsar, control) == [("applied", "")]
    assert control.outcomes()[0].owner_after == pulsar.cluster.owners[ONE] != one


def test_a_split_is_carried_out_where_the_command_says(
    pulsar: FakePulsar, control: Control
) -> None:
    one, _, _ = pulsar.cluster.brokers
    record = encode_command(command(ONE, one, action="split"))
    control.write(
        "commands",
        [record[:-1] + b',"boundaries":[268435456],"algorithm":"specified_positions_divide"}'],
    )

    assert run(pulsar, control) == [("applied", "")]
    assert sorted(pulsar.cluster.owners)[:2] == [
        "t/ns/0x00000000_0x10000000",
        "t/ns/0x10000000_0x40000000",
    ]


def test_without_apply_nothing_is_called_and_the_intention_is_told(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, three = pulsar.cluster.brokers
    control.send(command(ONE, one, two), command(TWO, two, three))

    assert run(pulsar, control, ExecutorConfig("c")) == [
        ("dry-run", "dry-run"),
        ("refused", "moved-on"),
    ]
    assert control.outcomes()[0].reason == f"dry-run: would transfer {ONE} from {one} to {two}"
    assert pulsar.asked("PUT") == []


def test_a_command_that_was_only_rehearsed_may_come_again_for_real(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    move = command(ONE, one, two)
    control.send(move)
    run(pulsar, control, ExecutorConfig("c"))
    control.send(move)

    assert run(pulsar, control) == [("dry-run", "dry-run"), ("applied", "")]


def test_a_bundle_that_is_at_its_destination_is_left_alone(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    pulsar.cluster.owners[ONE] = two
    control.send(command(ONE, one, two))

    assert run(pulsar, control) == [("already-done", "at-destination")]
    assert pulsar.asked("PUT") == [], "the modular broker would close the bundle for nothing"


def test_the_same_command_twice_is_applied_once(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    move = command(ONE, one, two)
    control.send(move, move)
    assert run(pulsar, control) == [("applied", ""), ("already-done", "replayed")]

    pulsar.cluster.owners[ONE] = one
    control.send(move)

    assert run(pulsar, control)[2:] == [("already-done", "replayed")]
    assert len(pulsar.cluster.applied) == 1


def test_several_commands_have_their_outcomes_in_their_order(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, three = pulsar.cluster.brokers
    moves = [
        command(ONE, one, two),
        command(TWO, one, three),
        command(ONE, two, three),
        command(THREE, three, two),
        command(FOUR, one),
    ]
    control.send(*moves)

    assert run(pulsar, control) == [
        ("applied", ""),
        ("applied", ""),
        ("applied", ""),
        ("refused", "moved-on"),
        ("applied", ""),
    ]
    assert [outcome.command_id for outcome in control.outcomes()] == [move.id for move in moves]
    assert pulsar.cluster.owners[ONE] == three


def test_what_is_refused_is_explained_and_never_called(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    move = command(ONE, one, two, epoch=2)
    control.send(
        move,
        command(TWO, one, two, epoch=1),
        command(TWO, one, two, epoch=2, expires_at_ms=now_ms() - 1),
        command(TWO, one, "127.0.0.1:1", epoch=2),
        command("t/none/0x00000000_0xffffffff", one, two, epoch=2),
        command("t/ns/0x00000000_0x80000000", one, two, epoch=2),
        command(f"pulsar/{one}/0x00000000_0xffffffff", one, two, epoch=2),
        command("u/ns/0x00000000_0xffffffff", one, two, epoch=2),
        command(TWO, one, two, epoch=2, action="throttle"),
    )

    told = run(pulsar, control, replace(APPLY, rules=AdmissionRules(allow=("t/*",))))

    assert told == [
        ("applied", ""),
        ("refused", "older-epoch"),
        ("expired", "expired"),
        ("refused", "destination-gone"),
        ("refused", "no-such-bundle"),
        ("refused", "no-such-bundle"),
        ("refused", "system-bundle"),
        ("refused", "namespace-not-allowed"),
        ("refused", "advice"),
    ]
    assert len(pulsar.cluster.applied) == 1


def test_a_destination_that_isolation_forbids_is_refused(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    pulsar.cluster.policies["mine"] = {
        "namespaces": ["other/.*"],
        "primary": [r"127\.0\.0\.1"],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }
    control.send(command(ONE, one, two))

    assert run(pulsar, control) == [("refused", "isolation-reserved")]
    assert pulsar.asked("PUT") == []


@pytest.mark.parametrize(
    ("release", "runs", "told"),
    [
        (None, "4.2.4", ("applied", "")),
        (None, "5.0.1", ("refused", "isolation-reserved")),
        ("4.2", "5.0.1", ("applied", "")),
        ("5.0", "4.2.4", ("refused", "isolation-reserved")),
    ],
)
def test_a_policy_that_names_a_broker_by_id_holds_from_50_on(
    pulsar: FakePulsar,
    control: Control,
    release: PulsarRelease | None,
    runs: str,
    told: tuple[str, str],
) -> None:
    one, two, _ = pulsar.cluster.brokers
    pulsar.cluster.version = runs
    pulsar.cluster.policies["mine"] = {
        "namespaces": ["other/.*"],
        "primary": [re.escape(two)],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }
    control.send(command(ONE, one, two))

    assert run(pulsar, control, replace(APPLY, release=release)) == [told]


def test_only_commands_with_our_signature_are_believed(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    forged, true = command(ONE, one, two, epoch=99), command(TWO, one, two)
    control.send(forged)
    control.send(forged, key=SigningKey(Secret(b"x" * 32)))
    control.send(true, key=KEY)

    assert run(pulsar, control, replace(APPLY, key=KEY)) == [
        ("refused", "unsigned"),
        ("refused", "wrong-signature"),
        ("applied", ""),
    ], "what nobody believes does not raise the epoch either"


def test_a_newer_epoch_is_known_from_rounds_and_across_restarts(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.write(
        "rounds",
        [
            b'{"v":1,"cluster":"c","epoch":7}',
            b"torn",
            b'{"v":1,"cluster":"other","epoch":9}',
            b'{"v":1,"cluster":"c","epoch":9223372036854775808}',
        ],
    )
    run(pulsar, control)
    control.send(command(ONE, one, two, epoch=6), command(ONE, one, two, epoch=7))

    assert run(pulsar, control) == [("refused", "older-epoch"), ("applied", "")]


def test_commands_of_other_clusters_are_left_to_others(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(command(ONE, one, two, cluster="other"), command(ONE, one, two))

    assert run(pulsar, control) == [("applied", "")]


def test_what_is_no_command_becomes_a_rejected_record(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.write(
        "commands",
        [
            b"{",
            encode_command(command("t/ns/0x0_0x1", one, two)),
            encode_command(command(ONE, one, "b c:1")),
        ],
    )
    control.send(command(ONE, one, two))

    assert run(pulsar, control) == [("applied", "")]
    assert [decode_rejected(value).code for value in control.read("rejected")] == [
        "not-json",
        "bundle-name",
        "broker-id",
    ]


def test_the_pause_file_is_honoured_at_once(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    brake = control.folder / "pause"
    config = replace(APPLY, pause_file=brake, at_once=1)
    control.send(command(ONE, one, two), command(TWO, one, two), command(THREE, one, two))

    def pause(request: Request) -> Fault | None:
        """Somebody pauses while the first command is being carried out; the second has not
        begun.
        """
        if request.method == "PUT":
            brake.touch()
        return None

    pulsar.faults = pause
    assert run(pulsar, control, config) == [
        ("applied", ""),
        ("refused", "paused"),
        ("refused", "paused"),
    ]

    brake.unlink()
    control.send(command(TWO, one, two))
    assert run(pulsar, control, config)[3:] == [("applied", "")]


def test_a_pause_is_seen_even_after_the_cluster_was_looked_at(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    brake = control.folder / "pause"
    control.send(command(ONE, one, two))

    def pause(_: Request) -> None:
        brake.touch()

    pulsar.faults = pause
    assert run(pulsar, control, replace(APPLY, pause_file=brake)) == [("refused", "paused")]
    assert pulsar.asked("PUT") == []


def test_an_executor_that_stops_while_it_waits_for_its_turn_leaves_the_command_to_the_next(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(command(ONE, one, two), command(TWO, one, two))
    with pytest.raises(Stopped):
        run(pulsar, control, replace(APPLY, at_once=1), Life(per_minute=1))
    assert control.verdicts() == [("applied", "")]

    assert run(pulsar, control) == [("applied", ""), ("applied", "")]
    assert len(pulsar.cluster.applied) == 2


@pytest.mark.heavy
def test_a_command_that_waited_for_its_turn_is_judged_by_the_newest_epoch(
    pulsar: FakePulsar, control: Control
) -> None:
    """The first round of a newer job comes while the second command waits."""
    one, two, _ = pulsar.cluster.brokers
    control.send(command(ONE, one, two), command(TWO, one, two))
    now = [0.0]

    def rounds_are_read() -> bool:
        told = [
            json.loads(file.read_text("utf-8"))
            for file in (control.folder / "state").glob("executor-*.json")
        ]
        return any(position["topic"] == control.uri("rounds") for position in told)

    def wait(seconds: float) -> bool:
        control.write("rounds", [b'{"v":1,"cluster":"c","epoch":7}'])
        eventually(rounds_are_read, 60, "nobody reads the rounds while a command waits")
        now[0] += seconds
        return False

    life = Life(limiter=RateLimiter(1, wait, lambda: now[0]))
    assert run(pulsar, control, replace(APPLY, at_once=1), life) == [
        ("applied", ""),
        ("refused", "older-epoch"),
    ]


def test_with_a_key_only_signed_rounds_raise_the_epoch(
    pulsar: FakePulsar, control: Control
) -> None:
    """Whoever may write to the rounds topic cannot stop an executor; a newer job can."""
    one, two, _ = pulsar.cluster.brokers
    control.write(
        "rounds",
        [
            b'{"v":1,"cluster":"c","epoch":99}',
            SigningKey(Secret(b"x" * 32)).sign(b'{"v":1,"cluster":"c","epoch":98}'),
        ],
    )
    control.send(command(ONE, one, two, epoch=6), key=KEY)
    assert run(pulsar, control, replace(APPLY, key=KEY)) == [("applied", "")]

    control.write("rounds", [KEY.sign(b'{"v":1,"cluster":"c","epoch":7}')])
    control.send(command(TWO, one, two, epoch=6), key=KEY)
    assert run(pulsar, control, replace(APPLY, key=KEY))[1:] == [("refused", "older-epoch")]


def remembered(control: Control, commands: Sequence[Command]) -> int:
    """Number of these commands that the journal has a verdict on."""
    with closing(Journal(control.folder / "state")) as journal:
        return sum(
            journal.earlier(Received(one.id, Position("", 0, 0), b""))[1] is not None
            for one in commands
        )


def test_a_start_forgets_what_expired_more_than_a_week_ago(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    days = 24 * 3_600_000
    old, older = (
        command(
            bundle, one, two, issued_at_ms=now_ms() - age, expires_at_ms=now_ms() - age + 60_000
        )
        for bundle, age in ((ONE, 6 * days), (TWO, 8 * days))
    )
    for sent, age in ((old, 6 * days), (older, 8 * days)):
        control.send(sent)
        run(pulsar, control, life=Life(later_ms=-age))
    run(pulsar, control)
    assert [remembered(control, [one]) for one in (old, older)] == [1, 0]


@pytest.mark.heavy
def test_an_executor_forgets_as_it_goes_and_applies_nothing_twice(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    hours = 3_600_000
    long_ago = [
        command(
            ONE, one, two, issued_at_ms=now_ms() - 3 * hours, expires_at_ms=now_ms() - 2 * hours
        )
        for _ in range(30)
    ]
    control.send(*long_ago)
    run(pulsar, control, life=Life(later_ms=-3 * hours + 60_000))
    control.send(command(TWO, one, two))
    run(pulsar, control)
    assert remembered(control, long_ago) == 0
    control.send(long_ago[0])
    assert run(pulsar, control)[-1] == ("expired", "expired")
    assert len(pulsar.cluster.applied) == 2
