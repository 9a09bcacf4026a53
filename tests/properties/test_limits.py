"""What must hold of a whole round when its operator sets limits and policies: nobody goes where he
must not, and no budget is exceeded.
"""

import json
import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import given

from sinks.wire.output_rows import event_row
from strategies.averages.bundle_averages import unpack_history
from strategies.bundles import namespace_of
from strategies.cluster.budget import HOUR_MS, Spent
from strategies.cluster.model import Command
from strategies.cluster.rule_settings import LimitSettings
from strategies.filters.pipeline import FilterSettings, LoadManager
from strategies.fold.engine import EngineSettings, rules_of
from strategies.round.round import run_round
from strategies.round.round_input import RoundInput, RoundResult
from strategies.settings import Mode
from strategies.splitting.limits import SplitSettings
from tests.properties.legal import BROKERS, BUNDLES, EAGER, NOW_MS, WEIGHTS, modes, seeds
from tests.properties.test_round import SETTINGS, any_strategy, inputs, with_its_own_memory
from tests.world.brokers import shedder

MIB = 1024 * 1024
#: The views are of early in a Thursday.
CLOSED = "Fri-Wed 00:00-24:00, Thu 12:00-24:00"
NAMESPACES = sorted({namespace_of(bundle) for bundle in BUNDLES})


@dataclass(frozen=True)
class Case:
    """A round with limits.

    `reserved`: a namespace that may live on `host` only (empty: anywhere); `draining`: a broker
    that may take nothing.
    """

    given: RoundInput
    settings: EngineSettings
    reserved: str
    host: str
    draining: str

    def close(self) -> RoundResult:
        settings = self.settings
        return run_round(
            self.given,
            shedder(settings.strategy, settings.shedding, WEIGHTS, settings.mode),
            rules_of(settings),
        )

    def moves(self, result: RoundResult) -> list[Command]:
        return [command for command in result.commands if command.action in ("unload", "transfer")]

    def throughput(self, command: Command) -> float:
        packed = self.given.read_table(command.source)
        assert packed is not None
        table = unpack_history(packed).loads()
        return float(table.msg_throughput[table.names.index(command.bundle)]) / MIB


def a_case(strategy: str, mode: Mode, given_: RoundInput, seed: int) -> Case:
    chance, given_ = random.Random(seed), with_its_own_memory(given_, strategy)
    reserved, host, draining = (
        chance.choice(NAMESPACES),
        chance.choice(BROKERS),
        chance.choice(BROKERS),
    )
    only = "" if chance.random() < 0.3 else host.rpartition(":")[0]
    policy = {
        "namespaces": [reserved.replace("/", "[/]")],
        "primary": [only or ".*"],
        "secondary": [],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": 1}},
    }
    snapshot = {"isolation": {"one": policy}, "brokers": {draining: {"draining": True}}}
    limits = LimitSettings(
        excluded_namespaces=chance.choice(("", chance.choice(NAMESPACES), "*"))
        if chance.random() < 0.5
        else "",
        excluded_brokers=chance.choice(("", chance.choice(BROKERS))),
        windows=chance.choice(("", "", "00:00-24:00", CLOSED)),
        moves_per_round=chance.choice((0, 1, 2)),
        moves_per_hour=chance.choice((0, 3, 5)),
        moved_mib_per_round=chance.choice((0.0, 0.01, 1.0, 100.0)),
        moved_mib_per_hour=chance.choice((0.0, 5.0, 1000.0)),
    )
    spent = tuple(
        Spent(NOW_MS - chance.choice((0, 1, HOUR_MS - 1, HOUR_MS)), 1, MIB * chance.random())
        for _ in range(chance.choice((0, 2)))
    )
    manager: LoadManager = (
        "auto" if mode == "fixed" else chance.choice(("auto", "modular", "extensible"))
    )
    settings = EngineSettings(
        strategy,
        mode,
        EAGER[strategy],
        WEIGHTS,
        SETTINGS,
        placement=chance.choice(
            ("auto", "none", "least_resource_usage", "round_robin", "least_long_term_rate", "avg")
        ),
        filters=FilterSettings(load_manager=manager, distribute_evenly=chance.random() < 0.5),
        limits=limits,
        splitting=SplitSettings(enabled=chance.random() < 0.5, max_topics=2, max_msg_rate=10),
    )
    state = replace(given_.state, policies=json.dumps(snapshot), spent=spent)
    return Case(
        replace(given_, state=state),
        settings,
        reserved,
        only,
        draining,
    )


