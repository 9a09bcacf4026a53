"""What must hold of a whole round, from the state of a cluster to numbered commands, with every
strategy in both modes, when its operator sets limits and policies.
"""

import re
from dataclasses import replace

import pytest
from hypothesis import example, given

from pulsar_rebalancer.decisions.explain.explanation_lines import round_lines
from pulsar_rebalancer.decisions.log import DecisionLog
from sinks.wire.event_to_topic_rows import event_row
from sinks.wire.record_decoding import decode_round
from sinks.wire.record_encoding import encode_round
from strategies.bundles import namespace_of
from strategies.cluster.budget import HOUR_MS
from strategies.cluster.model import Command
from strategies.fold.engine import rules_of
from strategies.fold.reason_code_meanings import meanings_of
from strategies.round.round import assess_cluster
from strategies.round.round_input_and_digest import RoundInput, RoundResult
from strategies.settings import LimitSettings, Mode
from strategies.shedding.registry import SHEDDERS
from strategies.states_and_advice_of_codes import STATES
from tests.properties.legal import NOW_MS, a_memory, a_view, any_strategy, modes, seeds
from tests.properties.round_inputs import CLOSED, Case, a_case, an_input, inputs, turned
from tests.world.brokers import MIB

MEANINGS = meanings_of(*SHEDDERS.values())
#: Reasons of bundles that a strategy does not select at all.
UNSELECTED = {"excluded-namespace", "has-policies", "policies-hold", "enough-for-one-round"}


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
    it_has_one_state_and_it_is_that_of_its_decisions(case, result)
    what_is_read_says_the_same(result)


@pytest.mark.heavy
@any_strategy
@given(given_=inputs, seed=seeds)
@example(given_=an_input(a_view(86743, 4, 5), a_memory(0), 0), seed=1)  # hot bundles of two brokers
def test_the_order_of_brokers_and_bundles_changes_nothing(
    strategy: str, given_: RoundInput, seed: int
) -> None:
    case = a_case(strategy, "fixed", given_, seed)
    one, other = case.close(), replace(case, given=turned(case.given, seed)).close()
    assert one.commands == other.commands
    assert one.memory == other.memory
    assert one.loads == other.loads
    assert one.round == replace(other.round, brokers=one.round.brokers, digest=one.round.digest)


def moves_of(result: RoundResult) -> list[Command]:
    return [command for command in result.commands if command.is_move]


def a_bundle_is_moved_at_most_once_between_brokers_of_the_round(
    case: Case, result: RoundResult
) -> None:
    mode = case.settings.mode
    assert len({command.bundle for command in result.commands}) == len(result.commands)
    assert [command.id for command in result.commands] == list(result.round.commands)
    assert {*result.loads} == {command.bundle for command in moves_of(result)}
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
    limits, moved = case.settings.limits, moves_of(result)
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
    for command in moves_of(result):
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
    free_moves = moves_of(free.close())
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


def it_has_one_state_and_it_is_that_of_its_decisions(case: Case, result: RoundResult) -> None:
    done, state = result.round, result.round.state
    assert state is not None
    assert state.code in STATES
    assert (state.code == "acting") == bool(result.commands)
    assert {skip.code for skip in done.skips} <= {*MEANINGS}
    decisive = re.findall(r"\[([a-z-]+)\]", state.text)
    assert all(code in {skip.code for skip in done.skips} for code in decisive)
    if state.code not in ("acting", "blind"):
        meant = MEANINGS[decisive[-1]].state
        assert state.code == meant or (
            state.code == "waiting"
            and (meant == "balanced" or (meant == "cannot-help" and done.counted))
        )
    if done.counted:
        assert state.code not in ("balanced", "cannot-help")
    assert done.counted == (len(case.given.under_way) if case.settings.mode == "fixed" else 0)
    assert {*done.measured} <= {*done.brokers}
    if state.code == "not-allowed":
        judged = assess_cluster(case.given, case.rule, rules_of(case.settings))
        enabled = case.settings.splitting.enabled
        assert judged.shedding.decisions or decisive[-1] in UNSELECTED or enabled


def what_is_read_says_the_same(result: RoundResult) -> None:
    """Also of a round of an older version, which has no state."""
    read = decode_round(encode_round(result.round))
    assert read.state is not None
    assert read.state == result.round.state
    assert f"  {read.state.line}" in round_lines(read, DecisionLog((read,), result.commands))
    older = replace(read, state=None)
    assert decode_round(encode_round(older)) == older
