"""Folds a cluster's telemetry: takes one record, returns the commands and records of rounds. All
changes of a cluster's state by records begin here.

Deterministic: the same records in the same order, with the same settings and version, give equal
events. The engine does not know micro-batches, wall clocks, timers or partitions.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from strategies.cluster.cluster_state import StateStore, quick_replace
from strategies.cluster.intent_records_and_states import Intent
from strategies.cluster.model import (
    REPEATED,
    Event,
    LoadReport,
    Note,
    OutcomeReport,
    Owned,
    Policies,
    Rejection,
    Sweep,
    TelemetryRecord,
    Tombstone,
)
from strategies.cluster.quota import OverQuota, UnreadRecord, admit
from strategies.cluster.store_changes import StoreChanges
from strategies.cluster.topics_of_bundle import TopicsOfBundle
from strategies.dispatch_limits.throttle_advice import AdviceSettings
from strategies.filters.filter_order_and_settings import Filters, FilterSettings
from strategies.fold.close_round import RoundCloser, SweepOfRound, closing_condition
from strategies.fold.first_records_of_log import StartFold
from strategies.fold.foreign_moves import accept_sweep
from strategies.fold.load_reports import (
    accept_report,
    accept_withdrawal,
    fold_early,
    fold_intent,
    keep_note,
    keep_topics,
)
from strategies.fold.outcomes import learn_outcome
from strategies.fold.producer_votes import check_time
from strategies.fold.reason_code_meanings import meanings_of
from strategies.fold.rule_errors import NOT_OF_RULES, RAISED, raised_text
from strategies.java.pulsar_versions_and_defaults import (
    EVENLY,
    MODE_RULES,
    RELEASE_DEFAULTS,
    RELEASES,
    PulsarRelease,
    matches_ids,
)
from strategies.patterns_and_windows import read_windows
from strategies.placement.contract import DestinationRules
from strategies.placement.registry import PLACERS, EmptiestBroker, paired, placer
from strategies.registry import Registry
from strategies.round.round_input_and_digest import CapacitySettings, Rules, read_capacities
from strategies.settings import (
    VERSION,
    BulkheadSettings,
    DestinationSettings,
    DrainSettings,
    LimitSettings,
    Mode,
    RivalSettings,
    RoundSettings,
    Weights,
    check_clock,
)
from strategies.shedding.contract import Shedder, SheddingStrategy
from strategies.shedding.registry import DEFAULT, SHEDDERS
from strategies.splitting.bundle_limits import SplitSettings

#: A record above this size leaves a window in the state of any cluster that it names.
_LARGE_BYTES = 2**16


@dataclass(frozen=True)
class EngineSettings:
    """All settings that decisions depend on."""

    #: A name in `shedders`.
    strategy: str = DEFAULT
    mode: Mode = "fixed"
    #: Settings of the strategy; None = its defaults.
    shedding: object | None = None
    weights: Weights = Weights()
    round: RoundSettings = RoundSettings()
    version: str = VERSION
    #: A name of the registry of placements; `auto`: the placement that Pulsar uses with the
    #: strategy; `none`: Pulsar chooses the destinations.
    placement: str = "auto"
    #: Settings of the placement; None = its defaults.
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
    #: The Pulsar release whose defaults stand for None and whose rules `parity` mode follows.
    pulsar_version: PulsarRelease = RELEASES[0]
    #: The strategies that `strategy` may name. Not a setting: a program with a strategy of its own
    #: passes an extended registry.
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
        """Builds the strategy with its settings. Raises the same SettingsError as `chosen`."""
        return self.entry.build(self.chosen, self.weights, self.mode, self.pulsar_version)


def placement_of(settings: EngineSettings) -> tuple[str, object | None]:
    """Returns name and settings of the placement in use; `none` has no settings. Raises
    SettingsError for an unknown strategy.
    """
    name = settings.entry.placement if settings.placement == "auto" else settings.placement
    name = paired(name, settings.entry.pulsar_class, settings.mode, settings.pulsar_version)
    entry = PLACERS.get(name)
    return (
        name,
        settings.placing if settings.placing is not None or entry is None else entry.settings(),
    )


def rules_of(settings: EngineSettings) -> Rules:
    """Returns the rules of every round. Raises SettingsError for unknown names, for invalid windows
    and capacities, and where `round.stale_after_ms` is more than `round.max_clock_jump_ms`.
    """
    check_clock(settings.round)
    entry, filters = settings.entry, settings.filters
    if filters.load_manager == "auto":
        filters = replace(filters, load_manager=entry.load_manager)
    if filters.distribute_evenly == "auto":
        evenly = (
            entry.distributes_evenly and RELEASE_DEFAULTS[EVENLY].values[settings.pulsar_version]
        )
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
        meanings_of(entry),
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
        """`on_raised`: called with a sentence and the error when a rule raises one, for a log."""
        self._on_raised = on_raised
        self._rules = rules_of(settings)
        self._closer = RoundCloser(settings.shedder(), self._rules, self._describe_error)
        self._bulkhead = settings.bulkhead
        #: True if the end of a warm start drops moves that neither an outcome nor a report shows.
        self.drops_unconfirmed_moves = settings.entry.memory(settings.chosen).judges_moves
        self._start = StartFold(settings.round.max_clock_jump_ms, self._fold_timed)

    def admits(self, arrival: UnreadRecord, store: StateStore) -> tuple[bool, OverQuota | None]:
        """Counts a record in the cluster's quota. Returns True if it is to be folded, and the
        records over the quota that are to be reported now, see `quota.admit`.

        A cluster without any usable record has no quota until it sends a large record, so records
        with invented names of clusters leave no state.
        """
        state = store.get_cluster()
        unknown = state.clock is None and not state.early and not state.bulkhead.windows
        if unknown and arrival.size <= _LARGE_BYTES:
            return True, None
        bulkhead, admitted, earlier = admit(state.bulkhead, arrival, state.live, self._bulkhead)
        store.put_cluster(quick_replace(state, bulkhead=bulkhead))
        return admitted, earlier

    def fold(self, record: TelemetryRecord, store: StateStore) -> list[Event]:
        """Folds one record of the store's cluster. Returns its events; the commands of a round come
        right before the record of the round. Brokers and publishers may send a record twice: the
        second one has no events.

        If a rule raises an error, the store stays as it was and the event says so: a Rejection for
        a record, a skip for a round. Raises StateVersionError for a state that cannot be read.
        """
        if isinstance(record, Note):
            return []
        changes = StoreChanges(store)
        try:
            events = self._fold(record, changes)
        except NOT_OF_RULES:
            raise
        except Exception as error:  # an error of a rule concerns this record only
            return [Rejection(RAISED, self._describe_error(error), record)]
        changes.apply()
        return [
            event
            for event in events
            if not (isinstance(event, Rejection) and event.code == REPEATED)
        ]

    def _fold(self, record: TelemetryRecord, store: StateStore) -> list[Event]:
        if isinstance(record, Intent):
            return [*fold_intent(record, store, self._rules)]
        if isinstance(record, Owned):
            keep_note(record, store, self._rules.round.max_clock_jump_ms)
            return []
        if isinstance(record, TopicsOfBundle):
            keep_topics(record, store)
            return []
        early = store.get_cluster().early
        if early is None:
            return self._fold_timed(record, store)
        events = self._start.fold(record, early, store)
        if store.get_cluster().early is None:
            events += fold_early(store, self._rules)
        return events

    def _fold_timed(self, record: TelemetryRecord, store: StateStore) -> list[Event]:
        """Checks a record's time, applies it, and closes the round if it is due."""
        record, rejection = check_time(record, store, self._rules.round)
        sweep = None
        if isinstance(record, Sweep):
            listed = frozenset([*record.brokers, *record.missing])
            sweep = SweepOfRound(listed, store.get_cluster().sweep_at_ms)
        if rejection is None:
            rejection = _apply(record, store)
        if rejection is not None:
            return [rejection]
        closed_by = closing_condition(
            store.get_cluster(), self._rules.round, swept=sweep is not None
        )
        if closed_by is None:
            return []
        return self._closer.close(record.cluster, closed_by, sweep, store)

    def _describe_error(self, error: Exception) -> str:
        text = raised_text(error)
        self._on_raised(text, error)
        return text


def _apply(record: TelemetryRecord, store: StateStore) -> Rejection | None:
    """Applies a record whose time is believed; returns its rejection if it cannot be used."""
    match record:
        case LoadReport():
            return accept_report(record, store)
        case Sweep():
            return accept_sweep(record, store)
        case Tombstone():
            accept_withdrawal(record, store)
        case OutcomeReport():
            store.put_cluster(learn_outcome(record, store.get_cluster(), store))
        case Policies():
            store.put_cluster(replace(store.get_cluster(), policies=record.snapshot))
        case Intent() | Owned() | TopicsOfBundle() | Note():  # none of them has a time
            pass
    return None
