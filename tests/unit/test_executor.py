"""The executor on a fake cluster: what it calls, what it leaves alone, and the one outcome it gives each command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sinks.executor import Duty, Stopped
from sinks.secret_file import Secret
from sinks.signing import SigningKey
from sinks.wire import decode, decode_rejected, encode_command
from strategies.admission import AdmissionRules
from strategies.errors import Unauthorized
from strategies.model import OutcomeReport
from tests.control_topic import Control, command, now_ms
from tests.pulsar_fake.model import Answer, Applied, Cluster, Request
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.unit.executor_lives import APPLY, Death, Life, run

BUNDLES = ("t/ns/0x00000000_0x40000000", "t/ns/0x40000000_0x80000000", "t/ns/0x80000000_0xc0000000", "t/ns/0xc0000000_0xffffffff")
ONE, TWO, THREE, FOUR = BUNDLES
KEY = SigningKey(Secret(b"k" * 32))


@pytest.fixture(params=["modular", "extensible"])
def pulsar(request: pytest.FixtureRequest) -> Iterator[FakePulsar]:
    """Three brokers; the first owns every bundle."""
    with FakePulsar(Cluster(manager=request.param)) as running:
        running.cluster.owners.update(dict.fromkeys(BUNDLES, running.cluster.brokers[0]))
        yield running


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control(tmp_path)


def test_a_transfer_is_carried_out_and_told(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(move := command(ONE, one, two))

    assert run(pulsar, control) == [("applied", "")]

    (outcome,) = control.outcomes()
    assert (outcome.command_id, outcome.bundle, outcome.owner_before, outcome.owner_after) == (move.id, ONE, one, two)
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


def test_a_split_is_carried_out_where_the_command_says(pulsar: FakePulsar, control: Control) -> None:
    one, _, _ = pulsar.cluster.brokers
    record = encode_command(command(ONE, one, action="split"))
    control.write("commands", [record[:-1] + b',"boundaries":[268435456],"algorithm":"specified_positions_divide"}'])

    assert run(pulsar, control) == [("applied", "")]
    assert sorted(pulsar.cluster.owners)[:2] == ["t/ns/0x00000000_0x10000000", "t/ns/0x10000000_0x40000000"]


def test_without_apply_nothing_is_called_and_the_intention_is_told(pulsar: FakePulsar, control: Control) -> None:
    one, two, three = pulsar.cluster.brokers
    control.send(command(ONE, one, two), command(TWO, two, three))

    assert run(pulsar, control, Duty("c")) == [("dry-run", "dry-run"), ("refused", "moved-on")]
    assert control.outcomes()[0].reason == f"dry-run: would transfer {ONE} from {one} to {two}"
    assert pulsar.asked("PUT") == []


def test_a_command_that_was_only_rehearsed_may_come_again_for_real(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    move = command(ONE, one, two)
    control.send(move)
    run(pulsar, control, Duty("c"))
    control.send(move)

    assert run(pulsar, control) == [("dry-run", "dry-run"), ("applied", "")]


def test_a_bundle_that_is_at_its_destination_is_left_alone(pulsar: FakePulsar, control: Control) -> None:
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


def test_several_commands_have_their_outcomes_in_their_order(pulsar: FakePulsar, control: Control) -> None:
    one, two, three = pulsar.cluster.brokers
    moves = [command(ONE, one, two), command(TWO, one, three), command(ONE, two, three), command(THREE, three, two), command(FOUR, one)]
    control.send(*moves)

    assert run(pulsar, control) == [("applied", ""), ("applied", ""), ("applied", ""), ("refused", "moved-on"), ("applied", "")]
    assert [outcome.command_id for outcome in control.outcomes()] == [move.id for move in moves]
    assert pulsar.cluster.owners[ONE] == three


def test_what_is_refused_is_explained_and_never_called(pulsar: FakePulsar, control: Control) -> None:
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


def test_a_destination_that_isolation_forbids_is_refused(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    pulsar.cluster.policies["mine"] = {
        "namespaces": ["other/.*"],
        "primary": [r"127\.0\.0\.1"],
        "secondary": [],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "80"}},
    }
    control.send(command(ONE, one, two))

    assert run(pulsar, control) == [("refused", "isolation-reserved")]
    assert pulsar.asked("PUT") == []


def test_only_commands_with_our_signature_are_believed(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    forged, true = command(ONE, one, two, epoch=99), command(TWO, one, two)
    control.send(forged)
    control.send(forged, key=SigningKey(Secret(b"x" * 32)))
    control.send(true, key=KEY)

    assert run(pulsar, control, replace(APPLY, key=KEY)) == [("refused", "unsigned"), ("refused", "wrong-signature"), ("applied", "")], (
        "what nobody believes does not raise the epoch either"
    )


def test_a_newer_epoch_is_known_from_rounds_and_across_restarts(pulsar: FakePulsar, control: Control) -> None:
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


def test_commands_of_other_clusters_are_left_to_others(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(command(ONE, one, two, cluster="other"), command(ONE, one, two))

    assert run(pulsar, control) == [("applied", "")]


def test_what_is_no_command_becomes_a_rejected_record(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.write("commands", [b"{", encode_command(command("t/ns/0x0_0x1", one, two)), encode_command(command(ONE, one, "b c:1"))])
    control.send(command(ONE, one, two))

    assert run(pulsar, control) == [("applied", "")]
    assert [decode_rejected(value).code for value in control.read("rejected")] == ["not-json", "bundle-name", "broker-id"]


def test_the_pause_file_is_honoured_at_once(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    brake = control.folder / "pause"
    duty = replace(APPLY, pause_file=brake, at_once=1)
    control.send(command(ONE, one, two), command(TWO, one, two), command(THREE, one, two))

    def pause(request: Request) -> Fault | None:
        """Somebody pauses while the first command is being carried out; the second has not begun."""
        if request.method == "PUT":
            brake.touch()
        return None

    pulsar.faults = pause
    assert run(pulsar, control, duty) == [("applied", ""), ("refused", "paused"), ("refused", "paused")]

    brake.unlink()
    control.send(command(TWO, one, two))
    assert run(pulsar, control, duty)[3:] == [("applied", "")]


def test_a_pause_is_seen_even_after_the_cluster_was_looked_at(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    brake = control.folder / "pause"
    control.send(command(ONE, one, two))

    def pause(_: Request) -> None:
        brake.touch()

    pulsar.faults = pause
    assert run(pulsar, control, replace(APPLY, pause_file=brake)) == [("refused", "paused")]
    assert pulsar.asked("PUT") == []


def test_an_executor_that_stops_while_it_waits_for_its_turn_leaves_the_command_to_the_next(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(command(ONE, one, two), command(TWO, one, two))
    with pytest.raises(Stopped):
        run(pulsar, control, replace(APPLY, at_once=1), Life(per_minute=1))
    assert control.verdicts() == [("applied", "")]

    assert run(pulsar, control) == [("applied", ""), ("applied", "")]
    assert len(pulsar.cluster.applied) == 2


class TestWhenCallsFail:
    """Retried only where that is safe, and verified against the owner before anything is said."""

    def test_a_busy_broker_is_asked_again(self, pulsar: FakePulsar, control: Control) -> None:
        one, two, _ = pulsar.cluster.brokers
        busy = iter([Fault(instead=Answer(503)), Fault(instead=Answer(429))])
        pulsar.faults = lambda request: next(busy, None) if request.method == "PUT" else None
        control.send(command(ONE, one, two))

        assert run(pulsar, control) == [("applied", "")]
        assert len(pulsar.cluster.applied) == 1

    def test_a_busy_broker_is_not_asked_for_ever(self, pulsar: FakePulsar, control: Control) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.faults = lambda request: Fault(instead=Answer(503)) if request.method == "PUT" else None
        control.send(command(ONE, one, two))

        assert run(pulsar, control) == [("failed", "broker-unavailable")]
        assert len(pulsar.asked("PUT")) == 3

    @pytest.mark.parametrize(
        ("status", "code"), [(409, "refused-by-broker"), (412, "not-found"), (404, "not-found"), (500, "refused-by-broker")]
    )
    def test_a_refusal_is_final(self, pulsar: FakePulsar, control: Control, status: int, code: str) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.faults = lambda request: Fault(instead=Answer(status)) if request.method == "PUT" else None
        control.send(command(ONE, one, two))

        assert run(pulsar, control) == [("failed", code)]
        assert len(pulsar.asked("PUT")) == 1

    @pytest.mark.parametrize("plain", [True, False])
    def test_a_lost_answer_is_looked_after_and_not_repeated(self, pulsar: FakePulsar, control: Control, plain: bool) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.faults = lambda request: (
            Fault(drop_after=True) if request.method == "PUT" and request.broker == one and "authoritative" in request.target else None
        )
        control.send(command(ONE, one, None if plain else two))
        if plain:
            pulsar.faults = lambda request: Fault(drop_after=True) if request.method == "PUT" else None

        assert run(pulsar, control)[0][0] == "applied"
        assert len(pulsar.cluster.applied) == 1

    def test_an_unload_without_destination_is_never_repeated_on_a_guess(self, pulsar: FakePulsar, control: Control) -> None:
        one, _, _ = pulsar.cluster.brokers
        pulsar.faults = lambda request: Fault(drop=True) if request.method == "PUT" else None
        control.send(command(ONE, one))

        assert run(pulsar, control) == [("failed", "unanswered")]
        assert len(pulsar.asked("PUT")) == 1

    def test_a_destination_that_dies_in_the_middle(self, pulsar: FakePulsar, control: Control) -> None:
        one, two, three = pulsar.cluster.brokers
        control.send(command(ONE, one, three))

        def die(request: Request) -> None:
            if request.method == "PUT" and three in pulsar.cluster.brokers:
                pulsar.cluster.brokers.remove(three)

        pulsar.faults = die
        told = run(pulsar, control)

        assert told == [("failed", "refused-by-broker")], "Pulsar answers 409 for a destination that has left"
        assert pulsar.cluster.owners[ONE] == one != two

    def test_without_clients_nobody_looks_the_bundle_up(self, pulsar: FakePulsar, control: Control) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.cluster.lookups = False
        control.send(command(ONE, one, two))

        modular = pulsar.cluster.manager == "modular"
        assert run(pulsar, control) == [("applied", "not-looked-up" if modular else "")]

    def test_a_wrong_token_ends_the_program_and_the_command_comes_again(self, pulsar: FakePulsar, control: Control) -> None:
        one, two, _ = pulsar.cluster.brokers
        control.send(command(ONE, one, two))
        pulsar.cluster.token = "changed"
        with pytest.raises(Unauthorized):
            run(pulsar, control)
        assert control.outcomes() == []

        pulsar.cluster.token = None
        assert run(pulsar, control) == [("applied", "")]


class TestAfterADeath:
    """The process died at some point between reading a command and committing it; the next one makes the best of it."""

    @pytest.mark.parametrize("moment", ["before the call", "after the call", "before publishing", "before committing"])
    def test_a_transfer_is_applied_once_and_told_once(self, pulsar: FakePulsar, control: Control, moment: Any) -> None:
        one, two, three = pulsar.cluster.brokers
        control.send(move := command(ONE, one, two), command(TWO, two, three))
        with pytest.raises(Death):
            run(pulsar, control, replace(APPLY, at_once=1), Life(moment))

        assert run(pulsar, control) == [("applied", ""), ("refused", "moved-on")]
        assert pulsar.cluster.applied == [Applied("unload", ONE, one, two)]
        assert (control.outcomes()[0].command_id, control.outcomes()[0].owner_before) == (move.id, one)

    @pytest.mark.parametrize("moment", ["before the call", "after the call", "before publishing", "before committing"])
    def test_a_split_is_applied_once(self, pulsar: FakePulsar, control: Control, moment: Any) -> None:
        one, _, _ = pulsar.cluster.brokers
        control.send(command(ONE, one, action="split"))
        with pytest.raises(Death):
            run(pulsar, control, life=Life(moment))

        assert run(pulsar, control) == [("applied", "")]
        assert [done.action for done in pulsar.cluster.applied] == ["split"]

    def test_a_release_that_nobody_can_be_sure_of_is_not_repeated(self, pulsar: FakePulsar, control: Control) -> None:
        one, _, _ = pulsar.cluster.brokers
        control.send(command(ONE, one))
        with pytest.raises(Death):
            run(pulsar, control, life=Life("before the call"))

        assert run(pulsar, control) == [("failed", "interrupted")]
        assert pulsar.cluster.applied == []

    def test_an_interrupted_command_that_has_expired_meanwhile(self, pulsar: FakePulsar, control: Control) -> None:
        one, two, _ = pulsar.cluster.brokers
        control.send(command(ONE, one, two))
        with pytest.raises(Death):
            run(pulsar, control, life=Life("before the call"))

        assert run(pulsar, control, life=Life(later_ms=400_000)) == [("expired", "expired")]
        assert pulsar.cluster.applied == []

    def test_a_dry_run_after_a_death_calls_nothing(self, pulsar: FakePulsar, control: Control) -> None:
        one, two, _ = pulsar.cluster.brokers
        control.send(command(ONE, one, two))
        with pytest.raises(Death):
            run(pulsar, control, life=Life("before the call"))

        assert run(pulsar, control, Duty("c")) == [("dry-run", "dry-run")]
        assert pulsar.asked("PUT") == []
