"""An installation in virtual time: a modelled cluster, and the code of the three processes with
their metrics, which Prometheus scrapes.

The stateful function of the job decides, with its state in memory instead of Spark; its facts reach
the metrics as those of a micro-batch do. The modelled executor of the simulation moves bundles;
the real one refuses commands in `incidents.executor_refuses`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from pyspark.sql import Row

from pulsar_rebalancer.lab.simulation.polled_cluster import PolledCluster, outcome_reports
from pulsar_rebalancer.lab.simulation.telemetry_json import TelemetryWriter
from sinks.collector.broker_poll import Pass
from sinks.collector.collector import StepResult
from sinks.executor.journal import Received
from sinks.executor.task_intake import Done, Task
from sinks.metrics.http_server_and_probes import Liveness, process_registry
from sinks.metrics.service_metrics import CollectorMetrics, DiskMetrics, DiskSpace, ExecutorMetrics
from sinks.metrics.settings import MetricsSettings
from sinks.wire.operator_records import encode_intent
from sinks.wire.record_decoding import Position, WireLimits, decode_command, read_command
from sinks.wire.signing_keys import SigningSettings
from strategies.cluster.intent_records_and_states import Intent, IntentAction
from strategies.cluster.model import Outcome, OutcomeStatus, Sweep
from strategies.fold.engine import EngineSettings
from streaming.job_metrics import JobMetrics
from streaming.outputs.counts_of_micro_batch import FACTS, Written, read_facts
from streaming.pack_and_decode_records import reading
from streaming.processor import ClusterProcessor
from streaming.progress import BatchProgress
from streaming.state.store import StoreCache
from tests.spark.state_variables import Spark
from tools.monitoring.scrapes import INTERVAL_S, Scrapes

PASS_S = 60
GIB = 2**30
_MEMORY = 256 * 2**20

#: Carries out the commands of a round, as they are on the topic. Gets the time (s).
CarryOut = Callable[[Sequence[bytes], int], Sequence[Outcome]]


def liveness() -> Liveness:
    """Of a process without a main loop."""
    return Liveness(60, "a test")


class Job:
    """The stateful function and the metrics of `run`. `per_tick`: records that it can process
    between two scrapes.
    """

    def __init__(self, clock: Callable[[], float], per_tick: int, engine: EngineSettings) -> None:
        self.registry = process_registry("0.1.0")
        self.telemetry: deque[bytes] = deque()
        self._metrics = JobMetrics(self.registry, 0, liveness(), clock=clock)
        self._processor = ClusterProcessor(
            engine,
            SigningSettings(),
            reading(WireLimits()),
            StoreCache(_MEMORY),
            metrics=MetricsSettings("127.0.0.1:0"),
        )
        self._processor.init(cast(Any, Spark()))
        self._per_tick = per_tick
        self._batches = self._records = 0

    def micro_batch(self) -> list[Row]:
        """Processes the next records, if there are any: rows of its output."""
        count = min(self._per_tick, len(self.telemetry))
        if not count:
            return []
        records = [self._row(self.telemetry.popleft()) for _ in range(count)]
        rows = list(self._processor.handleInputRows(("",), iter(records), None))
        self._batches += 1
        # A micro-batch that is full takes all its time.
        took_ms = 1_000 * INTERVAL_S if count == self._per_tick else 400 + count
        self._metrics.take(
            BatchProgress(
                batch=self._batches,
                started_at="",
                records=count,
                behind_records=len(self.telemetry),
                took_ms=took_ms,
                phases_ms={"addBatch": took_ms - 100, "walCommit": 50},
                state_rows=3,
                written=Written(),
                facts=tuple(read_facts(row.value.decode()) for row in rows if row.kind == FACTS),
            )
        )
        return [row for row in rows if row.kind != FACTS]

    def _row(self, value: bytes) -> Row:
        self._records += 1
        return Row(
            topic="telemetry", partition=0, offset=self._records, value=value, size=len(value)
        )


class Installation:
    """Everything, second by second. Attributes may be changed between two minutes: `silent`, the
    processes that do not run; `clock_error_s`, by how much the collector's clock is ahead;
    `free_bytes`, of the one disk; `held`, commands that wait for approval; `every_minute`, what
    else happens; `reported`, what becomes of a record of the collector.
    """

    def __init__(
        self,
        cluster: PolledCluster,
        *,
        per_tick: int = 1_000,
        engine: EngineSettings = EngineSettings(),
    ) -> None:
        self.cluster = cluster
        self.scrapes = Scrapes()
        self.now_s = 0
        self.silent: set[str] = set()
        self.clock_error_s = 0
        self.free_bytes = 40.0 * GIB
        self.every_minute: Callable[[], object] = lambda: None
        self.reported: Callable[[bytes], bytes] = lambda record: record
        self.job = Job(lambda: self.now_s, per_tick, engine)
        self.carry_out: CarryOut = self._modelled_executor
        collector, executor = process_registry("0.1.0"), process_registry("0.1.0")
        self._collector = CollectorMetrics(collector, [cluster.name], liveness())
        self.executor = ExecutorMetrics(executor, cluster.name, liveness())
        self.held = 0
        self.executor.follow(lambda: 0, lambda: False, lambda: 4096, lambda: self.held)
        self._registries = {
            "job": self.job.registry,
            "collector": collector,
            "executor": executor,
        }
        for process, setting in (("job", "job.checkpoint"), ("executor", "executor.state")):
            folder = {setting: Path("/var/lib")}
            DiskMetrics(
                self._registries[process],
                folder,
                lambda _: DiskSpace(100.0 * GIB, self.free_bytes),
            )
        self._writer = TelemetryWriter(cluster.start_ms)
        self._outcomes: Sequence[Outcome] = ()

    def minutes(self, count: int) -> None:
        """Lets this number of minutes pass."""
        for _ in range(count):
            self._minute()

    def asks(self, action: IntentAction, broker: str) -> None:
        """A person writes an intent."""
        record = Intent(
            self.cluster.name, 1_000 * self.now_s, uuid4().hex, action, "anna", "disks", broker
        )
        self.job.telemetry.append(encode_intent(record))

    def _minute(self) -> None:
        self.every_minute()
        if "collector" not in self.silent:
            self._pass()
        for _ in range(PASS_S // INTERVAL_S):
            rows = self.job.micro_batch()
            commands = [row.value for row in rows if row.kind == "commands"]
            if commands:
                self._outcomes = [*self._outcomes, *self.carry_out(commands, self.now_s)]
            self.scrapes.scrape(
                {
                    name: None if name in self.silent else registry
                    for name, registry in self._registries.items()
                }
            )
            self.now_s += INTERVAL_S

    def _pass(self) -> None:
        """A pass of the collector: records on the topic, and its metrics."""
        outcomes, self._outcomes = outcome_reports(self._outcomes), ()
        records = self.cluster.collect()
        sweep = records[-1]
        assert isinstance(sweep, Sweep)
        late_ms = 1_000 * self.clock_error_s
        self.job.telemetry.extend(map(self._writer.json, outcomes))
        self.job.telemetry.extend(
            self.reported(self._writer.json(_shifted(record, late_ms))) for record in records
        )
        done = Pass(sweep.sweep, sweep.ts + late_ms, (), sweep.brokers, sweep.missing)
        self._collector.stepped(self.cluster.name, StepResult(done, False, ()), 0.4)

    def _modelled_executor(self, records: Sequence[bytes], now_s: int) -> Sequence[Outcome]:
        commands = list(map(decode_command, records))
        outcomes = self.cluster.carry_out(commands, 1_000 * now_s)
        for done in _done(records, outcomes):
            self.executor.add(done)
        return outcomes

    def answered(
        self, records: Sequence[bytes], now_s: int, status: OutcomeStatus, reason: str
    ) -> Sequence[Outcome]:
        """The same outcome for each command."""
        outcomes = [
            Outcome(one.id, one.cluster, one.bundle, status, reason, None, None, 0, 1_000 * now_s)
            for one in map(decode_command, records)
        ]
        for done in _done(records, outcomes):
            self.executor.add(done)
        return outcomes


def _shifted(record: Any, by_ms: int) -> Any:
    return replace(record, ts=record.ts + by_ms)


def _done(records: Iterable[bytes], outcomes: Iterable[Outcome]) -> Iterator[Done]:
    for record, outcome in zip(records, outcomes, strict=True):
        command = read_command(record)
        received = Received(command.id, Position("commands", 0, 0), record)
        yield Done(Task(received, command, "unchecked", True), outcome)
