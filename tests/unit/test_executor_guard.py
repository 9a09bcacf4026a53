"""The executor on a cluster in trouble: no move begins while the gate is closed or the breaker is
open, and each command says why.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

from sinks.executor.executor import Executor
from sinks.executor.gate import MoveGate
from sinks.executor.guard import MoveJournal
from sinks.executor.journal import Journal
from sinks.executor.settings import ExecutorConfig, GuardRules
from sinks.pulsar_api.access import PulsarSettings
from sinks.pulsar_api.admin import PulsarAdmin
from strategies.bundles import parse_bundle, topic_hash
from strategies.cluster.model import Command
from strategies.executor.gate_and_breaker import BreakerRules, GateRules
from tests.control_topic import Control, command
from tests.pulsar_fake.model import Answer, Request
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.unit.executor_lives import APPLY, BUNDLES, FOUR, ONE, THREE, TWO, Life, executor, run

#: Calls that must be answered are given up after half a second here.
GATED = replace(APPLY, guard=GuardRules(GateRules(facts_ms=500)))
_MINUTE_MS = 60_000
_SPLIT = {"action": "split", "destination": None}


def guarded(**rules: object) -> ExecutorConfig:
    return replace(APPLY, guard=GuardRules(**rules))  # type: ignore[arg-type]


def reads_metadata(request: Request) -> bool:
    return "/tenants/rebalancer-look-" in request.target or "racks-info" in request.target


def calls(pulsar: FakePulsar, wanted: Callable[[Request], bool]) -> int:
    return sum(wanted(request) for request, _ in pulsar.calls)


class TestTheGate:
    def test_no_unload_begins_without_a_leader(self, pulsar: FakePulsar, control: Control) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.cluster.led = False
        control.send(command(ONE, one, two))

        assert run(pulsar, control, GATED) == [("refused", "gate-leader")]
        assert pulsar.asked("PUT") == []

    def test_a_question_about_the_leader_that_fails_closes_it_with_a_sentence(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.faults = lambda request: (
            Fault(instead=Answer(500)) if "leaderBroker" in request.target else None
        )
        control.send(command(ONE, one, two))

        assert run(pulsar, control, GATED) == [("refused", "gate-leader")]
        assert "answered 500 to the leader" in str(control.outcomes()[0].reason)

    @pytest.mark.heavy
    def test_no_unload_begins_while_the_metadata_store_does_not_answer(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.faults = lambda request: Fault(delay_s=30) if reads_metadata(request) else None
        control.send(*(command(bundle, one, two) for bundle in BUNDLES))

        assert run(pulsar, control, GATED) == [("refused", "gate-metadata")] * 4
        assert pulsar.asked("PUT") == []

    @pytest.mark.heavy
    @pytest.mark.parametrize("which", ["leader", "source", "destination", "bystander"])
    def test_no_unload_begins_while_a_broker_is_silent(
        self, pulsar: FakePulsar, control: Control, which: str
    ) -> None:
        roles = ("leader", "source", "destination", "bystander")
        pulsar.join()
        brokers = dict(zip(roles, pulsar.cluster.brokers, strict=True))
        source, destination, silent = (brokers[role] for role in ("source", "destination", which))
        pulsar.cluster.owners[ONE] = source
        pulsar.faults = lambda request: (
            Fault(delay_s=30)
            if request.broker == silent and "leaderBroker" not in request.target
            else None
        )
        control.send(command(ONE, source, destination))

        assert run(pulsar, control, GATED) == [("refused", "gate-silent")]
        assert silent in str(control.outcomes()[0].reason)
        assert pulsar.asked("PUT") == []

    @pytest.mark.parametrize(
        ("fault", "code", "said"),
        [
            (Fault(instead=Answer(503)), "gate-busy", "answered 503 to a read of metadata"),
            (Fault(instead=Answer(429)), "gate-busy", "answered 429 to a read of metadata"),
            (Fault(instead=Answer(504)), "gate-metadata", "answered 504 to a read of metadata"),
            (Fault(drop=True), "gate-metadata", "closed the connection"),
        ],
    )
    def test_a_broker_that_refuses_at_once_is_not_called_silent(
        self, pulsar: FakePulsar, control: Control, fault: Fault, code: str, said: str
    ) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.faults = lambda request: (
            fault if request.broker == two and reads_metadata(request) else None
        )
        control.send(command(ONE, one, two))

        patient = guarded(gate=GateRules(facts_ms=30_000))
        assert run(pulsar, control, patient) == [("refused", code)]
        reason = str(control.outcomes()[0].reason)
        assert (two in reason, said in reason) == (True, True)
        assert "within" not in reason, "nobody waited"

    def test_a_broker_without_a_listening_port_is_not_called_slow(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, three = pulsar.cluster.brokers
        pulsar.kill(three, still_listed=True)
        control.send(command(ONE, one, two))

        patient = guarded(gate=GateRules(facts_ms=30_000))
        assert run(pulsar, control, patient) == [("refused", "gate-silent")]
        assert f"{three} does not accept connections" in str(control.outcomes()[0].reason)

    def test_a_wave_of_moves_asks_each_broker_once(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.cluster.owners.update(dict.fromkeys(BUNDLES, one))
        patient = guarded(gate=GateRules(facts_ms=30_000))
        control.send(*(command(bundle, one, two) for bundle in BUNDLES))

        assert run(pulsar, control, patient) == [("applied", "")] * 4
        assert calls(pulsar, lambda request: "leaderBroker" in request.target) == 1
        assert calls(pulsar, reads_metadata) == 3 * 2, "two reads of each broker"

    def test_of_a_large_cluster_some_others_are_probed_beside_those_concerned(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        for _ in range(20):
            pulsar.join()
        one, two, *_ = pulsar.cluster.brokers
        pulsar.cluster.owners.update(dict.fromkeys(BUNDLES, one))
        control.send(*(command(bundle, one, two) for bundle in BUNDLES))

        patient = guarded(gate=GateRules(facts_ms=600_000))
        assert run(pulsar, control, patient) == [("applied", "")] * 4
        probed = {request.broker for request, _ in pulsar.calls if reads_metadata(request)}
        assert {one, two} <= probed
        assert len(probed) <= 16

    def test_no_move_begins_until_the_cluster_has_settled_after_a_broker_was_lost(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, three = pulsar.cluster.brokers
        pulsar.cluster.owners[TWO] = one
        settling = guarded(gate=GateRules(settle_ms=3_600_000))
        with executor(pulsar, control, settling) as at_work:
            control.send(command(ONE, one, two))
            work_off(at_work)
            pulsar.kill(three)
            control.send(command(TWO, one, two))
            work_off(at_work)

        assert control.verdicts() == [("applied", ""), ("refused", "gate-broker-lost")]
        assert three in str(control.outcomes()[1].reason)
        assert len(pulsar.cluster.applied) == 1

    @pytest.mark.heavy
    def test_a_broker_that_hangs_and_then_dies_holds_back_no_move_for_ever(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, three = pulsar.cluster.brokers
        pulsar.cluster.owners[TWO] = one
        pulsar.faults = lambda request: Fault(delay_s=30) if request.broker == three else None
        quick = guarded(gate=GateRules(facts_ms=500, settle_ms=0))
        with executor(pulsar, control, quick) as at_work:
            control.send(command(ONE, one, two))
            work_off(at_work)
            pulsar.kill(three)
            time.sleep(0.6)  # what the gate knows is too old then
            control.send(command(TWO, one, two))
            work_off(at_work)

        assert control.verdicts() == [("refused", "gate-silent"), ("applied", "")]

    def test_a_broker_that_left_while_there_was_nothing_to_do_is_lost_since_then(
        self, pulsar: FakePulsar
    ) -> None:
        three, now = pulsar.cluster.brokers[2], [0.0]
        with closing(PulsarAdmin(PulsarSettings("c", pulsar.admin_urls))) as admin:
            gate = MoveGate(admin, GateRules(settle_ms=30_000), lambda: now[0])
            told = {}
            for now[0] in range(0, 600, 5):
                if now[0] == 300:
                    pulsar.kill(three)
                gate.keep_up()
                told[now[0]] = found.code if (found := gate.objection()) else ""

        assert {at for at, code in told.items() if code == "gate-broker-lost"} == {
            300, 305, 310, 315, 320, 325,
        }  # fmt: skip
        assert calls(pulsar, _lists_brokers) == 600 / 15

    def test_a_list_that_is_not_answered_is_not_asked_for_at_each_step(
        self, pulsar: FakePulsar
    ) -> None:
        now = [0.0]
        pulsar.faults = lambda _: Fault(instead=Answer(401))
        with closing(PulsarAdmin(PulsarSettings("c", pulsar.admin_urls))) as admin:
            gate = MoveGate(admin, GateRules(settle_ms=30_000), lambda: now[0])
            for now[0] in range(30):
                gate.keep_up()

        assert calls(pulsar, _lists_brokers) == 2

    @pytest.mark.parametrize(
        ("apply", "settle_ms", "looks"), [(True, 1, True), (True, 0, False), (False, 1, False)]
    )
    def test_an_executor_without_commands_looks_who_is_there_if_that_matters(
        self, pulsar: FakePulsar, control: Control, apply: bool, settle_ms: int, looks: bool
    ) -> None:
        run(pulsar, control, replace(guarded(gate=GateRules(0, settle_ms)), apply=apply))

        assert (calls(pulsar, _lists_brokers) > 0) == looks

    def test_a_dry_run_asks_for_no_gate(self, pulsar: FakePulsar, control: Control) -> None:
        one, two, _ = pulsar.cluster.brokers
        pulsar.cluster.led = False
        control.send(command(ONE, one, two))

        assert run(pulsar, control, replace(GATED, apply=False)) == [("dry-run", "dry-run")]


def work_off(at_work: Executor) -> None:
    while at_work.step(0):
        pass


@dataclass
class Trouble:
    """Unloads are answered 500 while `on`."""

    pulsar: FakePulsar
    on: bool = True

    def __post_init__(self) -> None:
        self.pulsar.faults = lambda request: (
            Fault(instead=Answer(500)) if self.on and request.method == "PUT" else None
        )


BREAKS = replace(
    guarded(breaker=BreakerRules(failures=2, within_ms=600_000, pause_ms=_MINUTE_MS)), at_once=1
)


class TestTheBreaker:
    """Each line is a life of the executor: what it knows of failures is in its journal."""

    def moves(self, pulsar: FakePulsar) -> Sequence[Command]:
        one, two, _ = pulsar.cluster.brokers
        pulsar.cluster.owners.update(dict.fromkeys(BUNDLES, one))
        return [command(bundle, one, two) for bundle in BUNDLES]

    def test_it_opens_after_failures_and_closes_after_a_move_that_succeeds(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        trouble, (first, second, third, fourth) = Trouble(pulsar), self.moves(pulsar)
        control.send(first, second, third)
        assert run(pulsar, control, BREAKS) == [
            ("failed", "refused-by-broker"),
            ("failed", "refused-by-broker"),
            ("refused", "breaker-open"),
        ]
        assert len(pulsar.asked("PUT")) == 2

        trouble.on = False
        control.send(replace(third, id="again"), fourth)
        later = Life(later_ms=_MINUTE_MS + 5_000)
        assert run(pulsar, control, BREAKS, later)[3:] == [("applied", "")] * 2

    @pytest.mark.parametrize(
        ("changes", "status", "code"),
        [
            ({}, 400, "declined"),
            ({}, 409, "declined"),
            ({}, 412, "not-found"),
            ({}, 422, "declined"),
            (_SPLIT, 405, "declined"),
            (_SPLIT, 409, "declined"),
            (_SPLIT, 412, "declined"),
            (_SPLIT, 500, "refused-by-broker"),
        ],
    )
    def test_what_a_broker_declines_says_nothing_about_the_cluster(
        self,
        pulsar: FakePulsar,
        control: Control,
        changes: dict[str, Any],
        status: int,
        code: str,
    ) -> None:
        """The good commands that follow are applied."""
        one, two, _ = pulsar.cluster.brokers
        pulsar.cluster.owners.update(dict.fromkeys(BUNDLES, one))
        pulsar.faults = lambda request: (
            Fault(instead=Answer(status, b'{"reason":"it is as it is"}'))
            if request.method == "PUT" and FOUR not in request.target
            else None
        )
        bad = [command(bundle, one, two) for bundle in (ONE, TWO, THREE)]
        control.send(*(replace(one_of, **changes) for one_of in bad), command(FOUR, one, two))

        told = run(pulsar, control, BREAKS)
        assert told[:3] == [("failed", code)] * 3
        assert told[3:] == [("applied", "")]

    def test_a_move_that_fails_opens_it_again(self, pulsar: FakePulsar, control: Control) -> None:
        Trouble(pulsar)
        first, second, third, fourth = self.moves(pulsar)
        control.send(first, second)
        run(pulsar, control, BREAKS)
        control.send(third, fourth)

        later = Life(later_ms=_MINUTE_MS + 5_000)
        assert run(pulsar, control, BREAKS, later)[2:] == [
            ("failed", "refused-by-broker"),
            ("refused", "breaker-open"),
        ]

    @pytest.mark.heavy
    def test_one_move_is_tried_while_the_others_of_its_wave_wait_for_a_later_round(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        trouble, (first, second, third, fourth) = Trouble(pulsar), self.moves(pulsar)
        control.send(first, second)
        run(pulsar, control, BREAKS)
        trouble.on = False
        pulsar.faults = lambda request: Fault(delay_s=1) if request.method == "PUT" else None
        control.send(third, fourth)

        told = run(pulsar, control, replace(BREAKS, at_once=2), Life(later_ms=_MINUTE_MS + 5_000))[
            2:
        ]
        assert sorted(told) == [("applied", ""), ("refused", "breaker-open")]
        assert "one move is being tried" in str(
            [one.reason for one in control.outcomes() if one.status == "refused"]
        )

    def test_it_is_shown_as_what_it_is(self, pulsar: FakePulsar, control: Control) -> None:
        Trouble(pulsar)
        control.send(*self.moves(pulsar)[:2])
        with executor(pulsar, control, BREAKS) as at_work:
            assert at_work.guard.breaker.state().code == "closed"
            work_off(at_work)
            assert at_work.guard.breaker.state().code == "open"


@pytest.mark.heavy
def test_half_of_all_calls_unanswered_leaves_nothing_half_done(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, three = pulsar.cluster.brokers
    chance = random.Random(5)
    pulsar.faults = lambda _: Fault(drop=True) if chance.random() < 0.5 else None
    troubled = guarded(
        gate=GateRules(facts_ms=200),
        breaker=BreakerRules(failures=3, pause_ms=_MINUTE_MS),
        repairs=5,
    )
    for number in range(12):
        owner = pulsar.cluster.owners[BUNDLES[number % 4]] or one
        control.send(command(BUNDLES[number % 4], owner, two if owner != two else three))
    run(pulsar, control, troubled)
    assert len(control.outcomes()) == 12, "each command has its outcome"
    assert all(told.reason or told.status == "applied" for told in control.outcomes())
    codes = Counter(code.partition("-")[0] for status, code in control.verdicts())
    assert codes["gate"] + codes["breaker"] > 0, control.verdicts()

    pulsar.faults = lambda _: None
    for bundle in (ONE, TWO, THREE):
        owner = pulsar.cluster.owners[bundle] or one
        pulsar.cluster.owners[bundle] = owner
        control.send(command(bundle, owner, two if owner != two else three))
    # One by one: if the breaker is open, the first one closes it.
    later = Life(later_ms=2 * _MINUTE_MS)
    alone = replace(troubled, at_once=1)
    assert run(pulsar, control, alone, later)[12:] == [("applied", "")] * 3
    with closing(Journal(control.folder / "state")) as journal:
        assert journal.unfinished() == []


class TestABundleWithoutOwner:
    """After a move, while it had clients: its namespace rests until it is owned."""

    def unowned(self, pulsar: FakePulsar, control: Control, config: ExecutorConfig) -> None:
        """One has clients, and goes to nobody."""
        one, two, _ = pulsar.cluster.brokers
        pulsar.cluster.manager, pulsar.cluster.lookups = "modular", False
        pulsar.cluster.owners.update(dict.fromkeys(BUNDLES, one))
        topic = next(topic_names(ONE))
        pulsar.cluster.figures[topic] = {"publishers": [{}], "msgRateIn": 0.0}
        pulsar.faults = lambda request: (
            Fault(instead=Answer(503)) if request.target.startswith("/lookup/") else None
        )
        control.send(command(ONE, one, two))
        assert run(pulsar, control, config) == [("applied", "unowned")]

    def test_no_other_bundle_of_its_namespace_moves(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        holds = guarded(unowned_hold_ms=600_000, measure_ms=100)
        one, two, _ = pulsar.cluster.brokers
        self.unowned(pulsar, control, holds)
        control.send(command(TWO, one, two))

        assert run(pulsar, control, holds)[1:] == [("refused", "unowned-bundle")]
        assert ONE in str(control.outcomes()[1].reason)

    def test_they_move_again_as_soon_as_it_is_owned(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        holds = guarded(unowned_hold_ms=600_000, measure_ms=100)
        one, two, _ = pulsar.cluster.brokers
        self.unowned(pulsar, control, holds)
        pulsar.cluster.owners[ONE] = two
        pulsar.faults = lambda _: None
        control.send(command(TWO, one, two))

        assert run(pulsar, control, holds)[1:] == [("applied", "")]

    def test_or_when_it_has_held_them_back_for_long_enough(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        holds = guarded(unowned_hold_ms=_MINUTE_MS, measure_ms=100)
        one, two, _ = pulsar.cluster.brokers
        self.unowned(pulsar, control, holds)
        pulsar.faults = lambda _: None
        control.send(command(TWO, one, two))

        assert run(pulsar, control, holds, Life(later_ms=_MINUTE_MS))[1:] == [("applied", "")]
        with closing(Journal(control.folder / "state")) as journal:
            assert MoveJournal(journal).unowned("t/ns") == []


def _lists_brokers(request: Request) -> bool:
    return request.path == "/admin/v2/brokers/c"


def topic_names(bundle: str) -> Iterator[str]:
    """Topics that fall into the bundle."""
    parsed = parse_bundle(bundle)
    assert parsed is not None
    for number in count():
        topic = f"persistent://{parsed[0]}/topic-{number}"
        if topic_hash(topic) in parsed[1]:
            yield topic
