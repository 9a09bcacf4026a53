"""`rebalancer convert` and `backtest`: what a recording would have led to, and which of the two
loops it is that says so.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from pulsar_rebalancer.lab.backtest.reassigned import Reassigned
from pulsar_rebalancer.lab.backtest.run import BacktestJob, BacktestResult, Loop
from pulsar_rebalancer.lab.simulation.telemetry_json import TelemetryWriter
from pulsar_rebalancer.settings.merge_sources import load
from sinks.recordings.columnar_reading import read_blocks
from sinks.secret_file import Secret
from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.topic_settings import file_topic_uri
from sinks.wire.signing_keys import SigningKey
from strategies.bundles import THROUGHPUT_IN
from strategies.cluster.model import LoadReport
from strategies.errors import SinkError
from tests.lab.test_columnar_fold import a_cluster, an_hour, recorded
from tests.unit.command_line import rebalancer
from tests.world.backtests import run

FLAGS = (
    "shedding.strategy=threshold",
    "shedding.threshold.threshold_percent=8",
    "shedding.threshold.history=0.5",
)
BUNDLE = a_cluster().world.names[0]
A, B = "broker-0:8080", "broker-1:8080"


def answer_of(path: Path, loop: Loop) -> BacktestResult:
    return run(BacktestJob(path, "a run", load(flags=FLAGS), loop))


def reports(path: Path, owners: dict[str, str]) -> dict[str, LoadReport]:
    """Of the first pass, with bundles where `owners` has them."""
    (block,) = read_blocks(path)
    made = Reassigned(block, a_cluster().name, owners).made()
    records = (made.record(row) for row in range(4))
    return {record.broker: record for record in records if isinstance(record, LoadReport)}


@pytest.mark.heavy
def test_in_the_open_loop_an_imbalance_is_met_again_and_in_the_closed_one_it_is_gone(
    tmp_path: Path,
) -> None:
    _, path = recorded(tmp_path, islice(an_hour(), 4 * 40))
    (open_,), (closed,) = answer_of(path, "open").timelines, answer_of(path, "closed").timelines
    assert open_.kind == "recorded"
    assert closed.kind == "re-assigned"
    assert closed.moves
    assert closed.spread()[25:29].max() < open_.spread()[25:29].max()
    assert all(move.destination is not None and move.reason for move in closed.moves)
    assert not np.isnan([move.traffic for move in closed.moves]).any()


def test_a_bundle_takes_its_share_of_everything_along_and_nothing_is_lost(tmp_path: Path) -> None:
    _, path = recorded(tmp_path, islice(an_hour(), 5))
    before, after = reports(path, {}), reports(path, {BUNDLE: B})
    assert BUNDLE in bundles(before[A])
    assert BUNDLE not in bundles(after[A])
    assert BUNDLE in bundles(after[B])
    for figure in (throughput, cpu):
        assert figure(after[A]) < figure(before[A])
        assert sum(map(figure, after.values())) == pytest.approx(sum(map(figure, before.values())))
    assert after[A].digest != before[A].digest
    assert after["broker-2:8080"].digest == before["broker-2:8080"].digest


def test_bundles_that_are_elsewhere_follow_there_in_the_order_of_their_report(
    tmp_path: Path,
) -> None:
    """Not in the order of a set of names, which differs from process to process."""
    _, path = recorded(tmp_path, islice(an_hour(), 5))
    before = reports(path, {})
    moved = bundles(before[A])
    assert len(moved) > 5
    assert bundles(reports(path, dict.fromkeys(reversed(moved), B))[B]) == (
        *bundles(before[B]),
        *moved,
    )


@pytest.mark.parametrize("owner", [B, "broker-2:8080"])
def test_a_bundle_that_two_brokers_name_while_it_moves_is_at_its_new_broker_once(
    tmp_path: Path, owner: str
) -> None:
    records = [json.loads(line) for line in islice(an_hour(), 5)]
    told = {one["broker"]: one["report"] for one in records if one["kind"] == "load-report"}
    told[B]["lastStats"][BUNDLE] = {**told[A]["lastStats"][BUNDLE], "msgThroughputIn": 7.0}
    _, path = recorded(tmp_path, (json.dumps(record).encode() for record in records))
    after = reports(path, {BUNDLE: owner})
    assert [bundles(report).count(BUNDLE) for report in after.values()] == [
        int(broker == owner) for broker in after
    ]
    stats = after[owner].bundles
    assert stats is not None
    assert stats.traffic[stats.names.index(BUNDLE), THROUGHPUT_IN] == 7.0, (
        "the later of the two reports counts"
    )


def test_a_bundle_whose_new_broker_is_gone_is_back_where_it_was_recorded(tmp_path: Path) -> None:
    _, path = recorded(tmp_path, islice(an_hour(), 5))
    assert BUNDLE in bundles(reports(path, {BUNDLE: "gone:8080"})[A])


@pytest.mark.heavy
def test_moves_in_one_cluster_leave_bundles_of_the_same_names_in_another_alone(
    tmp_path: Path,
) -> None:
    lines = list(islice(an_hour(), 4 * 40))
    cluster = a_cluster()
    writer = TelemetryWriter(cluster.start_ms)
    others = [
        writer.json(seen).replace(b'"c1"', b'"c2"').replace(b"broker-", b"other-")
        for _ in range(40)
        for seen in cluster.collect()
    ]
    mixed = [line for pair in zip_longest(lines, others) for line in pair if line is not None]
    both, (busy,), (calm,) = (
        answer_of(recorded(tmp_path, kept)[1], "closed").timelines
        for kept in (mixed, lines, others)
    )
    assert busy.moves
    assert not calm.moves
    for together, single in zip(both, (busy, calm), strict=True):
        assert (together.cluster, together.moves) == (single.cluster, single.moves)
        assert together.usage.tolist() == single.usage.tolist()


@pytest.mark.heavy
def test_a_part_of_a_recording_is_tested_alone(tmp_path: Path) -> None:
    _, path = recorded(tmp_path, an_hour())
    job = BacktestJob(path, "a run", load(flags=FLAGS), "closed")
    (whole,) = run(job).timelines
    middle = int(whole.times_ms[30])
    first = run(replace(job, until_ms=middle))
    second = run(replace(job, since_ms=middle))
    assert first.timelines[0].times_ms.max() < middle <= second.timelines[0].times_ms.min()
    assert first.records + second.records == run(job).records


@pytest.mark.heavy
def test_a_recording_without_sweeps_is_parted_by_its_reports(tmp_path: Path) -> None:
    reports_alone = (line for line in an_hour() if json.loads(line)["kind"] != "sweep")
    _, path = recorded(tmp_path, reports_alone)
    whole = answer_of(path, "open").timelines[0].times_ms
    middle = int(whole[len(whole) // 2])
    job = BacktestJob(path, "a run", load(flags=FLAGS), "open")
    first = run(replace(job, until_ms=middle)).timelines[0]
    second = run(replace(job, since_ms=middle)).timelines[0]
    assert first.times_ms[-1] < middle <= second.times_ms[0]
    assert first.rounds + second.rounds >= len(whole) - 2


@pytest.mark.heavy
def test_intents_that_the_job_refused_are_refused_again(tmp_path: Path) -> None:
    """Who has the key of the job drains the third broker; others wanted to drain two before."""
    key, other = SigningKey(Secret(b"i" * 32)), SigningKey(Secret(b"o" * 32))
    signers: list[Callable[[bytes], bytes]] = [bytes, other.sign, key.sign]
    lines = list(an_hour())
    said = {"v": 1, "kind": "intent", "cluster": "c1", "by": "Ann", "reason": "disks"}
    for number, (place, sign) in enumerate(zip((10, 30, 50), signers, strict=True)):
        drain = said | {"ts": json.loads(lines[place])["ts"], "id": f"{number:032x}"}
        drain |= {"action": "drain", "broker": f"broker-{number}:8080"}
        lines.insert(place, sign(json.dumps(drain).encode()))
    _, path = recorded(tmp_path, lines)
    file = tmp_path / "key"
    file.write_bytes(key.secret.reveal())

    with_key, of_drains = (*FLAGS, f"signing.intents_key_file={file}"), {"intent-refused": 2}
    of_signatures = {"intent-unsigned": 1, "intent-wrong-signature": 1}
    for flags, drained, codes in (
        (with_key, "broker-2:8080", of_signatures),
        (FLAGS, A, of_drains),
    ):
        words = [word for flag in flags for word in ("--set", flag)]
        replayed = rebalancer("replay", path.with_suffix(".jsonl"), "--json", *words).json
        back = run(BacktestJob(path, "a run", load(flags=flags), "open"))
        moves = back.timelines[0].moves
        assert {one.source for one in moves if one.code == "drain"} == {drained}
        assert (len(moves), back.rejected) == (replayed["commands"], 2)
        assert replayed["rejected"]["by_code"] == codes
    answer = rebalancer("backtest", path, "--set", "signing.intents_key_file=/nowhere")
    assert (answer.code, "intents_key_file: /nowhere cannot be read" in answer.err) == (2, True)


@pytest.mark.heavy
def test_json_lines_and_parquet_lead_to_the_same(tmp_path: Path) -> None:
    _, path = recorded(tmp_path, islice(an_hour(), 4 * 40))
    flags = [word for flag in FLAGS for word in ("--set", flag)]
    runs = [
        rebalancer("backtest", one, "--json", *flags).json["runs"]
        for one in (path, path.with_suffix(".jsonl"))
    ]
    assert runs[0] == runs[1]


def test_a_topic_is_recorded_as_parquet(tmp_path: Path) -> None:
    with FileTopicWriter(tmp_path / "topic", segment_bytes=2**30) as writer:
        writer.append(list(islice(an_hour(), 10)))
    target = tmp_path / "a.parquet"
    topic = file_topic_uri(tmp_path / "topic")
    answer = rebalancer("record", target, "--format", "parquet", "--topic", topic)
    assert answer.code == 0, answer.err
    assert sum(len(block) for block in read_blocks(target)) == 10


def test_a_file_that_is_no_recording_and_one_that_is_cut_are_refused(tmp_path: Path) -> None:
    _, path = recorded(tmp_path, islice(an_hour(), 5))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SinkError, match="cannot be read as Parquet"):
        list(read_blocks(path))


def test_a_table_of_something_else_or_without_a_column_is_refused(tmp_path: Path) -> None:
    _, path = recorded(tmp_path, islice(an_hour(), 5))
    whole = parquet.read_table(path)
    parquet.write_table(whole.drop_columns(["ts", "bundles"]), path)
    with pytest.raises(
        SinkError, match=r"lacks the columns ts, bundles; make it again with `rebalancer convert`"
    ):
        read_blocks(path)
    parquet.write_table(whole.replace_schema_metadata(None).select(["ts"]), path)
    with pytest.raises(SinkError, match=r"is not a columnar recording of this version"):
        read_blocks(path)


def bundles(report: LoadReport) -> tuple[str, ...]:
    assert report.bundles is not None
    return report.bundles.names


def throughput(report: LoadReport) -> float:
    assert report.figures is not None
    return report.figures.traffic.msg_throughput


def cpu(report: LoadReport) -> float:
    assert report.figures is not None
    return report.figures.cpu.usage
