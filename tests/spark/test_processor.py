"""The stateful processor without Spark's engine: the same bytes as the plain loop, however rows and batches are cut and shuffled."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from sinks.file_topic import FileTopicReader, TopicRecord
from sinks.limits import WireLimits
from sinks.signing import SigningSettings, signing_key
from strategies.engine import EngineSettings
from streaming.decode import decoder, pack_entries, unpack_entries
from streaming.processor import ClusterProcessor
from streaming.sources.records import record_batch
from streaming.written import KINDS
from tests.spark.workshop import Workshop, eager, recording, uneven
from tests.telemetry_lines import load_report


class Decided:
    """Feeds records to the processor in batches, as Spark would, and collects what comes out."""

    def __init__(self, engine: EngineSettings, signing: SigningSettings = SigningSettings()) -> None:
        self._tester = TwsTester(ClusterProcessor(engine, signing))
        self.published: dict[str, list[bytes]] = {kind: [] for kind in KINDS}

    def batch(self, records: Sequence[TopicRecord], shuffle: random.Random | None = None) -> None:
        for cluster, packed in rows_of(records, shuffle).items():
            rows = self._tester.test(cluster, [Row(cluster=cluster, packed=value) for value in packed])
            assert [row.seq for row in rows] == list(range(len(rows)))
            for row in rows:
                self.published[row.kind].append(row.value)

    def brokers(self, cluster: str) -> dict[str, tuple[object, ...]]:
        return {key[0]: value for key, value in self._tester.peekMapState("brokers", cluster).items()}

    def tables(self, cluster: str) -> list[str]:
        return sorted(key[0] for key in self._tester.peekMapState("tables", cluster))


def rows_of(records: Sequence[TopicRecord], shuffle: random.Random | None) -> dict[str, list[bytes]]:
    """The rows that reach the stateful stage; shuffled: every record in a row of its own, in random order."""
    rows = [row for batch in decoder(WireLimits())([record_batch(records)]) for row in batch.to_pylist()]
    found: dict[str, list[bytes]] = {}
    for row in rows:
        found.setdefault(row["cluster"], []).append(row["packed"])
    if shuffle is None:
        return found
    return {cluster: shuffled(packed, shuffle) for cluster, packed in found.items()}


def shuffled(packed: Sequence[bytes], shuffle: random.Random) -> list[bytes]:
    single = [row for entry in unpack_entries(packed) for row in pack_entries([entry])]
    shuffle.shuffle(single)
    return single


def records_of(workshop: Workshop) -> list[TopicRecord]:
    return FileTopicReader(workshop.folder / "telemetry", workshop.uri("telemetry")).read()[0]


@pytest.mark.parametrize("strategy", ["threshold", "avg"])
@pytest.mark.parametrize("name", ["modular-broker-joins", "modular-broker-killed"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_recording_gives_the_bytes_of_the_plain_loop(workshop: Workshop, name: str, strategy: str, size: int) -> None:
    workshop.put(recording(name))
    decided, records = Decided(eager(strategy)), records_of(workshop)
    for start in range(0, len(records), size):
        decided.batch(records[start : start + size])
    expected = workshop.expected(eager(strategy))
    assert len(expected["rounds"]) > 10
    assert len(expected["commands"]) > 10
    assert decided.published == expected


def test_with_a_key_commands_are_the_same_bytes_and_signed(workshop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k" * 32, "utf-8")
    signing = SigningSettings(str(tmp_path / "key"))
    key = signing_key(signing)
    assert key is not None
    workshop.put(recording("modular-broker-joins"))
    decided, expected = Decided(eager(), signing), workshop.expected(eager())

    decided.batch(records_of(workshop))

    assert len(expected["commands"]) > 10
    signed = [key.sign(command) for command in expected["commands"]]
    assert decided.published == {**expected, "commands": signed}


def test_rows_in_any_order_give_the_same_bytes(workshop: Workshop) -> None:
    workshop.put(recording("modular-broker-killed"))
    records = records_of(workshop)
    for seed in range(3):
        decided = Decided(eager())
        for start in range(0, len(records), 60):
            decided.batch(records[start : start + 60], random.Random(seed))
        assert decided.published == workshop.expected(eager())


def test_bad_records_leave_through_the_same_stream_and_no_trace_in_the_state(workshop: Workshop) -> None:
    lines = uneven(6)
    workshop.put([b"nonsense", *lines[:9], b'{"v":1,"kind":"sweep","cluster":"c"}', *lines[9:]])
    decided = Decided(eager())
    decided.batch(records_of(workshop))
    assert [len(decided.published[kind]) for kind in KINDS] == [len(workshop.expected(eager())[kind]) for kind in KINDS]
    assert {kind: sorted(values) for kind, values in decided.published.items()} == {
        kind: sorted(values) for kind, values in workshop.expected(eager()).items()
    }
    assert decided.brokers("") == {}
    assert len(decided.published["rejected"]) == 2


def test_state_is_kept_per_broker(workshop: Workshop) -> None:
    workshop.put(uneven(3))
    decided = Decided(eager())
    decided.batch(records_of(workshop))
    assert sorted(decided.brokers("c")) == decided.tables("c") == ["b0:8080", "b1:8080", "b2:8080"]


def test_two_clusters_know_nothing_of_each_other(workshop: Workshop, tmp_path: Path) -> None:
    one, other = uneven(5, "one"), uneven(5, "other", brokers=4)
    workshop.put([line for pair in zip(one, other, strict=False) for line in pair])
    together = Decided(eager())
    for record in records_of(workshop):
        together.batch([record])
    for cluster, lines in (("one", one[: len(other)]), ("other", other[: len(one)])):
        alone = Workshop(tmp_path / cluster)
        alone.put(lines)
        mine = f'"cluster":"{cluster}"'.encode()
        assert [value for value in together.published["rounds"] if mine in value] == alone.expected(eager())["rounds"]
        assert [value for value in together.published["commands"] if mine in value] == alone.expected(eager())["commands"]


def test_a_cluster_of_one_report_says_nothing(workshop: Workshop) -> None:
    workshop.put([load_report()])
    decided = Decided(eager())
    decided.batch(records_of(workshop))
    assert decided.published == {kind: [] for kind in KINDS}
