"""Folds a cluster's telemetry: takes one record, returns commands and round records; the only
module that changes cluster state, with `start_fold` before the first round.

Deterministic: the same records in the same order, with the same settings and version, give equal
events. The engine does not know micro-batches, wall clocks, timers or partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace

from strategies.cluster.budget import within_the_hour
from strategies.cluster.drain_settings import DrainSettings
from strategies.cluster.intent_contract import Intent
from strategies.cluster.intent_state import forget_old
from strategies.cluster.limit_settings import LimitSettings
from strategies.cluster.log_start import is_sure
from strategies.cluster.model import (
    NO_MEMORY,
    Event,
    Memory,
    Note,
    Owned,
    Rejection,
    Sweep,
    TelemetryRecord,
)
from strategies.cluster.quota import OVER_QUOTA
from strategies.cluster.quota_settings import BulkheadSettings
from strategies.cluster.rival_settings import RivalSettings
from strategies.cluster.state import ClusterState, expired_moves, moves_under_way
from strategies.cluster.store import BrokerState, StateStore
from strategies.dispatch_limits.throttle_advice import AdviceSettings
from strategies.filters.pipeline import Filters, FilterSettings
from strategies.fold.apply_record import apply_record
from strategies.fold.fold_intent import fold_early, fold_intent
from strategies.fold.outcomes import after_commands, without_settled
from strategies.fold.owned import forget_owned, keep_owned, owned_by
from strategies.fold.producer_votes import check_clock, counted, went_back
from strategies.fold.quota_gate import QuotaGate
from strategies.fold.reports import REPEATED, depart, newest_report_ms
from strategies.fold.rule_errors import (
    NOT_OF_RULES,
    RAISED,
    RecordChanges,
    check_plain,
    raised_text,
)
from strategies.fold.start_fold import StartFold
from strategies.fold.time_changes import clock_rejection, forget_everything_timed, set_back, timed
from strategies.fold.vanished_clusters import begin_again, is_away
from strategies.java.release_defaults import EVENLY, RELEASES, PulsarRelease, matches_ids
from strategies.limits.windows import read_windows
from strategies.placement.destinations import DestinationRules, DestinationSettings
from strategies.placement.emptiest import EmptiestBroker
from strategies.placement.registry import PLACERS, paired, placer
from strategies.registry import Registry
from strategies.round.capacities import CapacitySettings, read_capacities
from strategies.round.drain_progress import without_passed
from strategies.round.round import run_round, undecided
from strategies.round.round_input import ClosedBy, RoundInput, RoundResult, Rules
from strategies.round.yielding import judged, resting
from strategies.settings import MODE_RULES, VERSION, Mode, RoundSettings, Weights
from strategies.shedding.contract import Shedder, SheddingStrategy
from strategies.shedding.registry import DEFAULT, SHEDDERS
from strategies.splitting.limits import SplitSettings

#: Number of rounds for which the averages of a bundle that left a broker are kept for the broker
#: that takes it.
_ROUNDS_TO_WAIT = 5
#: A broker without a report for this many times `stale_after_ms` is removed, even if sweeps still
#: list it.
_STALE_TIMES_TO_FORGET = 10


@dataclass(frozen=True)
class EngineSettings:
    """All settings that decisions depend on. `shedding`: settings of the strategy, `placing`: of
    the placement; None means the defaults.

    `placement`: a name of the registry, `auto` for the one that Pulsar's users run with the
    strategy, `none` to leave placement to Pulsar. `shedders`: the strategies that `strategy` may
    name. Not a setting: a program with a strategy of its own passes an extended registry.
    """

    strategy: str = DEFAULT
    mode: Mode = "fixed"
    shedding: object | None = None
    weights: Weights = Weights()
    round: RoundSettings = RoundSettings()
    version: str = VERSION
    placement: str = "auto"
    placing: object | None = None
    destinations: DestinationSettings = DestinationSettings()
    filters: FilterSettings = FilterSettings()
    limits: LimitSettings = LimitSettings()
    splitting: SplitSettings = SplitSettings()
    throttling: AdviceSettings = AdviceSettings()
    drains: DrainSettings = DrainSettings()
    rivals: RivalSettings = RivalSettings()
    bulkhead: BulkheadSettings = BulkheadSettings()
    capacities: CapacitySettings = CapacitySettings()
    #: The Pulsar release whose defaults a None means and whose rules `parity` follows.
    pulsar_version: PulsarRelease = RELEASES[0]
    shedders: Registry[SheddingStrategy] = field(default=SHEDDERS, repr=False, compare=False)

    @property
    def entry(self) -> SheddingStrategy:
        """The registry entry of the strategy. Raises SettingsError for an unknown name."""
        return self.shedders.named(self.strategy)

    @property
    def chosen(self) -> object:
        """The strategy's own settings. Raises SettingsError for an unknown name and for settings of
        another strategy.
        """
        return self.shedders.settings_of(self.strategy, self.shedding, self.pulsar_version)

    def shedder(self) -> Shedder:
        """The strategy with its settings. Raises the same SettingsError as `chosen`."""
        return self.entry.build(self.chosen, self.weights, self.mode, self.pulsar_version)


def placement_of(settings: EngineSettings) -> tuple[str, object | None]:
    """Name and settings of the placement in use; `none` has no settings. Raises SettingsError for
    an unknown strategy.
    """
    name = settings.entry.placement if settings.placement == "auto" else settings.placement
    name = paired(name, settings.entry.pulsar_class, settings.mode, settings.pulsar_version)
    entry = PLACERS.get(name)
    return (
        name,
        settings.placing if settings.placing is not None or entry is None else entry.settings(),
    )


def rules_of(settings: EngineSettings) -> Rules:
    """The rules of every round. Raises SettingsError for unknown names, invalid windows and
    capacities, and limits under which no clock can be judged.
    """
    check_clock(settings.round)
    entry, filters = settings.entry, settings.filters
    if filters.load_manager == "auto":
        filters = replace(filters, load_manager=entry.load_manager)
    if filters.distribute_evenly == "auto":
        evenly = entry.distributes_evenly and EVENLY.values[settings.pulsar_version]
        filters = replace(filters, distribute_evenly=evenly)
    name, placing = placement_of(settings)
    places = (
        None if name == "none" else placer(name, placing, settings.mode, settings.pulsar_version)
    )
    destinations = DestinationRules(
        places,
        Filters(filters, settings.mode),
        settings.destinations,
        settings.weights,
        balances_usage=entry.balances == "usage",
        drain_placer=EmptiestBroker()
        if settings.placement == "auto" and places is None
        else places,
    )
    return Rules(
        settings.strategy,
        settings.mode,
        MODE_RULES[settings.mode],
        settings.round,
        settings.version,
        destinations,
        entry.usage(settings.chosen, settings.weights, settings.mode),
        settings.limits,
        read_windows(settings.limits.windows, "limits.windows"),
        settings.splitting,
        settings.throttling,
        settings.drains,
        settings.rivals,
        isolation_by_id=matches_ids(settings.pulsar_version),
        capacities=read_capacities(settings.capacities),
    )


class Engine:
    """Folds records into events; holds settings only. Raises SettingsError for settings that
    contradict each other.
    """

    def __init__(
        self,
        settings: EngineSettings,
        on_raised: Callable[[str, Exception], None] = lambda _text, _error: None,
    ) -> None:
        """`on_raised`: gets what a rule raises, with its sentence, for a log."""
        self._on_raised = on_raised
        self._settings = settings.round
        self._shedder = settings.shedder()
        self._rules = rules_of(settings)
        self._bulkhead = settings.bulkhead
        #: Whether moves that nothing shows are taken back at the end of a warm start.
        self.takes_back = settings.entry.memory(settings.chosen).judges_moves
        self._start = StartFold(self._settings.max_clock_jump_ms, self._fold_timed)

    def gate(self, store: StateStore) -> QuotaGate:
        """The quota of the store's cluster; records that it does not admit are not to be folded."""
        return QuotaGate(self._bulkhead, store)

    def fold(self, record: TelemetryRecord, store: StateStore) -> list[Event]:
        """Events of one record of the store's cluster; the commands of a round come right before
        the record of the round. A record or a round for which a rule raises changes nothing, and
        says so.

        A repeated record has no events, because brokers and publishers may send the same record
        twice.
        """
        if isinstance(record, Note):
            return []
        changes = RecordChanges(store)
        try:
            events = self._fold(record, changes)
        except NOT_OF_RULES:
            raise
        except Exception as error:  # whatever a rule raises concerns this record only
            return [Rejection(RAISED, self._raised(error), record)]
        changes.apply()
        return [
            event
            for event in events
            if not (isinstance(event, Rejection) and event.code == REPEATED)
        ]

    def _fold(self, record: TelemetryRecord, store: StateStore) -> list[Event]:
        state = store.get_cluster()
        if isinstance(record, Intent):
            return self._keep(fold_intent(record, state, store.brokers(), self._rules), store)
        if isinstance(record, Owned):
            state = keep_owned(record, state, store, self._settings.max_clock_jump_ms)
            return self._keep((state, []), store)
        if state.early is None:
            return self._fold_timed(record, state, store)
        events = self._start.fold(record, state, state.early, store)
        state = store.get_cluster()
        if state.early is None and state.intents.early:
            events += self._keep(fold_early(state, store, self._rules), store)
        return events

    @staticmethod
    def _keep(folded: tuple[ClusterState, list[Rejection]], store: StateStore) -> list[Event]:
        store.put_cluster(folded[0])
        return [*folded[1]]

    def _fold_timed(
        self, record: TelemetryRecord, state: ClusterState, store: StateStore
    ) -> list[Event]:
        clock = state.clock
        assert clock is not None
        settings = self._settings
        if isinstance(record, Sweep) and went_back(record, state, store, settings):
            return set_back(record, state, clock, store)
        away = is_away(clock, record.ts, settings)
        record, state, verdict = timed(record, state, clock, store, settings)
        judged = state.clock
        assert judged is not None
        if verdict in ("ahead", "behind"):
            store.put_cluster(state)
            return [clock_rejection(record, clock.now_ms, verdict)]
        if verdict == "moved-back":
            state = forget_everything_timed(state, judged, store)
        if verdict == "moved-on" and away:
            state = begin_again(state, judged.now_ms, store)
        before = state.sweep_at_ms
        state, rejection = apply_record(record, state, store)
        if rejection is not None:
            store.put_cluster(state)
            return [rejection]
        closed_by = _due(record, state, judged.now_ms, settings)
        if closed_by is None or (
            closed_by != "sweep" and state.early is not None and not is_sure(state.early)
        ):
            store.put_cluster(state)
            return []
        return self._close(closed_by, record, before, state, store)

    def _close(
        self,
        closed_by: ClosedBy,
        record: TelemetryRecord,
        last_sweep_ms: int,
        state: ClusterState,
        store: StateStore,
    ) -> list[Event]:
        now_ms = record.ts if state.clock is None else state.clock.now_ms
        brokers = sorted(store.brokers(), key=lambda broker: broker.order)
        heard = {
            name
            for name, stray in state.strays.items()
            if stray.heard_ms >= now_ms - self._settings.stale_after_ms
        }
        gone = self._gone(brokers, record, last_sweep_ms, now_ms, heard)
        for broker in brokers:
            if broker.broker in gone:
                state = depart(broker.broker, state, store)
        listed = {*record.brokers, *record.missing} if isinstance(record, Sweep) else None
        state, noted = forget_owned(state, listed, store)
        state = _without_expired(state, now_ms, self._rules, noted)
        # Averages of bundles may have moved from removed brokers to others.
        known = tuple(sorted(store.brokers(), key=lambda broker: broker.order) if gone else brokers)
        state = counted(
            state,
            {broker.broker: newest_report_ms(broker) for broker in known},
            now_ms,
            self._settings,
        )
        intents = without_passed(state.intents, now_ms)
        given = RoundInput(
            cluster=record.cluster,
            number=state.round + 1,
            now_ms=now_ms,
            closed_by=closed_by,
            brokers=known,
            missing=state.missing,
            read_table=store.get_table,
            cooling={
                **resting(state.rivals, now_ms, self._settings.cool_down_ms),
                **state.cooling,
            },
            in_flight=moves_under_way(state, now_ms),
            gained=state.gained,
            memory=state.memory,
            departed=state.departed,
            policies=state.policies,
            spent=state.spent,
            advised=state.advised,
            strays=state.strays,
            intents=intents,
            orders=state.orders,
            expired=expired_moves(state, now_ms),
            rivals=state.rivals,
            owned=owned_by(intents.drains, store),
            listed=listed,
            gone=state.gone,
            pauses=state.pauses,
            left_out=state.bulkhead.left_out,
        )
        result = self._run(given)
        _remember(result.memory, known, store)
        counted_in = len(known) if given.left_out else 0
        store.put_cluster(_after_round(state, result, now_ms, counted_in))
        return [*result.commands, result.round]

    def _run(self, given: RoundInput) -> RoundResult:
        if given.left_out:
            text = f"records beyond its quota since the last round: {given.left_out:,}"
            return undecided(given, self._rules, OVER_QUOTA, text)
        try:
            result = run_round(given, self._shedder, self._rules)
            check_plain(result)
            return result
        except NOT_OF_RULES:
            raise
        except Exception as error:  # the next round tries again
            text = f"a rule failed: {self._raised(error)}"
            return undecided(given, self._rules, RAISED, text)

    def _raised(self, error: Exception) -> str:
        text = raised_text(error)
        self._on_raised(text, error)
        return text

    def _gone(
        self,
        brokers: Sequence[BrokerState],
        record: TelemetryRecord,
        last_sweep_ms: int,
        now_ms: int,
        heard: Set[str],
    ) -> set[str]:
        """Brokers that neither the sweep lists nor that reported in this pass, and brokers without
        a report for a very long time.

        `heard`: brokers that report, with a clock that is not believed.
        """
        silent_since_ms = now_ms - _STALE_TIMES_TO_FORGET * self._settings.stale_after_ms
        gone = {
            broker.broker for broker in brokers if newest_report_ms(broker) < silent_since_ms
        } - heard
        if isinstance(record, Sweep):
            listed = {*record.brokers, *record.missing}
            gone |= {
                broker.broker
                for broker in brokers
                if broker.broker not in listed and newest_report_ms(broker) <= last_sweep_ms
            }
        return gone


