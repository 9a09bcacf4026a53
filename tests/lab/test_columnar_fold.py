"""A columnar recording decides what its JSON Lines decide, also where quiet rounds are passed over
together.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyarrow import parquet

from pulsar_rebalancer.lab.backtest.columnar_fold_skipping_rounds import ColumnarFold, Quiet
from pulsar_rebalancer.lab.plain_loop import PlainLoop
from pulsar_rebalancer.lab.simulation.clusters import MACHINE
from pulsar_rebalancer.lab.simulation.noise import Wobble
from pulsar_rebalancer.lab.simulation.polled_cluster import PolledCluster
from pulsar_rebalancer.lab.simulation.telemetry_json import TelemetryWriter
from sinks.recordings.columnar_reading import read_blocks
from sinks.recordings.copy_topic import converted
from sinks.recordings.json_lines import open_recording
from sinks.wire.event_to_topic_rows import OutputRow, event_row
from sinks.wire.record_decoding import DEFAULT_LIMITS, Position, decode_round
from strategies.cluster.cluster_state import InMemoryStore
from strategies.fold.engine import EngineSettings
from strategies.fold.reason_code_meanings import meanings_of
from strategies.round.round_input_and_digest import CapacitySettings
from strategies.round.state_of_round import RoundFacts, state_of
from strategies.settings import RoundSettings
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.overload.settings import OverloadSettings
from strategies.shedding.registry import SHEDDERS
from strategies.shedding.threshold.settings import ThresholdSettings
from strategies.shedding.transfer.settings import TransferSettings
from strategies.splitting.bundle_limits import SplitSettings
from tests.architecture.command_line import ROOT
from tests.modelled import carry, steady_cluster

MEANINGS = meanings_of(*SHEDDERS.values())

pytestmark = pytest.mark.heavy

#: Short enough that a made-up hour has quiet rounds, an imbalance, moves that expire, and quiet
#: rounds again.
ROUND = RoundSettings(cool_down_ms=600_000)
THRESHOLD = EngineSettings(
    strategy="threshold",
    shedding=ThresholdSettings(threshold_percent=8.0, history=0.5),
    round=ROUND,
)
AVG = EngineSettings(
    strategy="avg", shedding=AvgSettings(low_threshold=8.0, hit_count_low=3), round=ROUND
)
OVERLOAD = EngineSettings(
    strategy="overload", shedding=OverloadSettings(threshold_percent=45.0), round=ROUND
)
UNIFORM = EngineSettings(strategy="uniform", round=ROUND)
TRANSFER = EngineSettings(
    strategy="transfer", shedding=TransferSettings(target_std=0.05), round=ROUND
)
STEADY = EngineSettings(strategy="steady", round=ROUND)
RECORDINGS = sorted((ROOT / "tests/data/recordings").glob("*.jsonl.gz"))


def a_cluster(brokers: int = 4, bundles: int = 24) -> PolledCluster:
    names = [f"broker-{number}:8080" for number in range(brokers)]
    parts = [f"t/n/0x{number:08x}_0x{number + 1:08x}" for number in range(bundles)]
    owners = {part: names[number % brokers] for number, part in enumerate(parts)}
    return steady_cluster(
        "c1", dict.fromkeys(names, MACHINE), dict.fromkeys(parts, 4000.0), owners, chance=Wobble()
    )


def an_hour(rounds: int = 60) -> Iterator[bytes]:
    """Calm, then one bundle grows for a while, later by so much that there is only advice.

    In between: reports out of order, one that is lost, repeated figures, a broker that falls
    silent.
    """
    cluster, draw, before = a_cluster(), Random(7), list[bytes]()
    writer = TelemetryWriter(cluster.start_ms)
    for number in range(rounds):
        if number in (20, 30, 52, 56):
            carry(
                cluster, cluster.world.names[0], {20: 60_000.0, 52: 190_000.0}.get(number, 4000.0)
            )
        silent = ["broker-2:8080"] if number in (8, 45) else []
        *reports, sweep = [writer.json(seen) for seen in cluster.collect(silent)]
        if number in (12, 40):
            draw.shuffle(reports)
        if number == 14:
            reports.pop()
        if number in (16, 17, 50):
            reports = [later(report) for report in before]
        before = reports
        yield from (*reports, sweep)


def later(report: bytes) -> bytes:
    """The same figures a minute later: a poll that found nothing new."""
    record = json.loads(report)
    record["ts"] += 60_000
    return json.dumps(record).encode()


def recorded(folder: Path, lines: Iterable[bytes]) -> tuple[list[bytes], Path]:
    kept = list(lines)
    source, target = folder / "a.jsonl", folder / "a.parquet"
    source.write_bytes(b"".join(line + b"\n" for line in kept))
    converted(str(source), target, DEFAULT_LIMITS)
    return kept, target


def plain(lines: list[bytes], settings: EngineSettings) -> list[OutputRow]:
    loop = PlainLoop(settings)
    rows = [
        row
        for offset, line in enumerate(lines)
        for row in loop.feed(Position("a", 0, offset), line)
    ]
    return [row for row in rows if row.kind != "rejected"]


def folded(
    path: Path, settings: EngineSettings, leap: bool
) -> tuple[list[OutputRow], int, ColumnarFold]:
    """Rows, and how many rounds were passed over."""
    loop, rows, passed = ColumnarFold(settings, leap=leap), list[OutputRow](), 0
    for happened in loop.fold(read_blocks(path)):
        if isinstance(happened, Quiet):
            passed += len(happened.times_ms)
        else:
            rows += [event_row(event) for event in happened]
    return [row for row in rows if row.kind != "rejected"], passed, loop


def commands(rows: list[OutputRow]) -> list[OutputRow]:
    return [row for row in rows if row.kind == "commands"]


def leaping(
    path: Path, settings: EngineSettings, every: list[OutputRow]
) -> tuple[list[OutputRow], int]:
    """Rows, and how many rounds were passed over: all commands are there, no row differs from
    those of every round, and the state is that of the loop that passes over none.
    """
    rows, passed, loop = folded(path, settings, leap=True)
    assert commands(rows) == commands(every)
    assert set(rows) <= set(every)
    assert len(rows) == len(every) - passed
    step_by_step = folded(path, settings, leap=False)[2]
    assert everything(loop.store("c1")) == everything(step_by_step.store("c1"))
    return rows, passed


def test_every_row_is_that_of_the_plain_loop(tmp_path: Path) -> None:
    lines, path = recorded(tmp_path, an_hour())
    assert folded(path, THRESHOLD, leap=False)[0] == plain(lines, THRESHOLD)


@pytest.mark.parametrize(
    "settings",
    [THRESHOLD, OVERLOAD, AVG, UNIFORM, TRANSFER],
    ids=lambda settings: settings.strategy,
)
def test_rounds_that_are_passed_over_change_no_row_and_no_state(
    tmp_path: Path, settings: EngineSettings
) -> None:
    lines, path = recorded(tmp_path, an_hour())
    every = plain(lines, settings)
    rows, passed = leaping(path, settings, every)
    assert passed > 20
    assert commands(rows)


def test_no_round_of_a_drain_is_passed_over(tmp_path: Path) -> None:
    """Only rounds before it are."""
    lines = list(an_hour())
    ts, broker = json.loads(lines[50])["ts"], json.loads(lines[0])["broker"]
    said = {"v": 1, "kind": "intent", "cluster": "c1", "by": "Ann", "reason": "disks"}
    drain = said | {"ts": ts, "id": "a" * 32, "action": "drain", "broker": broker}
    lines.insert(50, json.dumps(drain).encode())
    _, path = recorded(tmp_path, lines)
    rows, passed = leaping(path, THRESHOLD, plain(lines, THRESHOLD))
    assert 0 < passed < 20
    assert b'"code":"drain"' in commands(rows)[0].value


def everything(store: InMemoryStore) -> object:
    brokers = sorted(store.brokers(), key=lambda one: one.broker)
    state = store.get_cluster()
    return (
        brokers,
        [store.get_table(one.broker) for one in brokers],
        state.clock,
        state.round,
        state.round_at_ms,
        state.memory,
    )


@pytest.mark.parametrize("strategy", ["avg", "threshold", "overload", "uniform", "transfer"])
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_recordings_of_real_clusters_decide_the_same(
    tmp_path: Path, recording: Path, strategy: str
) -> None:
    lines, path = recorded(tmp_path, open_recording(recording))
    settings = EngineSettings(strategy=strategy)
    every, (rows, passed, _) = plain(lines, settings), folded(path, settings, leap=True)
    assert set(rows) <= set(every)
    assert len(rows) == len(every) - passed


def test_where_every_round_looks_into_tables_none_is_passed_over(tmp_path: Path) -> None:
    lines, path = recorded(tmp_path, an_hour())
    settings = replace(THRESHOLD, splitting=SplitSettings(enabled=True))
    rows, passed, _ = folded(path, settings, leap=True)
    assert passed == 0
    assert rows == plain(lines, settings)


def test_what_cannot_be_decoded_is_kept_and_counted(tmp_path: Path) -> None:
    lines = [*an_hour(4), b"not json", b'{"v":1,"kind":"nonsense","cluster":"c1"}']
    _, path = recorded(tmp_path, lines)
    assert folded(path, THRESHOLD, leap=True)[2].rejected == 2


@pytest.mark.parametrize("records", [3, 7, 50])
def test_where_blocks_end_does_not_matter(tmp_path: Path, records: int) -> None:
    lines, path = recorded(tmp_path, an_hour())
    leaping(in_groups_of(records, path), THRESHOLD, plain(lines, THRESHOLD))


def test_traffic_is_read_while_the_next_block_is(tmp_path: Path) -> None:
    """pyarrow's file dies or hangs when two threads read at once; it took one to five readings of
    24 groups.
    """
    path = in_groups_of(3, recorded(tmp_path, an_hour())[1])
    sums = {sum(float(block.traffic[0].sum()) for block in read_blocks(path)) for _ in range(20)}
    assert len(sums) == 1


def in_groups_of(records: int, path: Path) -> Path:
    """The same recording with so many records in a row group."""
    target = path.with_name(f"in-groups-of-{records}.parquet")
    parquet.write_table(parquet.read_table(path), target, row_group_size=records)
    return target


def with_network(line: bytes, blind: dict[str, float]) -> bytes:
    """A report of a broker whose network is what it is judged by; `blind`: broker → the limit that
    it reports instead.
    """
    record = json.loads(line)
    if record["kind"] == "load-report":
        report, used = record["report"], 2_000_000 * record["report"]["cpu"]["usage"]
        limit = blind.get(record["broker"], 4e8)
        for name in ("bandwidthIn", "bandwidthOut"):
            report[name] = {"usage": used, "limit": limit}
    return json.dumps(record).encode()


def brokers_that_go_blind() -> Iterator[bytes]:
    """An hour in which one broker does not know its network, then two, then all of them do."""
    for number, line in enumerate(an_hour()):
        minute = number // 5
        blind = {"broker-1:8080": -1000.0} if 10 <= minute < 25 else {}
        if 36 <= minute < 40:
            blind = {f"broker-{at}:8080": -2000.0 for at in (0, 3)}
        yield with_network(line, blind)


@pytest.mark.parametrize(
    "settings",
    [
        THRESHOLD,
        AVG,
        TRANSFER,
        STEADY,
        UNIFORM,
        replace(THRESHOLD, capacities=CapacitySettings(nic_gbps="broker-1:*=400", cores="*=16")),
    ],
    ids=["threshold", "avg", "transfer", "steady", "uniform", "capacities"],
)
def test_brokers_are_compared_by_what_all_of_them_measure(
    tmp_path: Path, settings: EngineSettings
) -> None:
    lines, path = recorded(tmp_path, brokers_that_go_blind())
    every = plain(lines, settings)
    _, passed = leaping(path, settings, every)
    rounds = [decode_round(row.value) for row in every if row.kind == "rounds"]
    assert "resource-not-measured" in {skip.code for done in rounds for skip in done.skips}
    assert passed > 5


@pytest.mark.parametrize(
    "settings", [UNIFORM, TRANSFER, STEADY], ids=lambda settings: settings.strategy
)
@pytest.mark.parametrize("made", [an_hour, brokers_that_go_blind])
def test_rounds_that_are_passed_over_have_usage_and_state_of_the_plain_loop(
    tmp_path: Path, made: Callable[[], Iterator[bytes]], settings: EngineSettings
) -> None:
    """The screens of the other strategies name no skips, from which a state comes."""
    lines, path = recorded(tmp_path, made())
    rows = [decode_round(row.value) for row in plain(lines, settings) if row.kind == "rounds"]
    rounds, compared = {done.ts: done for done in rows}, 0
    for happened in ColumnarFold(settings).fold(read_blocks(path)):
        if not isinstance(happened, Quiet):
            continue
        for at, ts in enumerate(happened.times_ms.tolist()):
            usage = dict(zip(happened.brokers, happened.usage[at].tolist(), strict=True))
            facts = RoundFacts((), happened.brokers, {}, usage, happened.skips[at], MEANINGS)
            assert (usage, state_of(facts)) == (rounds[ts].usage, rounds[ts].state)
            compared += 1
    assert compared > 5


def test_what_is_left_out_of_a_report_is_named_as_in_the_plain_loop(tmp_path: Path) -> None:
    """A heap that is not measured, for a while, and topics with a point in all reports."""
    lines = list[bytes]()
    for number, line in enumerate(an_hour()):
        record = json.loads(line)
        if record["kind"] == "load-report":
            if record["broker"] == "broker-1:8080" and 50 <= number < 75:
                record["report"]["memory"]["usage"] = "NaN"
            for row in record["report"]["lastStats"].values():
                row["topics"] = float(row["topics"])
        lines.append(json.dumps(record).encode())
    _, path = recorded(tmp_path, lines)

    rows, passed = leaping(path, THRESHOLD, plain(lines, THRESHOLD))

    named = [row for row in rows if row.kind == "rounds" and b'"figures-left-out"' in row.value]
    assert len(named) == 6
    assert passed > 10
