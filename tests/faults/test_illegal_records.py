"""Thousands of illegal records in a recording: no decision changes, and each is on the rejected
topic once, with its place and reason.
"""

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from sinks.wire.event_to_topic_rows import OutputRow
from sinks.wire.record_decoding import DEFAULT_LIMITS, Position, decode_rejected
from strategies.fold.engine import EngineSettings
from tests.illegal_records import CODES, illegal_lines, oversized
from tests.telemetry_lines import dumps
from tools.processes.real_job import RealJob, eager, recording

pytestmark = pytest.mark.faults

CLOCKS = ("clock-ahead", "clock-behind")
RECORDINGS = ("modular-broker-joins", "modular-broker-killed")


#: How illegal records may lie in a log: `broken-clocks-first` puts the reports from the future
#: before everything else.
PLACEMENTS = ("scattered", "at-the-start", "one-block", "after-the-end", "broken-clocks-first")
#: What is illegal only after the line it was made of. When that one is long ago, its lateness is
#: what is told first.
_LATER = {"out-of-order": {"clock-behind"}}


@dataclass(frozen=True, slots=True)
class Bad:
    """An illegal record: its kind (see `CODES`), its bytes, and the codes its rejected row may
    carry where it was put.
    """

    kind: str
    line: bytes
    codes: frozenset[str]


Mixed = Sequence[bytes | Bad]


def mix(
    legal: Sequence[bytes], count: int, seed: int, placement: str, *, more: Iterable[Bad] = ()
) -> Mixed:
    """The legal lines in their order, with `count` illegal ones made by the seed, and `more`, put
    between them.
    """
    rng = random.Random(seed)
    block = rng.randrange(len(legal) // 4, len(legal))
    slots: defaultdict[int, list[Bad]] = defaultdict(list)
    for index, kind, line in illegal_lines(legal, count, seed):
        slot = _slot(rng, placement, kind, block, len(legal))
        slots[max(slot, index + 1) if kind in _LATER else slot].append(
            Bad(kind, line, CODES[kind] | _LATER.get(kind, set()))
        )
    for bad in more:
        slots[rng.randint(0, len(legal))].append(bad)
    mixed: list[bytes | Bad] = []
    for index in range(len(legal) + 1):
        mixed += (*slots[index], *legal[index : index + 1])
    return mixed


def lines(mixed: Mixed) -> list[bytes]:
    return [entry.line if isinstance(entry, Bad) else entry for entry in mixed]


def places(mixed: Mixed) -> Mapping[int, Bad]:
    """The illegal records by their byte in a topic of one segment."""
    found, offset = {}, 0
    for entry, line in zip(mixed, lines(mixed), strict=True):
        if isinstance(entry, Bad):
            found[offset] = entry
        offset += len(line) + 1
    return found


def _slot(rng: random.Random, placement: str, kind: str, block: int, end: int) -> int:
    """Before which legal line."""
    match placement:
        case "at-the-start":
            return 0
        case "one-block":
            return block
        case "after-the-end":
            return end
        case "broken-clocks-first" if kind == "from-the-future":
            return 0
        case _:
            return rng.randint(0, end)


def plain(engine: EngineSettings, log: Sequence[bytes], topic: str = "t") -> list[OutputRow]:
    """What the plain loop makes of a log in one segment."""
    loop, rows, offset = PlainLoop(engine), [], 0
    for line in log:
        rows += loop.feed(Position(topic, 0, offset), line)
        offset += len(line) + 1
    return rows


def values(rows: Sequence[OutputRow], *kinds: str) -> list[bytes]:
    return [row.value for row in rows if row.kind in kinds]


def without_clocks(rounds: Sequence[bytes]) -> list[bytes]:
    """Rounds name brokers whose clock is wrong: the only trace that an illegal record may leave in
    them.
    """
    trees = [json.loads(done) for done in rounds]
    return [
        dumps(tree | {"skips": [skip for skip in tree["skips"] if skip["code"] not in CLOCKS]})
        for tree in trees
    ]


def check_rejected(told: Sequence[bytes], mixed: Mixed, topic: str) -> None:
    """Every illegal record exactly once: its place, a code that fits its kind, a sentence, and its
    bytes (or their beginning).
    """
    bad = places(mixed)
    rows = [decode_rejected(value) for value in told]
    assert sorted(row.offset for row in rows) == sorted(bad), (
        "some illegal record is missing, told twice, or a legal one was rejected"
    )
    for row in rows:
        record = bad[row.offset]
        size, kept = len(record.line), record.line
        if size > DEFAULT_LIMITS.max_record_bytes:
            kept = record.line[: DEFAULT_LIMITS.kept_bytes]
        assert row.code in record.codes, f"{record.kind} at {row.offset}: {row.code}: {row.text}"
        assert (row.topic, row.partition, row.original, row.size) == (topic, 0, kept, size)
        assert len(row.text) > 20
        assert "Traceback" not in row.text


def check_plain(engine: EngineSettings, legal: Sequence[bytes], mixed: Mixed) -> None:
    clean, rows = plain(engine, legal), plain(engine, lines(mixed))
    assert values(clean, "rounds")
    assert not values(clean, "rejected")
    assert values(rows, "commands") == values(clean, "commands")
    assert without_clocks(values(rows, "rounds")) == without_clocks(values(clean, "rounds"))
    check_rejected(values(rows, "rejected"), mixed, "t")


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_2000_illegal_records_change_nothing_wherever_they_lie(placement: str) -> None:
    legal = recording(RECORDINGS[PLACEMENTS.index(placement) % 2])
    check_plain(eager("threshold"), legal, mix(legal, 2_000, len(placement), placement))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    st.sampled_from(RECORDINGS),
    st.integers(0, 2**32),
    st.sampled_from(PLACEMENTS),
    st.integers(1, 120),
    st.sampled_from(("threshold", "avg")),
)
def test_any_mixture_of_illegal_records_changes_nothing(
    name: str, seed: int, placement: str, count: int, strategy: str
) -> None:
    legal = recording(name)[: 20 + seed % 180]
    check_plain(eager(strategy), legal, mix(legal, count, seed, placement))


