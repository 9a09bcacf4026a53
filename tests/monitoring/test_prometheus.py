"""Debian's Prometheus scrapes running processes: each panel has data, no rule has an error, and
counters equal the records on the topics.

Job, collector, executor and live page are real processes on file topics and a fake Pulsar. The
series of Pulsar's brokers are made by hand (`pulsar_series`).
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pulsar_rebalancer.lab.simulation.polled_cluster import EngineDecider, outcome_reports
from pulsar_rebalancer.lab.simulation.telemetry_json import TelemetryWriter
from sinks.topics.files.topic import FileTopicWriter
from sinks.wire.operator_records import encode_intent
from strategies.cluster.intent_records_and_states import Intent
from strategies.cluster.model import LoadReport, Outcome
from strategies.fold.engine import EngineSettings
from tests.control_topic import Control, command
from tests.monitoring.boards import Expression, expressions
from tests.monitoring.pulsar_series import NEW, OLD, broker_serving
from tests.pulsar_fake.model import Answer, Cluster, Request
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.unit.test_collector import REPORT
from tests.unit.test_metrics_commands import served
from tools.monitoring.incidents import CLUSTER, UNEVEN, cluster
from tools.monitoring.promtool import RULES
from tools.monitoring.server import Prometheus, prometheus
from tools.processes.set_words import set_words
from tools.waiting import eventually

pytestmark = [pytest.mark.servers, pytest.mark.spark]

BUNDLE = "t/ns/0x00000000_0xffffffff"
#: A topic of the bundle, with traffic.
TOPIC = "persistent://t/ns/busy"
#: Several scrapes, for `rate` and `increase`.
RATE_INTERVAL = "30s"
MINUTES = 12


def telemetry() -> list[bytes]:
    """A modelled cluster that is balanced by moves, a drain at the end, and a record that is
    none.
    """
    there = cluster(UNEVEN)
    writer, decider = TelemetryWriter(there.start_ms), EngineDecider(EngineSettings())
    lines, outcomes = [b"no record"], tuple[Outcome, ...]()
    for _ in range(MINUTES):
        records = [*outcome_reports(outcomes), *there.collect()]
        lines += map(writer.json, records)
        answer = decider.decide(records)
        outcomes = there.carry_out(answer.commands, answer.round.ts)
    last = [*outcome_reports(outcomes), *there.collect()]
    broker = next(one.broker for one in last if isinstance(one, LoadReport))
    drain = Intent(CLUSTER, last[-1].ts, "d" * 32, "drain", "ann", "new disks", broker)
    return [*lines, encode_intent(drain), *map(writer.json, last)]


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    """Three brokers, of which the last does not give its load."""
    with FakePulsar(Cluster(report=REPORT)) as running:
        first, _, last = running.cluster.brokers
        running.cluster.owners[BUNDLE] = first
        running.cluster.topics["t/ns"] = (TOPIC,)
        running.cluster.figures[TOPIC] = {"msgRateIn": 30.0, "msgInCounter": 17}

        def silent(request: Request) -> Fault | None:
            asked = request.broker == last and "load-report" in request.target
            return Fault(instead=Answer(503)) if asked else None

        running.faults = silent
        yield running


def settings(folder: Path, pulsar: FakePulsar) -> list[str]:
    given = Control(folder).settings(
        pulsar__admin_urls=pulsar.admin_urls,
        collector__pass_interval_ms=1_000,
        job__checkpoint=folder / "checkpoint",
        job__trigger_ms=500,
        metrics__listen="127.0.0.1:0",
        metrics__per_broker="true",
        serve__listen="127.0.0.1:0",
        log__format="json",
    )
    return set_words(given)


def mover(control: Control, pulsar: FakePulsar) -> Callable[[], None]:
    """Sends a command that moves the bundle to another broker, and a record that is none."""

    def send() -> None:
        owner = pulsar.cluster.owners[BUNDLE]
        first, second, _ = pulsar.cluster.brokers
        if owner is not None:
            control.send(command(BUNDLE, owner, second if owner == first else first))
            control.write("commands", [b"no command"])

    return send


def of_prod(folder: Path, topic: str) -> list[Any]:
    """The job's records of the modelled cluster, which gets no more."""
    records = map(json.loads, Control(folder / "job").read(topic))
    return [record for record in records if record["cluster"] == CLUSTER]


#: Sum of a counter of ours in Prometheus → what must stand on the topic.
COUNTERS: dict[str, Callable[[Path], Sequence[Any]]] = {
    f'rounds_total{{cluster="{CLUSTER}"}}': lambda folder: of_prod(folder, "rounds"),
    f'commands_total{{cluster="{CLUSTER}"}}': lambda folder: of_prod(folder, "commands"),
    "outcomes_total": lambda folder: Control(folder / "executor").outcomes(),
    "unreadable_commands_total": lambda folder: Control(folder / "executor").read("rejected"),
}


def without_data(one: Prometheus, missing: set[Expression]) -> set[Expression]:
    return {it for it in missing if not one.values(it.with_values(RATE_INTERVAL))}


def test_panels_have_data_rules_no_error_and_counters_what_is_on_the_topics(
    pulsar: FakePulsar, tmp_path: Path
) -> None:
    with FileTopicWriter(tmp_path / "job" / "telemetry") as writer:
        writer.append(telemetry())
    # The executor has a control topic of its own, on which the test gives the commands.
    job, executor = (settings(tmp_path / name, pulsar) for name in ("job", "executor"))
    apply = ("execute", "--apply", *executor)
    programs = (("run", *job), ("collect", *job), apply, ("serve", *job))
    with ExitStack() as stack:
        ours = [str(stack.enter_context(served(*words))) for words in programs]
        brokers = [stack.enter_context(broker_serving(text)) for text in (OLD, NEW)]
        targets = {"pulsar-rebalancer": ours, "pulsar": brokers}
        one = stack.enter_context(prometheus(tmp_path, targets, "1s"))
        send, missing = mover(Control(tmp_path / "executor"), pulsar), set(expressions())

        def all_seen() -> bool:
            send()
            missing.intersection_update(without_data(one, missing))
            return not missing

        eventually(all_seen, every_s=2, otherwise=lambda: "\n".join(map(str, missing)))
        assert one.values('sum(up{job=~".+"})') == [6]
        rules = one.rules()
        assert len(rules) == len(re.findall("alert:", RULES.read_text("utf-8")))
        assert [(rule["name"], rule["lastError"]) for rule in rules if rule.get("lastError")] == []
        eventually(lambda: {rule["health"] for rule in one.rules()} == {"ok"})

        def unequal() -> list[str]:
            return [
                counter
                for counter, topic in COUNTERS.items()
                if one.values(f"sum(pulsar_rebalancer_{counter})") != [len(topic(tmp_path))]
            ]

        eventually(lambda: not unequal(), otherwise=lambda: str(unequal()))
