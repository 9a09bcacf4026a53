"""What the processes hold after months besides the state of clusters: connections, answers,
viewers. Each field that can grow says by what it is bounded; a new one without a bound fails here.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Barrier, Thread
from typing import cast

import pytest

from sinks.executor.gate import MoveGate, _Recent
from sinks.pulsar_api.access import PulsarSettings
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.answers import Unanswered
from sinks.pulsar_api.freezes import MOST_STUCK, FrozenReports
from sinks.pulsar_api.http import MOST_ADDRESSES, PulsarHttp
from sinks.topics.files.topic import FileTopicReader, FileTopicWriter
from strategies.errors import SinkError
from strategies.executor.gate_and_breaker import GateRules

ROOT = Path(__file__).parents[2]
#: Packages whose objects live as long as a process.
PLACES = (
    "sinks/topics",
    "sinks/executor",
    "sinks/collector",
    "sinks/pulsar_api",
    "sinks/metrics",
    "sinks/notices",
    "pulsar_rebalancer/serve",
    "pulsar_rebalancer/decisions/live",
    "pulsar_rebalancer/decisions/notices",
    "pulsar_rebalancer/cli/collect",
    "pulsar_rebalancer/cli/roll",
    "pulsar_rebalancer/watch",
    "streaming",
)
GROWING = frozenset({"dict", "list", "set", "deque", "defaultdict", "Counter"})

CALL = "one call, pass or micro-batch: the next one begins without it"
LISTED = "brokers that the cluster lists"
PARTITIONS = "partitions of one topic"
SETTINGS = "what the settings name"
UNCONFIRMED = "records that are not committed or confirmed; more are not read or written before"
STATE = "clusters of a shard, without what vanished ones had; tests/unit/test_bounded_state.py"
ROUNDS = "commands and outcomes of the rounds that the page keeps"
BOUNDS: Mapping[str, str] = {
    "pulsar_rebalancer/decisions/live/fold.py LiveFold._clusters": "MOST_CLUSTERS",
    "pulsar_rebalancer/decisions/live/fold.py _ClusterFold.answers": "MOST_APPROVALS",
    "pulsar_rebalancer/decisions/live/fold.py _ClusterFold.approvals": "MOST_APPROVALS",
    "pulsar_rebalancer/decisions/live/fold.py _ClusterFold.commands": f"{ROUNDS}, MOST_COMMANDS",
    "pulsar_rebalancer/decisions/live/fold.py _ClusterFold.digests": f"{ROUNDS}, MOST_COMMANDS",
    "pulsar_rebalancer/decisions/live/fold.py _ClusterFold.outcomes": f"{ROUNDS}, MOST_OUTCOMES",
    "pulsar_rebalancer/decisions/live/fold.py _ClusterFold.rejected": "MOST_CODES",
    "pulsar_rebalancer/decisions/live/fold.py _ClusterFold.rounds": "the setting of the page",
    "pulsar_rebalancer/decisions/live/follow.py LiveTopics._health": SETTINGS,
    "pulsar_rebalancer/decisions/live/follow.py LiveTopics._keys": "kinds of topics",
    "pulsar_rebalancer/decisions/live/snapshot.py OnceMade._made": "kinds of documents",
    "pulsar_rebalancer/cli/collect/changes.py Changes._silent": LISTED,
    "pulsar_rebalancer/cli/collect/changes.py Changes._written": LISTED,
    "pulsar_rebalancer/cli/roll/observe.py ClusterObserver._unowned": "bundles of one roll",
    "pulsar_rebalancer/cli/roll/process.py RestartCommands.running": "brokers of one roll",
    "pulsar_rebalancer/watch/follow.py WatchScreen._intents": "clusters of one watch",
    "pulsar_rebalancer/watch/follow.py WatchScreen._said": "clusters of one watch",
    "pulsar_rebalancer/serve/app.py LivePage.assets": "files of the page",
    "pulsar_rebalancer/serve/deciding.py DecisionPublisher.published": "plans that still wait",
    "pulsar_rebalancer/serve/signing_in.py FailureLimit._failed": "_MOST_ADDRESSES",
    "pulsar_rebalancer/serve/signing_in.py Sessions._open": "_MOST_SESSIONS",
    "pulsar_rebalancer/serve/app.py ViewerNews._waiting": "MOST_VIEWERS",
    "sinks/collector/broker_poll.py BrokerPoll._failures": LISTED,
    "sinks/collector/broker_poll.py OwnerPoll._owner": "bundles of the last turn",
    "sinks/collector/broker_poll.py OwnerPoll._published": LISTED,
    "sinks/collector/extensible_poll.py ExtensiblePoll._newest": LISTED,
    "sinks/collector/extensible_poll.py LoadTopics._arrived": CALL,
    "sinks/collector/extensible_poll.py LoadTopics._threads": "the two load topics",
    "sinks/executor/costs.py WaveFigures._asked": "brokers of one wave of moves",
    "sinks/executor/executor.py Executor.applying": "commands that are carried out now",
    "sinks/executor/gate.py MoveGate._lost_at": "brokers that left within executor.settle_ms",
    "sinks/executor/gate.py _Recent._answers": "answers that are young enough to be used",
    "sinks/executor/gate.py _Recent._asking": "the same, and questions that are asked now",
    "sinks/executor/guard.py Breaker._results": "KEPT",
    "sinks/executor/guard.py UnownedBundles._looked_at": "looks of the last _LOOK_AGAIN_S",
    "sinks/executor/tasks.py Intake._waiting": "executor.at_once",
    "sinks/executor/guard.py RateLimiter._begun": "moves of a minute, executor.per_minute",
    "sinks/metrics/services.py CollectorMetrics._codes": SETTINGS,
    "sinks/metrics/services.py ExecutorMetrics._of": "the table of metrics",
    "sinks/metrics/exposition.py BoundedLabel._known": "its limit",
    "sinks/pulsar_api/freezes.py FrozenReports._frozen": "MOST_STUCK",
    "sinks/pulsar_api/freezes.py FrozenReports._stuck_since": "MOST_STUCK",
    "sinks/pulsar_api/http.py PulsarHttp._pools": "MOST_ADDRESSES",
    "sinks/topics/epochs.py History._contents": CALL,
    "sinks/topics/epochs.py History.seen": CALL,
    "sinks/topics/files/consumer.py FileConsumer._behind": UNCONFIRMED,
    "sinks/topics/files/topic.py FileTopicWriter._waiting": UNCONFIRMED,
    "sinks/topics/kafka/errors.py _ConnectionErrors._reasons": CALL,
    "sinks/topics/kafka/topic.py KafkaPublisher._sent": UNCONFIRMED,
    "sinks/topics/kafka/topic.py KafkaTopicConsumer._handed": UNCONFIRMED,
    "sinks/topics/kafka/topic.py KafkaTopicConsumer._partitions": PARTITIONS,
    "sinks/topics/outages.py PulsarProbe._readers": PARTITIONS,
    "sinks/topics/pulsar/topic.py PulsarPublisher._failed": UNCONFIRMED,
    "sinks/topics/pulsar/topic.py PulsarReader._ends": PARTITIONS,
    "sinks/topics/pulsar/topic.py PulsarReader._readers": PARTITIONS,
    "sinks/topics/pulsar/topic.py PulsarTopicConsumer._consumers": PARTITIONS,
    "sinks/topics/pulsar/topic.py PulsarTopicConsumer._handed": UNCONFIRMED,
    "sinks/topics/pulsar/topic.py PulsarTopicConsumer._newest": PARTITIONS,
    "sinks/topics/readable.py Skipped.reasons": CALL,
    "sinks/topics/readable.py _Reason.places": "_PLACES",
    "streaming/job_metrics.py RoundMetrics._brokers": "a hundred clusters with metrics",
    "streaming/job_metrics.py RoundMetrics._codes": "a hundred clusters with metrics",
    "streaming/large_records.py LargeRecords._kept": CALL,
    "streaming/outputs/facts.py BatchTally._clusters": CALL,
    "streaming/outputs/facts.py BatchTally._rejected": CALL,
    "streaming/outputs/facts.py BatchTally._vanished": CALL,
    "streaming/job_metrics.py RoundMetrics._counters": "metrics of rounds",
    "streaming/job_metrics.py RoundMetrics._gauges": "metrics of rounds",
    "streaming/job_metrics.py RoundMetrics._forecasts": "metrics of rounds",
    "streaming/outputs/output.py KafkaOutput._options": SETTINGS,
    "streaming/processor.py FoldNotes.brokers": CALL,
    "streaming/sources/files.py FileTopicStream._cuts": CALL,
    "streaming/sources/pulsar_plan.py PulsarPlanner._ahead": CALL,
    "streaming/sources/pulsar_plan.py PulsarPlanner._names": PARTITIONS,
    "streaming/sources/pulsar_plan.py PulsarPlanner._newest": PARTITIONS,
    "streaming/sources/pulsar_plan.py PulsarPlanner._read_to": PARTITIONS,
    "streaming/sources/pulsar_plan.py PulsarPlanner._readers": PARTITIONS,
    "streaming/sources/pulsar_plan.py PulsarPlanner._stop_at": PARTITIONS,
    "streaming/checkpoint_state/reader.py MemoryVariable.rows": CALL,
    "streaming/state/compacted_log.py CompactedLog._items": "items of the log, and as many again",
    "streaming/state/compacted_log.py CompactedLog._names": "items of the log, and as many again",
    "streaming/state/compacted_log.py CompactedLog._newest": "items of the log, and as many again",
    "streaming/state/compacted_log.py CompactedLog._newest_values": "items of the log",
    "streaming/state/compacted_log.py CompactedLog._where": "items of the log, and as many again",
    "streaming/state/compacted_log.py CompactedLog.values": STATE,
    "streaming/checkpoint_state/reader.py CheckpointState.brokers": CALL,
    "streaming/checkpoint_state/reader.py CheckpointState.forgotten": CALL,
    "streaming/state/store.py ShardStore._open": CALL,
    "streaming/state/store.py ShardStore._read": STATE,
    "streaming/state/store.py SparkStore.changed_brokers": CALL,
    "streaming/state/store.py SparkStore.changed_tables": CALL,
    "streaming/state/store.py StoreCache._sizes": "the bytes of the cache; one shard at least",
    "streaming/state/store.py StoreCache._stores": "the bytes of the cache; one shard at least",
    "streaming/warm_start.py Used.rounds": CALL,
}


def growing() -> Iterator[str]:
    """The fields of these packages that begin as something that grows, as `file class.field`."""
    for place in PLACES:
        for file in sorted((ROOT / place).rglob("*.py")):
            tree = ast.parse(file.read_text("utf-8"))
            kinds = GROWING - set(_of_prometheus(tree))
            for one in ast.walk(tree):
                if isinstance(one, ast.ClassDef) and not _is_value(one):
                    fields = dict.fromkeys(_fields(one, kinds))
                    yield from (f"{file.relative_to(ROOT)} {one.name}.{name}" for name in fields)


def _of_prometheus(tree: ast.Module) -> Iterator[str]:
    for one in ast.walk(tree):
        if isinstance(one, ast.ImportFrom) and one.module == "prometheus_client":
            yield from (name.name for name in one.names)


def _is_value(one: ast.ClassDef) -> bool:
    """Records are made, passed on and dropped."""
    return any("Struct" in ast.unparse(base) for base in one.bases) or any(
        isinstance(base, ast.Name) and base.id.startswith("_Round") for base in one.bases
    )


def _fields(one: ast.ClassDef, kinds: frozenset[str] | set[str]) -> Iterator[str]:
    for node in ast.walk(one):
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        hint = _kind(node.annotation) if isinstance(node, ast.AnnAssign) else ""
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for part, value in _pairs(target, node.value):
                name = _name(part, node in one.body)
                if name and {hint, _kind(value)} & kinds:
                    yield name


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


def _name(target: ast.expr, of_class: bool) -> str:
    if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
        return target.attr
    return target.id if of_class and isinstance(target, ast.Name) else ""


def _kind(value: ast.expr | None) -> str:
    match value:
        case ast.Subscript() | ast.Call():
            return _kind(value.value if isinstance(value, ast.Subscript) else value.func)
        case ast.Name():
            return value.id
        case ast.Dict() | ast.DictComp():
            return "dict"
        case ast.List() | ast.ListComp():
            return "list"
        case ast.Set() | ast.SetComp():
            return "set"
    return ""


@pytest.mark.heavy
def test_every_field_that_grows_says_by_what_it_is_bounded() -> None:
    assert sorted(set(growing()) - BOUNDS.keys()) == []
    assert sorted(BOUNDS.keys() - set(growing())) == []


class Stuck:
    """An admin client of brokers that answer, and finish no read of metadata."""

    def load_report(self, broker: str) -> bytes:
        raise Unanswered(f"{broker} does not answer")

    def version(self, _broker: str) -> str:
        return "4.0"

    def read_metadata(self, broker: str) -> bytes:
        raise Unanswered(f"{broker} does not answer")


def test_answers_of_brokers_that_left_are_forgotten() -> None:
    now = 0.0
    recent = _Recent[str](1.0, lambda: now)
    for number in range(1_000):
        now += 0.5
        assert recent.get(f"b{number}", lambda: "reads") == "reads"
    assert len(recent._answers) <= 4
    assert len(recent._asking) <= 4


def test_threads_that_ask_at_the_same_time_still_share_answers() -> None:
    asked, start = [], Barrier(8)
    recent = _Recent[str](60.0, lambda: 0.0)

    def ask() -> str:
        asked.append(1)
        return "reads"

    def look() -> None:
        start.wait(10)
        for number in range(50):
            assert recent.get(f"b{number}", ask) == "reads"

    threads = [Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(asked) == 50


def test_lost_brokers_are_forgotten_when_they_no_longer_hold_moves_back() -> None:
    now = 0.0
    rules = GateRules(facts_ms=0, settle_ms=60_000)
    gate = MoveGate(cast(PulsarAdmin, Stuck()), rules, lambda: now)
    for number in range(1_000):
        now += 30.0
        gate.saw([f"b{number}", "stays"])
        objection = gate.objection()
        assert (objection is None) == (number == 0)
    assert len(gate._lost_at) <= 3


def test_connections_to_brokers_that_left_are_closed() -> None:
    settings = PulsarSettings(cluster="c", admin_urls="http://leader:8080")
    client = PulsarHttp(settings, frozenset)
    for number in range(MOST_ADDRESSES + 50):
        client._pool(f"http://b{number}:8080/admin")
        assert client._pool("http://leader:8080/admin") is client._pool("http://leader:8080/x")
    assert len(client._pools) == MOST_ADDRESSES
    assert "leader:8080" in client._pools
    assert "b0:8080" not in client._pools
    client.close()


def test_brokers_that_left_while_they_were_stuck_are_forgotten() -> None:
    reports = FrozenReports(cast(PulsarAdmin, Stuck()))
    for number in range(MOST_STUCK + 20):
        with pytest.raises(Unanswered):
            reports.load_report(f"b{number}")
    assert len(reports._stuck_since) == MOST_STUCK


def test_records_that_could_not_be_written_are_no_longer_the_publishers(tmp_path: Path) -> None:
    """Who gets an error publishes all of them again."""
    folder, aside = tmp_path / "topic", tmp_path / "aside"
    publisher = FileTopicWriter(folder, sync=True)
    folder.rename(aside)
    for _ in range(3):
        publisher.publish("c", b"one")
        with pytest.raises(SinkError):
            publisher.flush()
    aside.rename(folder)
    publisher.publish("c", b"one")
    publisher.flush()
    publisher.close()
    assert [record.value for record in FileTopicReader(folder).read()[0]] == [b"one"]
