"""Shows what the next round would do with intents before they are written: folds the newest
telemetry of a cluster as the job does, and closes a round now. Publishes nothing.

The fold is shorter than the memory of the job (decision 0255). So what it decides on the way does
not count: the job's own commands, outcomes and intents, from its topics, take that place.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pulsar_rebalancer.decisions.intents import IntentError
from pulsar_rebalancer.decisions.log import DecisionLog, read_topics, usable_key
from sinks.topics.open_topics import records_of
from sinks.topics.topic_settings import Connections
from sinks.wire.record_decoding import decode, peek
from sinks.wire.signing_keys import signing_key
from strategies.bundles import bundles_of_topic, is_system_bundle, namespace_and_topic, namespace_of
from strategies.cluster.budget import HOUR_MS, Spent
from strategies.cluster.cluster_state import ClusterState, InFlight, InMemoryStore, Order
from strategies.cluster.intent_records_and_states import Intent, IntentStatus, status_of_refused
from strategies.cluster.model import (
    BrokerLoad,
    ClusterView,
    Command,
    Rejection,
    Round,
    TelemetryRecord,
)
from strategies.cluster.move_cost import expected_pause_ms
from strategies.cluster.remembered_intents import intents_of_statuses
from strategies.cluster.store_changes import StoreChanges
from strategies.errors import WireError
from strategies.figures.texts_of_counts_names_and_ages import age
from strategies.figures.usage_after_moves import share_of_traffic
from strategies.fold.children_of_asked_splits import children_of
from strategies.fold.close_round import RoundCloser
from strategies.fold.engine import Engine, EngineSettings, rules_of
from strategies.fold.load_reports import fold_intent
from strategies.fold.outcomes import add_pause
from strategies.fold.rule_errors import raised_text
from strategies.round.participating_brokers import screen, view_of
from strategies.round.round_input_and_digest import RoundInput, Rules
from strategies.splitting.cut_by_traffic import shares_of
from strategies.states_and_advice_of_codes import NOTHING

#: Telemetry before the newest round that is read: unchanged policies are published every 15 minutes
#: (`collector.policies_repeat_ms`), and averages of bundles reach back ten rounds.
_LEAST_MS, _ROUNDS = 20 * 60_000, 12
#: Age (ms) of the oldest commands and outcomes that are read, for the pauses that moves have cost.
_COSTS_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class PresentBundle:
    """A bundle in the newest report of its broker. `rate`: messages/s, `throughput`: bytes/s, both
    in + out, averages of the last rounds; `sessions`: producers + consumers.
    """

    name: str
    broker: str
    topics: int
    sessions: int
    rate: float
    throughput: float
    #: Expected pause of its clients by what moves have cost.
    pause_ms: float


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the next round would do with an intent. `status`: as that round would publish it: text
    and advice say why there is no command; `command`: None if there is none; `bundle`: None if no
    report lists it.
    """

    intent: Intent
    status: IntentStatus
    command: Command | None
    bundle: PresentBundle | None
    #: Of a split, if its topics and the hashes at which it is cut are known: child → the part (0–1)
    #: of the bundle's traffic that it is to carry.
    shares: Mapping[str, float] = field(default_factory=dict)
    #: Of a split whose children are to leave: what the next round would do with the whole bundle.
    #: What objects to it objects to each child, but for its size.
    children: "Proposal | None" = None

    @property
    def as_shown(self) -> Intent:
        """The intent, of a move to the destination of its command: what is shown is what happens,
        or the bundle stays with a reason.
        """
        if self.command is None or not self.command.is_move:
            return self.intent
        return replace(self.intent, broker=self.command.destination)


