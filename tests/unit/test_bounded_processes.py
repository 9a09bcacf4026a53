"""Each field of a long-lived object that can grow says by what it is bounded."""

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from sinks.executor.move_gate_and_holds import MoveGate, _Recent
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.admin_errors import Unanswered
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.pulsar_api.frozen_brokers import MOST_STUCK, FrozenReports
from sinks.topics.files.topic import FileTopicReader, FileTopicWriter
from strategies.errors import SinkError
from strategies.executor.gate_and_breaker import GateRules
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar

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

#: What bounds a field → the fields, each as `class.field`.
BOUNDS: Mapping[str, str] = {
    "MOST_CLUSTERS": "LiveFold._clusters",
    "MOST_APPROVALS": "_ClusterFold.answers _ClusterFold.approvals",
    "commands and outcomes of the rounds that the page keeps; MOST_COMMANDS, MOST_OUTCOMES": """
        _ClusterFold.commands _ClusterFold.digests _ClusterFold.outcomes
    """,
    "MOST_CODES": "_ClusterFold.rejected",
    "the setting of the page": "_ClusterFold.rounds",
    "what the settings name": "CollectorMetrics._codes KafkaOutput._options LiveTopics._health",
    "kinds of topics": "LiveTopics._keys",
    "kinds of documents": "OnceMade._made",
    "brokers that the cluster lists": """
        BrokerPoll._failures Changes._silent Changes._written ExtensiblePoll._newest
        OwnerPoll._published
    """,
    "hot bundles of the last hour": "HotBundleTopics._read_ms",
    "one roll": "ClusterObserver._unowned",
    "brokers of one roll": "RestartCommands.running",
    "clusters of one watch": "WatchScreen._intents WatchScreen._said",
    "files of the page": "LivePage.assets",
    "plans that wait": "DecisionPublisher.published",
    "one cluster": "IntentPublisher._read",
    "_MOST_ADDRESSES": "FailureLimit._failed",
    "_MOST_SESSIONS": "Sessions._open",
    "MOST_VIEWERS": "ViewerNews._waiting",
    "bundles of the last turn": "OwnerPoll._owner",
    "one call, pass or micro-batch: the next one begins without it": """
        BatchTally._clusters BatchTally._rejected BatchTally._vanished CheckpointState.brokers
        CheckpointState.forgotten FileTopicStream._cuts FoldNotes.brokers History._contents
        History.seen LargeRecords._kept LoadTopics._arrived MemoryVariable.rows
        PulsarPlanner._ahead ShardStore._open Skipped.reasons Used.rounds _ConnectionErrors._reasons
    """,
    "the two load topics": "LoadTopics._threads",
    "brokers of one wave of moves": "WaveFigures._asked",
    "commands that are carried out now": "Executor.applying",
    "brokers that left within executor.settle_ms": "MoveGate._lost_at",
    "answers that are young enough, and questions that are asked now": """
        _Recent._answers _Recent._asking
    """,
    "KEPT": "Breaker._results",
    "looks of the last _LOOK_AGAIN_S": "UnownedBundles._looked_at",
    "executor.at_once": "Intake._waiting",
    "moves of a minute, executor.per_minute": "RateLimiter._begun",
    "the processes of a watch": "Processes.children",
    "the table of metrics": "ExecutorMetrics._of",
    "its limit": "BoundedLabel._known",
    "MOST_STUCK": "FrozenReports._frozen FrozenReports._stuck_since",
    "records that are not committed or confirmed; more are not read or written before": """
        FileConsumer._behind FileTopicWriter._waiting KafkaPublisher._sent
        KafkaTopicConsumer._handed PulsarPublisher._failed PulsarTopicConsumer._handed
    """,
    "partitions of one topic": """
        KafkaTopicConsumer._partitions PulsarPlanner._names PulsarPlanner._newest
        PulsarPlanner._read_to PulsarPlanner._readers PulsarPlanner._stop_at PulsarProbe._readers
        PulsarReader._ends PulsarReader._readers PulsarTopicConsumer._consumers
        PulsarTopicConsumer._newest
    """,
    "_PLACES": "_Reason.places",
    "a hundred clusters with metrics": "RoundMetrics._brokers RoundMetrics._codes",
    "metrics of rounds": "RoundMetrics._counters RoundMetrics._forecasts RoundMetrics._gauges",
    "items of the log, and as many again": """
        CompactedLog._items CompactedLog._names CompactedLog._newest CompactedLog._where
    """,
    "items of the log": "CompactedLog._newest_values",
    "clusters of a shard, without what vanished ones had; tests/unit/test_bounded_state.py": """
        CompactedLog.values ShardStore._read
    """,
    "the bytes of the cache; one shard at least": "StoreCache._sizes StoreCache._stores",
}


def growing() -> Iterator[str]:
    """The fields of these packages that begin as something that grows, as `class.field`."""
    for file in (file for place in PLACES for file in (ROOT / place).rglob("*.py")):
        text = file.read_text("utf-8")
        # A counter of Prometheus is one figure.
        kinds = GROWING - ({"Counter"} if "from prometheus_client" in text else set())
        for one in ast.walk(ast.parse(text)):
            if isinstance(one, ast.ClassDef) and not _is_value(one):
                yield from (f"{one.name}.{name}" for name in _fields(one, kinds))


def _is_value(one: ast.ClassDef) -> bool:
    """Records are made, passed on and dropped."""
    bases = [ast.unparse(base) for base in one.bases]
    return any("Struct" in base or base.startswith("_Round") for base in bases)


def _fields(one: ast.ClassDef, kinds: frozenset[str]) -> Iterator[str]:
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
    """Name of the type of a literal, a call or a hint."""
    text = "" if value is None else ast.unparse(value)
    return {"[": "list", "{": "dict"}.get(text[:1], re.split(r"[\[(]", text)[0])


@pytest.mark.heavy
def test_every_field_that_grows_says_by_what_it_is_bounded() -> None:
    bounded = {name for names in BOUNDS.values() for name in names.split()}
    assert set(growing()) == bounded


class Stuck:
    """An admin client of brokers that answer, and finish no read of metadata."""

    def version(self, _broker: str) -> str:
        return "4.0"

    def read_metadata(self, broker: str) -> bytes:
        raise Unanswered(f"{broker} does not answer")

    load_report = read_metadata


def test_answers_of_brokers_that_left_are_forgotten() -> None:
    now = 0.0
    recent = _Recent[str](1.0, lambda: now)
    for number in range(1_000):
        now += 0.5
        assert recent.get(f"b{number}", lambda: "reads") == "reads"
    assert len(recent._answers) <= 4
    assert len(recent._asking) <= 4


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


def test_a_few_connections_stay_open_however_many_brokers_are_asked() -> None:
    with FakePulsar(Cluster(), 20) as pulsar:
        with closing(PulsarAdmin(PulsarSettings("c", pulsar.admin_urls))) as admin:
            for broker in pulsar.cluster.brokers:
                admin.version(broker)
            idle = admin.http._connections._transport._pool.connections
            assert len(idle) == 16
        assert not admin.http._connections._transport._pool.connections


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