@pytest.mark.parametrize("hours", [1, -1, 24, 24 * 365])
def test_111_reports_of_one_clock_that_is_wrong_change_nothing(hours: int) -> None:
    """They agree with each other, some of them lie before the first true report, and yet they must
    not be taken for the truth.
    """
    legal = recording(RECORDINGS[hours % 2])
    rng = random.Random(hours)
    reports = [line for line in legal if b'"load-report"' in line]
    codes = frozenset({"clock-ahead" if hours > 0 else "clock-behind", "duplicate", "out-of-order"})
    wrong = [Bad("wrong-clock", shifted(rng.choice(reports), hours), codes) for _ in range(111)]
    check_plain(eager("threshold"), legal, mix(legal, 0, hours, "scattered", more=wrong))


def shifted(line: bytes, hours: int) -> bytes:
    tree = json.loads(line)
    return dumps(tree | {"ts": tree["ts"] + hours * 3_600_000})


@pytest.mark.servers
@pytest.mark.spark
def test_2000_illegal_records_and_one_of_50_mib_change_nothing_in_the_real_job(
    tmp_path: Path,
) -> None:
    legal = recording(RECORDINGS[1])
    kind, line = oversized(random.Random(50), recording(RECORDINGS[0])[1], 50 * 2**20)
    mixed = mix(legal, 2_000, 1, "scattered", more=[Bad(kind, line, CODES[kind])])
    job = RealJob(tmp_path, max_records_per_batch=700)
    job.publish(lines(mixed))
    job.drain()
    clean = plain(job.engine, legal)
    assert job.published("commands") == values(clean, "commands")
    assert without_clocks(job.published("rounds")) == without_clocks(values(clean, "rounds"))
    check_rejected(job.published("rejected"), mixed, job.telemetry_uri)