@dataclass(frozen=True, slots=True)
class PresentCluster:
    """A cluster as the next round will find it. `bundles`: by name, of brokers with fresh figures,
    without Pulsar's own.
    """

    newest: Round
    #: Strategy and mode of the settings by which it decides, as `Round.strategy`.
    strategy: str
    bundles: Mapping[str, PresentBundle]
    #: Number of moves whose pauses were measured.
    measured: int
    _store: InMemoryStore
    _rules: Rules
    _closer: RoundCloser

    def preview(self, intents: Sequence[Intent]) -> list[Proposal]:
        """What the next round would do with these intents together, in their order; the cluster
        stays as it is. A command belongs to the intent that `evidence["intent"]` names.
        """
        store, rejections = StoreChanges(self._store), list[Rejection]()
        for intent in intents:
            rejections += fold_intent(intent, store, self._rules)
        *decided, done = self._closer.close(self.newest.cluster, "lateness", None, store)
        assert isinstance(done, Round)
        statuses = {
            one.record.id: status_of_refused(
                one.record, one.record.ts, text=f"{one.text} [{one.code}]", advice=NOTHING
            )
            for one in rejections
            if isinstance(one.record, Intent)
        } | {one.id: one for one in done.intents}
        commands = {one.evidence.get("intent"): one for one in decided if isinstance(one, Command)}
        asked, topics = store.get_cluster().intents.asked, self._store.get_cluster().topics
        shares = {
            bundle: shares_of(topics[bundle], children_of(one))
            for bundle, one in asked.items()
            if one.action == "split" and bundle in topics
        }
        wholes = {  # a move of the whole bundle, where children of a split are to leave
            one.id: replace(one, action="move", positions=(), moves_children=False)
            for one in intents
            if one.moves_children
        }
        return [
            Proposal(
                one,
                statuses[one.id],
                commands.get(one.id),
                self.bundles.get(one.bundle or ""),
                shares.get(one.bundle or "", {}),
                self.preview([wholes[one.id]])[0] if one.id in wholes else None,
            )
            for one in intents
        ]

    def bundle_named(self, word: str) -> str:
        """The only bundle that a name means. Raises IntentError as `bundles_named`, and if it means
        several.
        """
        bundle, *others = self.bundles_named(word)
        if others:
            raise IntentError(
                f"{word} has {1 + len(others)} bundles: name one of them; to move all: rebalancer "
                f"unload {word}"
            )
        return bundle

    def bundles_named(self, word: str) -> list[str]:
        """The bundles that a name means, by range: a bundle itself, all of a namespace, or that of
        a topic, which need not exist. Raises IntentError for what no report lists, and for what is
        Pulsar's own.
        """
        name, topic = word.rpartition("://")[2], namespace_and_topic(word)
        if is_system_bundle(name) or is_system_bundle(f"{name}/"):
            raise IntentError(f"{word} belongs to Pulsar and never moves [system-bundle].")
        found = sorted(one for one in self.bundles if word in (one, namespace_of(one)))
        if topic is not None and not found:
            found = bundles_of_topic(*topic, self.bundles)
        if not found:
            raise IntentError(
                f"{word}: the newest report of no broker lists such a bundle, namespace or bundle "
                "of such a topic. Check the name with `pulsar-admin namespaces bundles` or "
                "`pulsar-admin topics bundle-range`; brokers of the extensible load manager report "
                "their busiest bundles only, and others cannot be moved by hand."
            )
        return found


def read_present(
    connections: Connections, engine: EngineSettings, newest: Round, now_ms: int
) -> PresentCluster:
    """Reads the last minutes of a cluster's telemetry, and the commands and outcomes of a day.
    `newest`: its newest round; `now_ms`: since the epoch. Raises IntentError if the telemetry is
    too short or too old, SettingsError, SinkError.
    """
    cluster, store, fold = newest.cluster, InMemoryStore(), Engine(engine)
    window_ms = max(_LEAST_MS, _ROUNDS * engine.round.interval_ms)
    for record in _telemetry(connections, cluster, min(now_ms, newest.ts) - window_ms):
        fold.fold(record, store)
    state = store.get_cluster()
    if not state.round:
        raise IntentError(
            f"the telemetry of {cluster} from the last {age(window_ms)} closes no round, so "
            "nothing can be shown. Wait for the second round of a new installation; otherwise "
            "check with `rebalancer doctor` that topics.telemetry here is the job's."
        )
    if now_ms - state.now_ms > engine.round.max_clock_jump_ms:
        raise IntentError(
            f"the newest telemetry of {cluster} is {age(now_ms - state.now_ms)} old, so the "
            "cluster may look different now. Check with `rebalancer doctor` that `rebalancer "
            "collect` runs."
        )
    log = read_topics(
        connections,
        ("commands", "outcomes"),
        {"commands": usable_key(connections.signing, signing_key)},
        max(0, now_ms - _COSTS_MS),
    ).of(cluster)
    rules = rules_of(engine)
    state = replace(state, in_flight={}, orders={}, spent=(), rehearsed={})
    view = _view(cluster, state, store, rules)
    for one in log.outcomes:
        if one.cluster == cluster and one.status == "applied":
            pauses = add_pause(state.pauses, one.ts, one.command_id, one.cost)
            state = replace(state, pauses=pauses)
    bundles = {one.name: one for load in view.brokers for one in _bundles_of(load, state)}
    state = _with_commands(state, log, view, bundles)
    store.put_cluster(replace(state, intents=intents_of_statuses(newest.intents)))
    closer = RoundCloser(engine.shedder(), rules, raised_text)
    strategy = f"{engine.strategy}/{engine.mode}"
    return PresentCluster(newest, strategy, bundles, len(state.pauses), store, rules, closer)


