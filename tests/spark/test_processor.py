"""The stateful processor without Spark's engine: the same bytes as the plain loop, however rows and
batches are cut and shuffled.
"""

import gc
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from sinks.topics.files.topic import FileTopicReader, TopicRecord
from sinks.wire.record_decoding import Position, WireLimits, decode_command, decode_round
from sinks.wire.record_encoding import encode_outcome_telemetry
from sinks.wire.signing_keys import SigningSettings, signing_key
from strategies.cluster.model import Outcome, OutcomeStatus
from strategies.fold.engine import EngineSettings
from streaming.outputs.counts_of_micro_batch import KINDS
from streaming.pack_and_decode_records import ReadRows, packer, reading, unpacking
from streaming.processor import ClusterProcessor
from streaming.sources.records import record_batch
from streaming.state.state_to_bytes import BROKERS, TABLES, unpack_brokers, unpack_bytes
from streaming.state.store import StoreCache
from tests.replayed import Published
from tests.spark.state_variables import Spark
from tests.spark.workshop import Workshop, eager, uneven
from tests.telemetry_lines import T0, bundle, intent, load_report
from tests.telemetry_lines import line as note
from tools.processes.real_job import recording


@dataclass(frozen=True)
class Way:
    """How records reach the stateful stage: rows under the key of their call."""

    read_rows: ReadRows
    rows: Callable[[Sequence[TopicRecord]], dict[int, list[Row]]]


def as_they_are(records: Sequence[TopicRecord]) -> dict[int, list[Row]]:
    return {0: [Row(**row) for row in record_batch(records).to_pylist()]}