def _due(
    record: TelemetryRecord, state: ClusterState, now_ms: int, settings: RoundSettings
) -> ClosedBy | None:
    """The condition that closes the open round at this record; None while it stays open."""
    passed = now_ms - state.round_at_ms
    if isinstance(record, Sweep) and (state.round == 0 or passed * 4 >= settings.interval_ms * 3):
        return "sweep"
    if passed >= settings.interval_ms + settings.lateness_ms:
        return "lateness"
    sweeping = state.sweep_at_ms >= 0 and now_ms - state.sweep_at_ms <= 2 * settings.interval_ms
    if not sweeping and passed >= settings.interval_ms and 0 < state.reported >= state.live:
        return "all-reported"
    return None


def _after_round(state: ClusterState, result: RoundResult, now_ms: int, known: int) -> ClusterState:
    """`known`: brokers that a round counts which was set aside: the next quota is for them."""
    return replace(
        after_commands(state, result, now_ms),
        round=result.round.round,
        round_at_ms=now_ms,
        live=len(result.round.brokers) if result.decided else max(state.live, known),
        reported=0,
        memory=result.memory.cluster,
        intents=result.intents,
        bulkhead=state.bulkhead.after_round,
    )


def _without_expired(
    state: ClusterState, now_ms: int, rules: Rules, noted: Set[str]
) -> ClusterState:
    """The state without expired entries. A bundle whose move is exactly the cool-down ago still
    rests (as in ModularLoadManagerImpl). `noted`: brokers that left and whose notes are kept.
    """
    oldest, settings = state.round - _ROUNDS_TO_WAIT, rules.round
    under_way = moves_under_way(state, now_ms)
    cooling = {
        bundle: since
        for bundle, since in state.cooling.items()
        if since >= now_ms - settings.cool_down_ms
    }
    state = replace(
        state,
        # The outcome of a command that was not carried out in time arrives after its expiry and
        # must still find the move.
        in_flight={
            bundle: move
            for bundle, move in state.in_flight.items()
            if bundle in under_way or move.issued_at_ms >= now_ms - settings.cool_down_ms
        },
        cooling=cooling,
        departed={bundle: gone for bundle, gone in state.departed.items() if gone.round > oldest},
        gained={bundle: gain for bundle, gain in state.gained.items() if gain.round > oldest},
        spent=within_the_hour(state.spent, now_ms),
        advised={
            bundle: since
            for bundle, since in state.advised.items()
            if since > now_ms - rules.throttling.repeat_ms
        },
        # A report of an older time than this is rejected in any case; a note goes with its entry.
        gone={
            broker: ts
            for broker, ts in state.gone.items()
            if ts >= now_ms - settings.max_clock_jump_ms or broker in noted
        },
        intents=forget_old(state.intents, now_ms, settings.max_clock_jump_ms),
        rivals=judged(state.rivals, now_ms, rules.rivals, settings.cool_down_ms),
    )
    return without_settled(state, now_ms)


def _remember(memory: Memory, brokers: tuple[BrokerState, ...], store: StateStore) -> None:
    """Stores the memory of the brokers for which it changed."""
    for broker in brokers:
        remembered = memory.brokers.get(broker.broker, NO_MEMORY)
        if remembered != broker.memory:
            store.put_broker(replace(broker, memory=remembered))