def _telemetry(connections: Connections, cluster: str, since_ms: int) -> Iterator[TelemetryRecord]:
    """The records of a cluster since that time, without intents: the newest round has them."""
    limits, source = connections.wire, connections.source
    topic, since_ms = connections.topics.telemetry, max(0, since_ms)
    for record in records_of(topic, connections.access, since_ms, source, limits):
        head = peek(record.value)
        if record.unread or head.cluster != cluster or head.ts < since_ms:
            continue
        try:
            found = decode(record.value, b"", limits, cluster=cluster)
        except WireError:
            continue
        if not isinstance(found, Intent):
            yield found


def _view(cluster: str, state: ClusterState, store: InMemoryStore, rules: Rules) -> ClusterView:
    brokers = tuple(sorted(store.brokers(), key=lambda broker: broker.order))
    found = RoundInput(cluster, state, state.now_ms, "lateness", brokers, store.get_table)
    return view_of(found, screen(found, rules).live, rules)


def _bundles_of(load: BrokerLoad, state: ClusterState) -> Iterator[PresentBundle]:
    table = load.bundles
    columns = (table.topics, table.sessions, table.msg_rate, table.msg_throughput)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for name, (topics, sessions, rate, throughput) in zip(table.names, rows, strict=True):
        if not is_system_bundle(name):
            pause_ms = expected_pause_ms(state.pauses, topics)
            yield PresentBundle(name, load.broker, topics, sessions, rate, throughput, pause_ms)


def _with_commands(
    state: ClusterState, log: DecisionLog, view: ClusterView, bundles: Mapping[str, PresentBundle]
) -> ClusterState:
    """The state with the job's commands of the last hour: those that may still be carried out or
    that no report shows yet, and what they took of the budgets.
    """
    loads = {load.broker: load for load in view.brokers}
    flights, orders, spent = dict[str, InFlight](), dict[str, Order](), list[Spent]()
    for one in log.commands:
        outcome, bundle = log.outcome_of(one), bundles.get(one.bundle)
        throughput = 0.0 if bundle is None else bundle.throughput
        status = None if outcome is None else outcome.status
        if one.action == "throttle" or status == "dry-run":
            continue
        flights.pop(one.bundle, None)  # a bundle with a later command has arrived
        if one.is_move and one.issued_at_ms > state.now_ms - HOUR_MS:
            spent.append(Spent(one.issued_at_ms, 1, throughput))
        if one.expires_at_ms <= state.now_ms or status not in (None, "applied"):
            continue
        times = (one.issued_at_ms, one.expires_at_ms)
        if not one.is_move and status is None:
            orders[one.bundle] = Order(one.id, *times, None)
        elif one.is_move and bundle is not None and bundle.broker == one.source:
            share = share_of_traffic(loads[one.source], one.bundle)
            flights[one.bundle] = InFlight(one.id, one.source, one.destination, *times, share)
    return replace(state, in_flight=flights, orders=orders, spent=tuple(spent))