def packed(records: Sequence[TopicRecord]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for batch in packer(3)([record_batch([record]) for record in records]):
        for row in batch.to_pylist():
            found.setdefault(row["shard"], []).append(Row(**row))
    return found


RAW, PACKED = Way(reading(WireLimits()), as_they_are), Way(unpacking(WireLimits()), packed)


class Decided:
    """Feeds records to the processor in batches, as Spark would, and collects what comes out."""

    def __init__(
        self,
        engine: EngineSettings,
        signing: SigningSettings = SigningSettings(),
        way: Way = RAW,
        most_bytes: int = 2**20,
    ) -> None:
        """`most_bytes`: that the process may keep; 0 to read the state anew for every batch."""
        self._way = way
        self._tester = TwsTester(
            ClusterProcessor(engine, signing, way.read_rows, StoreCache(most_bytes))
        )
        self.published: dict[str, list[bytes]] = {kind: [] for kind in KINDS}

    def batch(self, records: Sequence[TopicRecord], shuffle: random.Random | None = None) -> None:
        for key, given in self._way.rows(records).items():
            if shuffle is not None:
                shuffle.shuffle(given)
            rows = self._tester.test((key,), given)
            assert [row.seq for row in rows] == list(range(len(rows)))
            for row in rows:
                self.published[row.kind].append(row.value)

    def batches(self, records: Sequence[TopicRecord], size: int) -> Published:
        """All records in batches of this size: what is published."""
        for start in range(0, len(records), size):
            self.batch(records[start : start + size])
        return self.published

    def values(self, part: str) -> list[bytes]:
        rows = self._tester.peekMapState("state", (0,))
        return [packed for (name,), (packed,) in rows.items() if name.partition("/")[0] == part]


def records_of(workshop: Workshop) -> list[TopicRecord]:
    return FileTopicReader(workshop.folder / "telemetry", workshop.uri("telemetry")).read()[0]


LARGE = 2**20


@pytest.mark.parametrize("strategy", ["threshold", "avg"])
@pytest.mark.parametrize("name", ["modular-broker-joins", "modular-broker-killed"])
@pytest.mark.parametrize(
    ("size", "way"),
    [(1, (RAW, LARGE)), (7, (RAW, 0)), (7, (PACKED, LARGE)), (1000, (PACKED, 0)), (1000, (RAW, 0))],
)
def test_a_recording_gives_the_bytes_of_the_plain_loop(
    workshop: Workshop, name: str, strategy: str, size: int, way: tuple[Way, int]
) -> None:
    workshop.put(recording(name))
    decided = Decided(eager(strategy), way=way[0], most_bytes=way[1])
    expected = workshop.expected(eager(strategy))
    assert min(len(expected["rounds"]), len(expected["commands"])) > 10
    assert decided.batches(records_of(workshop), size) == expected


def test_failed_tasks_repeated_batches_and_other_workers_change_no_byte(workshop: Workshop) -> None:
    """A batch counts once it commits; until then it may run anywhere, as often as it takes, also
    after the worker has kept its outcome.
    """
    workshop.put(recording("modular-broker-killed"))
    records, expected = records_of(workshop), workshop.expected()
    for seed in range(4):
        draw, spark = random.Random(seed), Spark()
        published = {kind: list[bytes]() for kind in KINDS}
        workers = [StoreCache(LARGE) for _ in range(3)]
        start = 0
        while start < len(records):
            end = start + draw.choice([1, 10, 40])
            attempt, rows = attempted(spark, records[start:end], draw.choice(workers))
            if draw.random() < 0.3:
                continue  # neither its state nor what it has published counts
            spark, start = attempt, end
            for row in rows:
                published[row.kind].append(row.value)
        assert published == expected


def attempted(
    spark: Spark, records: Sequence[TopicRecord], worker: StoreCache
) -> tuple[Spark, list[Row]]:
    """One task: a processor of its own over a copy of the state."""
    attempt = spark.attempt()
    processor = ClusterProcessor(eager(), SigningSettings(), RAW.read_rows, worker)
    processor.init(cast(Any, attempt))
    return attempt, list(processor.handleInputRows((0,), iter(as_they_are(records)[0]), None))


def test_with_a_key_commands_and_rounds_are_the_same_bytes_and_signed(
    workshop: Workshop, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("k" * 32, "utf-8")
    signing = SigningSettings(str(tmp_path / "key"))
    key = signing_key(signing)
    assert key is not None
    workshop.put(recording("modular-broker-joins"))
    decided, expected = Decided(eager(), signing), workshop.expected()

    decided.batch(records_of(workshop))

    assert len(expected["commands"]) > 10
    signed = {kind: list(map(key.sign, expected[kind])) for kind in ("commands", "rounds")}
    assert decided.published == {**expected, **signed}


@pytest.mark.parametrize("way", [RAW, PACKED])
def test_rows_in_any_order_give_the_same_bytes(workshop: Workshop, way: Way) -> None:
    workshop.put(recording("modular-broker-killed"))
    records = records_of(workshop)
    for seed in range(2):
        decided = Decided(eager(), way=way)
        for start in range(0, len(records), 60):
            decided.batch(records[start : start + 60], random.Random(seed))
        assert decided.published == workshop.expected()


def test_bad_records_leave_through_the_same_stream_and_no_trace_in_the_state(
    workshop: Workshop,
) -> None:
    lines = uneven(6)
    workshop.put([b"nonsense", *lines[:9], b'{"v":1,"kind":"sweep","cluster":"c"}', *lines[9:]])
    decided = Decided(eager())
    decided.batch(records_of(workshop))
    assert {kind: sorted(values) for kind, values in decided.published.items()} == {
        kind: sorted(values) for kind, values in workshop.expected().items()
    }
    (brokers,), (tables,) = decided.values(BROKERS), decided.values(TABLES)
    for rows in (unpack_brokers(brokers), unpack_bytes(tables)):
        assert sorted(rows["c"]) == ["b0:8080", "b1:8080", "b2:8080"]
    assert len(decided.published["rejected"]) == 2


@pytest.mark.parametrize(
    "statuses", [["dry-run"], ["dry-run", "applied"], ["refused", "dry-run", "applied", "dry-run"]]
)
@pytest.mark.parametrize(("size", "most_bytes"), [(1, LARGE), (7, 0), (1000, 0)])
def test_outcomes_of_dry_runs_give_the_bytes_of_the_plain_loop(
    workshop: Workshop, size: int, most_bytes: int, statuses: list[OutcomeStatus]
) -> None:
    workshop.put(answered(uneven(12), statuses))
    expected = workshop.expected()
    assert len(expected["commands"]) > 3
    decided = Decided(eager(), most_bytes=most_bytes)
    assert decided.batches(records_of(workshop), size) == expected


@pytest.mark.parametrize(
    ("size", "way"),
    [(1, (RAW, LARGE)), (1, (PACKED, 0)), (7, (RAW, 0)), (7, (PACKED, LARGE)), (1000, (RAW, 0))],
)
def test_intents_give_the_bytes_of_the_plain_loop(
    workshop: Workshop, size: int, way: tuple[Way, int]
) -> None:
    """Drains of which one is refused, one ends, and a roll; and a note about bundles."""
    lines = uneven(16)
    for at, line in (
        (41, intent(290, "undrain", id="4" * 32, broker="b0:8080")),
        (33, intent(230, "halt", id="3" * 32, roll="2" * 32)),
        (25, intent(170, "roll", id="2" * 32, brokers=["b1:8080"])),
        (14, intent(95, id="1" * 32, broker="no:8080")),
        (13, note("note", 90, note="owned-bundles", broker="b0:8080", report={bundle(40): {}})),
        (9, intent(61, broker="b0:8080")),
        (0, intent(0, broker="b2:8080", id="5" * 32, until_ms=T0 + 60_000)),
    ):
        lines.insert(at, line)
    workshop.put(answered(lines, ["applied"]))
    expected = workshop.expected()
    said = [one for value in expected["rounds"] for one in decode_round(value).intents]
    assert {one.state for one in said} >= {"draining", "refused", "rolling", "halted"}
    assert {"drain"} <= {decode_command(value).code for value in expected["commands"]}
    decided = Decided(eager(), way=way[0], most_bytes=way[1])
    assert decided.batches(records_of(workshop), size) == expected


def answered(lines: Sequence[bytes], statuses: Sequence[OutcomeStatus]) -> list[bytes]:
    """The log with an outcome right after every command, by turns."""
    loop, log, turn = PlainLoop(eager()), list[bytes](), cycle(statuses)
    waiting = deque(lines)
    while waiting:
        log.append(waiting.popleft())
        commands = [
            decode_command(row.value)
            for row in loop.feed(Position("t", 0, len(log)), log[-1])
            if row.kind == "commands"
        ]
        answers = [
            Outcome(one.id, one.cluster, one.bundle, status, None, None, None, 0, one.issued_at_ms)
            for one in commands
            for status in (next(turn), next(turn))
        ]
        waiting.extendleft(encode_outcome_telemetry(one) for one in reversed(answers))
    return log


@contextmanager
def counted_collections() -> Iterator[list[int]]:
    """Generations of Python's collections, with the thresholds that it starts with."""
    found, before = list[int](), gc.get_threshold()

    def note(phase: str, about: Mapping[str, int]) -> None:
        if phase == "start":
            found.append(about["generation"])

    gc.collect()
    gc.callbacks.append(note)
    gc.set_threshold(700, 10, 10)
    try:
        yield found
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)


def test_a_large_report_does_not_make_python_search_all_it_knows_for_cycles(
    workshop: Workshop,
) -> None:
    many = {f"t/ns/0x{16 * i:08x}_0x{16 * i + 16:08x}": 1.0 for i in range(20_000)}
    workshop.put([load_report(loads=many)])
    decided, records = Decided(eager()), records_of(workshop)
    with counted_collections() as found:
        decided.batch(records)
        assert gc.get_threshold() == (700, 10, 10)
    assert 2 not in found
    assert len(found) < 10
