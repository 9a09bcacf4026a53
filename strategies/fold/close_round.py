"""Closes a round: decides when, removes expired entries from the cluster's state, runs the round,
and stores its result.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from strategies.cluster import cool_downs
from strategies.cluster.budget import entries_of_last_hour
from strategies.cluster.cluster_state import BrokerState, ClusterState, StateStore
from strategies.cluster.model import Event
from strategies.cluster.quota import OVER_QUOTA
from strategies.cluster.remembered_intents import forget_old_intents
from strategies.cluster.strategy_memory import NO_MEMORY, Memory
from strategies.cluster.topics_of_bundle import TOPICS_MS
from strategies.fold.children_of_asked_splits import find_children
from strategies.fold.first_records_of_log import may_close_first_round
from strategies.fold.load_reports import depart, forget_notes, notes_about
from strategies.fold.outcomes import apply_commands, drop_finished_orders
from strategies.fold.producer_votes import count_voters
from strategies.fold.rule_errors import NOT_OF_RULES, RAISED, check_plain
from strategies.round.commands_and_record import set_aside_round
from strategies.round.drain_progress import end_passed_drains
from strategies.round.round import run_round
from strategies.round.round_input_and_digest import ClosedBy, RoundInput, RoundResult, Rules
from strategies.round.yielding import update_yielding
from strategies.settings import RoundSettings
from strategies.shedding.contract import Shedder

#: Number of rounds for which the averages of a bundle that left a broker are kept for the broker
#: that takes it.
_ROUNDS_TO_WAIT = 5
#: A broker without a report for this multiple of `round.stale_after_ms` is removed, even if sweeps
#: still list it.
_STALE_TIMES_TO_FORGET = 10


@dataclass(frozen=True, slots=True)
class SweepOfRound:
    """The sweep that closes a round."""

    #: All its brokers, those without figures included.
    listed: frozenset[str]
    #: Time of the sweep before it (ms since the epoch), -1 without one.
    before_ms: int


def closing_condition(
    state: ClusterState, settings: RoundSettings, *, swept: bool
) -> ClosedBy | None:
    """Returns the condition that closes the open round now; None while it stays open. `swept`: the
    record that was just applied is a sweep, which closes a round from three quarters of
    `round.interval_ms` on.
    """
    now_ms = state.now_ms
    passed = now_ms - state.round_at_ms
    if swept and (state.round == 0 or passed * 4 >= settings.interval_ms * 3):
        return "sweep"
    if state.early is not None and not may_close_first_round(state.early):
        return None
    if passed >= settings.interval_ms + settings.lateness_ms:
        return "lateness"
    sweeping = state.sweep_at_ms >= 0 and now_ms - state.sweep_at_ms <= 2 * settings.interval_ms
    if not sweeping and passed >= settings.interval_ms and 0 < state.reported >= state.live:
        return "all-reported"
    return None


@dataclass(frozen=True, slots=True)
class RoundCloser:
    """Closes rounds of any cluster; holds settings only."""

    shedder: Shedder
    rules: Rules
    #: Describes an error that a rule raises, as a sentence.
    raised: Callable[[Exception], str]

    def close(
        self, cluster: str, closed_by: ClosedBy, sweep: SweepOfRound | None, store: StateStore
    ) -> list[Event]:
        """Closes a round and stores the state after it. Returns its commands, then its record.
        `sweep`: the sweep that closes it, None where another record does.
        """
        state = store.get_cluster()
        now_ms, settings = state.now_ms, self.rules.round
        brokers = _sorted_brokers(store)
        leavers = _find_leavers(state, brokers, now_ms, settings, sweep)
        for name in leavers:
            state = depart(name, state, store)
        listed = None if sweep is None else sweep.listed
        state, noted = forget_notes(state, listed, store)
        state = _drop_expired(state, now_ms, self.rules, noted)
        if leavers:  # averages of bundles may have moved from these brokers to others
            brokers = _sorted_brokers(store)
        state = count_voters(state, brokers, now_ms, settings)
        state = replace(state, intents=end_passed_drains(state.intents, now_ms))
        state = find_children(state, store)
        owned = notes_about(state.intents.drains, store)
        round_input = RoundInput(
            cluster, state, now_ms, closed_by, brokers, store.get_table, owned, listed
        )
        result = self._run(round_input)
        _remember(result.memory, brokers, store)
        store.put_cluster(_apply_result(round_input, result))
        return [*result.commands, result.round]

    def _run(self, round_input: RoundInput) -> RoundResult:
        left_out = round_input.state.bulkhead.left_out
        if left_out:
            text = f"records beyond its quota since the last round: {left_out:,}"
            return set_aside_round(round_input, self.rules, OVER_QUOTA, text)
        try:
            result = run_round(round_input, self.shedder, self.rules)
            check_plain(result)
            return result
        except NOT_OF_RULES:
            raise
        except Exception as error:  # the next round tries again
            text = f"a rule failed: {self.raised(error)}"
            return set_aside_round(round_input, self.rules, RAISED, text)


def _sorted_brokers(store: StateStore) -> tuple[BrokerState, ...]:
    """Returns the brokers in order of first appearance."""
    return tuple(sorted(store.brokers(), key=lambda broker: broker.order))


def _find_leavers(
    state: ClusterState,
    brokers: Sequence[BrokerState],
    now_ms: int,
    settings: RoundSettings,
    sweep: SweepOfRound | None,
) -> list[str]:
    """Returns the brokers that have left: the sweep does not list them and they have not reported
    since the sweep before, or they have not reported for a very long time. A broker that still
    sends records with a wrong clock has not left for the second reason.
    """
    silent_since_ms = now_ms - _STALE_TIMES_TO_FORGET * settings.stale_after_ms
    heard = {
        name
        for name, stray in state.strays.items()
        if stray.heard_ms >= now_ms - settings.stale_after_ms
    }
    return [
        broker.broker
        for broker in brokers
        if (broker.newest_report_ms < silent_since_ms and broker.broker not in heard)
        or (
            sweep is not None
            and broker.broker not in sweep.listed
            and broker.newest_report_ms <= sweep.before_ms
        )
    ]


def _drop_expired(
    state: ClusterState, now_ms: int, rules: Rules, noted: Collection[str]
) -> ClusterState:
    """Removes expired entries from the state. `noted`: brokers that left and whose notes stay."""
    oldest, settings = state.round - _ROUNDS_TO_WAIT, rules.round
    state = replace(
        state,
        # The outcome of a command that was not carried out in time arrives after its expiry and
        # must still find the move.
        in_flight={
            bundle: move
            for bundle, move in state.in_flight.items()
            if now_ms < move.expires_at_ms or move.issued_at_ms >= now_ms - settings.cool_down_ms
        },
        cooling=cool_downs.drop_expired(state.cooling, now_ms, settings.cool_down_ms),
        departed={
            bundle: entry for bundle, entry in state.departed.items() if entry.round > oldest
        },
        gained={bundle: gain for bundle, gain in state.gained.items() if gain.round > oldest},
        spent=entries_of_last_hour(state.spent, now_ms),
        advised={
            bundle: since
            for bundle, since in state.advised.items()
            if since > now_ms - rules.throttling.repeat_ms
        },
        # Older reports are rejected without an entry; a broker with a note keeps its entry.
        gone={
            broker: ts
            for broker, ts in state.gone.items()
            if ts >= now_ms - settings.max_clock_jump_ms or broker in noted
        },
        topics={
            bundle: known
            for bundle, known in state.topics.items()
            if abs(now_ms - known.ts) <= TOPICS_MS
        },
        intents=forget_old_intents(
            state.intents, now_ms, settings.max_clock_jump_ms, state.round_at_ms
        ),
        rivals=update_yielding(state.rivals, now_ms, rules.rivals, settings.cool_down_ms),
    )
    return drop_finished_orders(state, now_ms)


def _apply_result(round_input: RoundInput, result: RoundResult) -> ClusterState:
    state = round_input.state
    live = len(result.round.brokers)
    if not result.is_decided:
        # A round that was set aside counts no brokers, but the next quota depends on their number.
        live = max(state.live, len(round_input.brokers) if state.bulkhead.left_out else 0)
    return replace(
        apply_commands(state, result, round_input.now_ms),
        round=round_input.number,
        round_at_ms=round_input.now_ms,
        live=live,
        reported=0,
        memory=result.memory.cluster,
        intents=result.intents,
        bulkhead=replace(state.bulkhead, left_out=0),
    )


def _remember(memory: Memory, brokers: Collection[BrokerState], store: StateStore) -> None:
    """Stores the memory of the brokers for which it changed."""
    for broker in brokers:
        remembered = memory.brokers.get(broker.broker, NO_MEMORY)
        if remembered != broker.memory:
            store.put_broker(replace(broker, memory=remembered))
