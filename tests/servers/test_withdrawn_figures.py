"""Extensible brokers withdraw figures when bundles move, and their leader when one dies: the broker
leaves, and nothing is rejected.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from sinks.collector.collector import Collector
from sinks.wire.record_decoding import decode
from strategies.cluster.model import LoadReport, Sweep, Tombstone
from tests.control_topic import Control
from tests.servers.test_pulsar import collecting, passed, records
from tests.unit.command_line import rebalancer
from tools.servers.pulsar_processes import PulsarProcesses
from tools.traffic.bundle_users import bundles, traffic
from tools.waiting import eventually

pytestmark = [pytest.mark.servers, pytest.mark.slow]
LONG_S = 300.0


def withdrawals(collector: Collector, control: Control) -> set[str]:
    """Brokers that have withdrawn figures or bundles, after one more pass."""
    passed(collector)
    return {
        record.broker
        for record in records(control)
        if isinstance(record, Tombstone)
        or (
            isinstance(record, LoadReport)
            and record.figures is None
            and record.bundles is not None
            and not record.bundles.names
        )
    }


def census(collector: Collector, control: Control) -> Sweep:
    """The sweep of one more pass."""
    passed(collector)
    newest = decode(control.read("telemetry")[-1], b"")
    assert isinstance(newest, Sweep)
    return newest


def test_moves_and_the_death_of_a_broker_leave_no_rejected_record(
    extensible: PulsarProcesses, tmp_path: Path
) -> None:
    control, victim = Control(tmp_path), extensible.cluster.brokers[1]
    with ExitStack() as stack:
        collector = stack.enter_context(collecting(extensible.cluster.settings(tmp_path), control))
        used = stack.enter_context(bundles(extensible.cluster, "t/withdrawn"))
        stack.enter_context(traffic(used))

        def sooner_or_later(true: Callable[[], bool], otherwise: str) -> None:
            eventually(true, LONG_S, otherwise, 1)

        sooner_or_later(
            lambda: victim in census(collector, control).brokers, f"{victim} publishes no load"
        )
        for bundle in used.all:
            used.move_away(bundle)
            passed(collector)
        sooner_or_later(
            lambda: bool(withdrawals(collector, control)), "no broker withdrew its figures"
        )
        before = len(control.read("telemetry"))

        extensible.servers[victim].kill()

        def withdrawn() -> bool:
            listed = census(collector, control)
            later = [decode(record, b"") for record in control.read("telemetry")[before:]]
            gone = victim not in {*listed.brokers, *listed.missing}
            return gone and any(
                isinstance(record, Tombstone) and record.broker == victim for record in later
            )

        sooner_or_later(withdrawn, f"nobody withdraws the figures of {victim}")
        left_ms = census(collector, control).ts
        # Rounds of 5 s: at least one closes after the broker has left.
        sooner_or_later(lambda: census(collector, control).ts > left_ms + 10_000, "no more passes")

    words = ("replay", "--from-topic", control.uri("telemetry"), "--set", "round.interval_ms=5000")
    replayed = rebalancer(*words, "--json")
    assert replayed.json["rejected"] == {"total": 0, "by_code": {}}, replayed.err
    assert replayed.json["rounds"] > 0
    assert rebalancer(*words, "--out", tmp_path / "out").code == 0
    last = (tmp_path / "out" / "rounds.jsonl").read_bytes().splitlines()[-1]
    assert victim.encode() not in last, "it has left, and takes no part"