@pytest.mark.heavy
@any_strategy
@given(given_=inputs, mode=modes, seed=seeds)
def test_no_round_raises_and_every_round_keeps_its_promises(
    strategy: str, given_: RoundInput, mode: Mode, seed: int
) -> None:
    case = a_case(strategy, mode, given_, seed)
    result = case.close()
    a_bundle_is_moved_at_most_once_between_brokers_of_the_round(case, result)
    no_budget_is_exceeded(case, result)
    nothing_goes_where_it_must_not_and_nobody_who_is_left_out_takes_part(case, result)
    every_bundle_that_was_picked_is_commanded_or_has_a_reason(case, result)


def a_bundle_is_moved_at_most_once_between_brokers_of_the_round(
    case: Case, result: RoundResult
) -> None:
    mode = case.settings.mode
    assert len({command.bundle for command in result.commands}) == len(result.commands)
    assert [command.id for command in result.commands] == list(result.round.commands)
    assert {*result.loads} == {command.bundle for command in case.moves(result)}
    assert event_row(result.round).value
    assert all(event_row(command).value for command in result.commands)
    for one in result.commands:
        assert {one.source, one.destination or one.source} <= {*result.round.brokers}
        assert one.source != one.destination
        # Java's TransferShedder does not look at what it takes in exchange: decision record 0044.
        rests = one.bundle in case.given.state.cooling
        assert not rests or (mode, one.code) == ("parity", "swap")
        assert one.bundle not in case.given.under_way or mode == "parity"


def no_budget_is_exceeded(case: Case, result: RoundResult) -> None:
    limits, moved = case.settings.limits, case.moves(result)
    traffic = sum(max(0.0, case.throughput(command)) for command in moved)
    earlier = [one for one in case.given.state.spent if one.ts > NOW_MS - HOUR_MS]
    hour = (
        len(moved) + sum(one.bundles for one in earlier),
        traffic + sum(one.throughput for one in earlier) / MIB,
    )
    for spent, limit in (
        (len(moved), limits.moves_per_round),
        (traffic, limits.moved_mib_per_round),
        (hour[0], limits.moves_per_hour),
        (hour[1], limits.moved_mib_per_hour),
    ):
        assert not limit or not moved or spent <= limit * (1 + 1e-9)
    assert (result.spent is None) is (not moved)
    if result.spent is not None:
        assert result.spent.bundles == len(moved)
        assert result.spent.throughput / MIB == pytest.approx(traffic)


def nothing_goes_where_it_must_not_and_nobody_who_is_left_out_takes_part(
    case: Case, result: RoundResult
) -> None:
    limits = case.settings.limits
    for command in result.commands:
        assert limits.excluded_brokers not in (command.source, command.destination)
        assert limits.excluded_namespaces not in (namespace_of(command.bundle), "*")
        assert command.action == "throttle" or limits.windows != CLOSED
    for command in case.moves(result):
        assert case.settings.mode == "parity" or command.destination != case.draining
        reserved = namespace_of(command.bundle) == case.reserved and case.host
        if command.destination is not None and reserved:
            assert command.destination.rpartition(":")[0] == case.host


def every_bundle_that_was_picked_is_commanded_or_has_a_reason(
    case: Case, result: RoundResult
) -> None:
    assert all(skip.code and skip.text and skip.names for skip in result.round.skips)
    if case.settings.mode == "fixed" or case.settings.strategy == "transfer":
        return
    only = LimitSettings(excluded_brokers=case.settings.limits.excluded_brokers)
    free = replace(case, settings=replace(case.settings, limits=only))
    commanded = {command.bundle for command in result.commands}
    free_moves = free.moves(free.close())
    assert all(one.bundle in commanded or has_reason(one, result) for one in free_moves)


def has_reason(move: Command, result: RoundResult) -> bool:
    """Whether skips say why a bundle does not move: its own, or, by a strategy that plans for the
    whole cluster, the one of a broker that the plan does without, or of a cluster without a plan.
    """
    return any(
        subject in skip.names
        for skip in result.round.skips
        for kind, subject, code in (
            ("bundle", move.bundle, skip.code),
            ("broker", move.source, "not-needed"),
            ("cluster", move.cluster, "no-better-plan"),
            ("cluster", move.cluster, "waiting-for-moves"),
        )
        if (skip.subject, skip.code) == (kind, code)
    )
