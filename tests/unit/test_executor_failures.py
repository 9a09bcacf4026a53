"""The executor when calls fail and when it dies: retried only where that is safe, applied once,
told once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from sinks.executor.settings import ExecutorConfig, GuardRules
from strategies.cluster.model import Command
from strategies.errors import Unauthorized
from tests.control_topic import Control, command
from tests.pulsar_fake.model import Answer, Applied, Request
from tests.pulsar_fake.server import FakePulsar, Fault, Faults
from tests.unit.executor_lives import APPLY, ONE, TWO, Death, Life, executor, run


def scene_of_another_unload(pulsar: FakePulsar, bundle: str, *, looks: int, then: str) -> Faults:
    """Another unload begins just before the first of ours, ends after `looks` looks at the owner,
    and leaves the bundle to `then`.
    """
    seen = count()

    def under_way(request: Request) -> None:
        if request.method == "PUT" and not next(seen):
            pulsar.cluster.being_unloaded.add(bundle)
        elif (
            bundle in pulsar.cluster.being_unloaded
            and "/non-persistent/" in request.target
            and next(seen) > looks
        ):
            pulsar.cluster.being_unloaded.clear()
            pulsar.cluster.owners[bundle] = then

    return under_way


class TestWhenCallsFail:
    """Retried only where that is safe, and verified against the owner before anything is said."""

    def test_a_busy_broker_is_asked_again(self, pulsar: FakePulsar, control: Control) -> None:
        one, two, _ = pulsar.cluster.brokers
        busy = iter([Fault(instead=Answer(503)), Fault(instead=Answer(429))])
        pulsar.faults = lambda request: next(busy, None) if request.method == "PUT" else None
        control.send(command(ONE, one, two))

        assert run(pulsar, control) == [("applied", "")]
        assert len(pulsar.cluster.applied) == 1

    def test_a_busy_broker_is_not_asked_for_ever(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.faults = lambda request: (
            Fault(instead=Answer(503)) if request.method == "PUT" else None
        )
        control.send(command(ONE, one, two))

        assert run(pulsar, control) == [("failed", "broker-unavailable")]
        assert len(pulsar.asked("PUT")) == 3

    @pytest.mark.parametrize(
        ("status", "code"),
        [
            (409, "declined"),
            (412, "not-found"),
            (404, "not-found"),
            (500, "refused-by-broker"),
        ],
    )
    def test_a_refusal_is_final(
        self, pulsar: FakePulsar, control: Control, status: int, code: str
    ) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.faults = lambda request: (
            Fault(instead=Answer(status, b'{"reason":"so"}')) if request.method == "PUT" else None
        )
        control.send(command(ONE, one, two))

        assert run(pulsar, control) == [("failed", code)]
        assert len(pulsar.asked("PUT")) == 1

    @pytest.mark.parametrize("plain", [True, False])
    def test_a_lost_answer_is_looked_after_and_not_repeated(
        self, pulsar: FakePulsar, control: Control, plain: bool
    ) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.faults = lambda request: (
            Fault(drop_after=True)
            if request.method == "PUT"
            and request.broker == one
            and "authoritative" in request.target
            else None
        )
        control.send(command(ONE, one, None if plain else two))
        if plain:
            pulsar.faults = lambda request: (
                Fault(drop_after=True) if request.method == "PUT" else None
            )

        assert run(pulsar, control)[0][0] == "applied"
        assert len(pulsar.cluster.applied) == 1

    def test_an_unload_without_destination_is_never_repeated_on_a_guess(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, _, _ = pulsar.cluster.brokers
        pulsar.faults = lambda request: Fault(drop=True) if request.method == "PUT" else None
        control.send(command(ONE, one))

        assert run(pulsar, control) == [("failed", "unanswered")]
        assert len(pulsar.asked("PUT")) == 1

    def test_a_destination_that_dies_in_the_middle(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, three = pulsar.cluster.brokers
        control.send(command(ONE, one, three))

        def die(request: Request) -> None:
            if request.method == "PUT" and three in pulsar.cluster.brokers:
                pulsar.cluster.brokers.remove(three)

        pulsar.faults = die
        told = run(pulsar, control)

        assert told == [("failed", "declined")], (
            "Pulsar answers 409 for a destination that has left"
        )
        assert pulsar.cluster.owners[ONE] == one != two

    @pytest.mark.parametrize(
        ("back", "told"), [(False, ("applied", "elsewhere")), (True, ("failed", "came-back"))]
    )
    def test_a_destination_that_pulsar_loses_is_told_and_not_tried_again(
        self, pulsar: FakePulsar, control: Control, back: bool, told: tuple[str, str]
    ) -> None:
        one, two, three = pulsar.cluster.brokers
        pulsar.cluster.manager = "modular"
        control.send(command(ONE, one, two))

        def another_look_up_is_first(_: Request) -> None:
            if pulsar.cluster.owners[ONE] is None:
                pulsar.cluster.owners[ONE] = one if back else three

        pulsar.faults = another_look_up_is_first

        assert run(pulsar, control) == [told]
        assert len(pulsar.cluster.applied) == 1

    @pytest.mark.parametrize("back", [False, True])
    def test_a_transfer_during_another_unload_waits_for_its_end(
        self, pulsar: FakePulsar, control: Control, back: bool
    ) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.faults = scene_of_another_unload(pulsar, ONE, looks=5, then=one if back else two)
        control.send(command(ONE, one, two))

        assert run(pulsar, control) == [("applied", "")]
        assert pulsar.cluster.applied == ([Applied("unload", ONE, one, two)] if back else [])

    def test_a_transfer_that_brokers_pass_to_and_fro_is_tried_again(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, three = pulsar.cluster.brokers
        passed_on = count()

        def to_and_fro(request: Request) -> Fault | None:
            if request.method != "PUT" or next(passed_on) > 8:
                return None
            other = three if request.broker == one else one
            return Fault(instead=Answer(307, location=f"http://{other}{request.target}"))

        pulsar.faults = to_and_fro
        control.send(command(ONE, one, two))

        assert run(pulsar, control) == [("applied", "")]
        assert pulsar.cluster.applied == [Applied("unload", ONE, one, two)]

    def test_a_release_during_another_unload_is_not_repeated(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, _, _ = pulsar.cluster.brokers
        pulsar.faults = scene_of_another_unload(pulsar, ONE, looks=5, then=one)
        control.send(command(ONE, one))

        assert run(pulsar, control) == [("failed", "not-owned")]
        assert pulsar.cluster.applied == []

    def test_an_unload_that_does_not_end_is_not_waited_for_without_end(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.faults = scene_of_another_unload(pulsar, ONE, looks=10**6, then=two)
        control.send(command(ONE, one, two))

        assert run(pulsar, control) == [("failed", "not-owned")]

    def test_without_clients_the_executor_itself_brings_the_bundle_to_its_destination(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.cluster.lookups = False
        control.send(command(ONE, one, two))

        assert run(pulsar, control) == [("applied", "")]
        assert pulsar.cluster.owners[ONE] == two

    def test_a_bundle_that_neither_clients_nor_the_executor_can_look_up_has_no_owner(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.cluster.lookups = False
        pulsar.faults = lambda request: (
            Fault(instead=Answer(503)) if request.target.startswith("/lookup/") else None
        )
        control.send(command(ONE, one, two))

        modular = pulsar.cluster.manager == "modular"
        assert run(pulsar, control) == [("applied", "not-looked-up" if modular else "")]

    def test_a_wrong_token_ends_the_program_and_the_command_comes_again(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, _ = pulsar.cluster.brokers
        control.send(command(ONE, one, two))
        pulsar.cluster.token = "changed"
        with pytest.raises(Unauthorized):
            run(pulsar, control)
        assert control.outcomes() == []

        pulsar.cluster.token = None
        assert run(pulsar, control) == [("applied", "")]


def dies(
    pulsar: FakePulsar,
    control: Control,
    *commands: Command,
    at: Any,
    config: ExecutorConfig = APPLY,
) -> None:
    """A life of the executor over these commands, which ends at this moment of the first."""
    control.send(*commands)
    with pytest.raises(Death):
        run(pulsar, control, config, Life(at))


class TestAfterADeath:
    """The process died at some point between reading a command and committing it; the next one
    makes the best of it.
    """

    @pytest.mark.parametrize(
        "moment", ["before the call", "after the call", "before publishing", "before committing"]
    )
    def test_a_transfer_is_applied_once_and_told_once(
        self, pulsar: FakePulsar, control: Control, moment: Any
    ) -> None:
        one, two, three = pulsar.cluster.brokers
        move, other = command(ONE, one, two), command(TWO, two, three)
        dies(pulsar, control, move, other, at=moment, config=replace(APPLY, at_once=1))

        assert run(pulsar, control) == [("applied", ""), ("refused", "moved-on")]
        assert pulsar.cluster.applied == [Applied("unload", ONE, one, two)]
        assert (control.outcomes()[0].command_id, control.outcomes()[0].owner_before) == (
            move.id,
            one,
        )

    @pytest.mark.parametrize(
        "moment", ["before the call", "after the call", "before publishing", "before committing"]
    )
    def test_a_split_is_applied_once(
        self, pulsar: FakePulsar, control: Control, moment: Any
    ) -> None:
        one, _, _ = pulsar.cluster.brokers
        dies(pulsar, control, command(ONE, one, action="split"), at=moment)

        assert run(pulsar, control) == [("applied", "")]
        assert [done.action for done in pulsar.cluster.applied] == ["split"]

    def test_a_release_that_nobody_can_be_sure_of_is_not_repeated(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, _, _ = pulsar.cluster.brokers
        dies(pulsar, control, command(ONE, one), at="before the call")

        assert run(pulsar, control) == [("failed", "interrupted")]
        assert pulsar.cluster.applied == []

    def test_an_interrupted_command_that_has_expired_meanwhile(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, _ = pulsar.cluster.brokers
        dies(pulsar, control, command(ONE, one, two), at="before the call")

        assert run(pulsar, control, life=Life(later_ms=400_000)) == [("expired", "expired")]
        assert pulsar.cluster.applied == []

    def test_a_dry_run_after_a_death_calls_nothing(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, _ = pulsar.cluster.brokers
        dies(pulsar, control, command(ONE, one, two), at="before the call")

        assert run(pulsar, control, ExecutorConfig("c")) == [("dry-run", "dry-run")]
        assert pulsar.asked("PUT") == []

    @pytest.mark.parametrize("went", ["to nobody", "to a third broker"])
    def test_a_dry_run_after_an_unload_only_says_where_the_bundle_is(
        self, pulsar: FakePulsar, control: Control, went: str
    ) -> None:
        one, two, three = pulsar.cluster.brokers
        dies(pulsar, control, command(ONE, one, two), at="before the call")
        pulsar.cluster.manager, pulsar.cluster.lookups = "modular", False
        pulsar.cluster.owners[ONE] = None if went == "to nobody" else three

        told = run(pulsar, control, ExecutorConfig("c", guard=GuardRules(repairs=1)))

        assert told == [("applied", "not-looked-up" if went == "to nobody" else "elsewhere")]
        assert went == "to nobody" or "this is a dry run" in str(control.outcomes()[0].reason)
        assert pulsar.asked("PUT") == []
        assert not [one for one in pulsar.asked("GET") if one.target.startswith("/lookup/")]

    @pytest.mark.parametrize("silent", [False, True])
    def test_a_repair_after_a_death_is_refused_while_a_broker_is_frozen_or_none_says_who_is_there(
        self, pulsar: FakePulsar, control: Control, silent: bool
    ) -> None:
        one, two, three = pulsar.cluster.brokers
        dies(pulsar, control, command(ONE, one, two), at="before the call")
        pulsar.cluster.owners[ONE] = three
        lists = count(1)
        pulsar.faults = lambda request: (
            Fault(instead=Answer(503))
            # Three are read to find the bundle.
            if silent and request.path == "/admin/v2/brokers/c" and next(lists) > 3
            else None
        )
        repairs = replace(APPLY, guard=GuardRules(repairs=1))

        def frozen(brokers: Sequence[str]) -> str:
            return f"{two} is frozen" if two in brokers else ""

        with executor(pulsar, control, repairs, frozen=frozen) as one_life:
            one_life.recover()

        assert control.verdicts() == [("applied", "elsewhere")]
        code = "cluster-error" if silent else "broker-frozen"
        assert f"not unloaded once more: {code}" in str(control.outcomes()[0].reason)
        assert pulsar.asked("PUT") == []
