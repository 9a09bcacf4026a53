"""Replay on the plain loop: what is shown, what is kept, in which order, and what is said when
something is wrong.
"""

import gzip
import json
from pathlib import Path

import pytest

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.lab.replay.decisions import collect, write
from sinks.wire.event_to_topic_rows import OutputRow
from sinks.wire.record_decoding import decode_rejected
from tests.unit.command_line import rebalancer
from tests.world.uneven_log import EAGER_WORDS, recorded, uneven

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "recordings"
AVG = ("--set", "shedding.strategy=avg")
RECORDINGS = [*sorted((ROOT / "tests/data/recordings").glob("*.gz")), *sorted(SHARED.glob("*.gz"))]


def test_decisions_are_printed_one_per_line_and_summed_up(tmp_path: Path) -> None:
    answer = rebalancer("replay", recorded(tmp_path, uneven()), *EAGER_WORDS)

    lines = answer.out.splitlines()
    assert answer.code == 0
    assert any(
        line.startswith("c: round 1 transfer t/ns/") and "hot:1 → idle:1" in line for line in lines
    )
    assert any(line.startswith("c: round 3 at ") for line in lines)
    assert lines[-2].split()[:2] == ["c", "3"]
    assert lines[-1] == "spread: highest minus lowest usage of the brokers, in percentage points"


def test_a_rejected_record_is_placed_in_the_recording(tmp_path: Path) -> None:
    lines = uneven()
    log = recorded(tmp_path, [lines[0], b"", b"\xff", *lines[1:]])

    rebalancer("replay", log, "--out", tmp_path / "out")

    lines_of = contents(tmp_path / "out")["rejected.jsonl"].splitlines()
    rejected = [decode_rejected(line) for line in lines_of]
    start = len(lines[0]) + 1
    assert [(one.topic, one.partition, one.offset, one.original) for one in rejected] == [
        ("log.jsonl", 0, start, b""),
        ("log.jsonl", 0, start + 1, b"\xff"),
    ]


@pytest.mark.heavy
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda file: f"{file.parts[-3]}-{file.name}")
def test_the_same_recording_gives_the_same_bytes(tmp_path: Path, recording: Path) -> None:
    for name in ("first", "second"):
        assert rebalancer("replay", recording, "--out", tmp_path / name, *EAGER_WORDS).code == 0

    assert contents(tmp_path / "first") == contents(tmp_path / "second")
    assert contents(tmp_path / "first")["rounds.jsonl"]


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_second_replay_replaces_the_files_of_the_first(tmp_path: Path) -> None:
    log = recorded(tmp_path, uneven())
    rebalancer("replay", log, "--out", tmp_path / "new" / "out", *EAGER_WORDS)
    rebalancer("replay", log, "--out", tmp_path / "new" / "out", *AVG, "--set", "round.epoch=2")

    files = contents(tmp_path / "new" / "out")
    assert sorted(files) == ["commands.jsonl", "rejected.jsonl", "rounds.jsonl"]
    assert files["commands.jsonl"] == b""
    assert all(json.loads(line)["epoch"] == 2 for line in files["rounds.jsonl"].splitlines())


def test_the_summary_as_json(tmp_path: Path) -> None:
    log = recorded(tmp_path, [*uneven(), b"oops", b"[]"])

    answer = rebalancer("replay", log, "--json", "--out", tmp_path / "out")

    assert answer.code == 0
    expected = {
        "kind": "replay",
        "v": 1,
        "recording": str(log),
        "records": 11,
        "strategy": "steady",
        "mode": "fixed",
        "rounds": 3,
        "rejected": {"total": 2, "by_code": {"not-json": 1, "not-object": 1}},
    }
    assert answer.json | expected == answer.json
    nobody, cluster = answer.json["clusters"]
    assert (nobody["cluster"], nobody["rejected"], nobody["last_spread"]) == (None, 2, None)
    assert (cluster["cluster"], cluster["rounds"], cluster["rejected"]) == ("c", 3, 0)
    assert cluster["first_spread"]["range"] > 0.5 > cluster["last_spread"]["range"]


def test_fail_on_imbalance(tmp_path: Path) -> None:
    log = recorded(tmp_path, uneven())

    words = ("replay", log, "--json", "--fail-on-imbalance", *AVG)

    uneven_enough = rebalancer(*words)
    even_enough = rebalancer(*words, "--set", "shedding.avg.low_threshold=95")

    assert uneven_enough.code == 3
    assert uneven_enough.err.startswith("c: a spread of 8")
    assert (even_enough.code, even_enough.err) == (0, "")


def test_fail_on_imbalance_of_the_default_strategy(tmp_path: Path) -> None:
    """SteadyShedder judges gaps that last: after one round it cannot call a cluster even or not."""
    log = recorded(tmp_path, uneven(rounds=1))

    answer = rebalancer("replay", log, "--json", "--fail-on-imbalance")

    assert answer.code == 3
    assert answer.err.endswith(" [waiting-for-samples]\n")
    assert "consider" not in answer.err


@pytest.mark.heavy
def test_settings_of_a_strategy_that_does_not_run_are_named(tmp_path: Path) -> None:
    """As in a settings file from before the default was `steady`."""
    log, avg = recorded(tmp_path, uneven()), ("--set", "shedding.avg.hit_count_high=1")

    assert rebalancer("replay", log, *avg).err == (
        'warning: shedding.avg has no effect: shedding.strategy is "steady", the default; to use '
        'shedding.avg, set shedding.strategy = "avg"\n'
    )
    for named in ("avg", "threshold"):
        answer = rebalancer("replay", log, *avg, "--set", f"shedding.strategy={named}")
        assert (answer.code, answer.err) == (0, "")


def test_nothing_to_decide(tmp_path: Path) -> None:
    answer = rebalancer("replay", recorded(tmp_path, uneven(rounds=1)[:1]))

    told = "Nothing was decided: no round closed and no record was rejected.\n"
    assert (answer.code, answer.out) == (0, told)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "holds no record"),
        ([b"hello"], "its only record cannot be used"),
        ([b"hello", b"{}"], "none of its 2 records can be used"),
    ],
)
@pytest.mark.parametrize(
    "command", [("replay",), ("backtest",), ("tune", "--trials", "1"), ("convert", "x.parquet")]
)
def test_a_file_of_something_else_is_an_error(
    tmp_path: Path, command: tuple[str, ...], lines: list[bytes], told: str
) -> None:
    name, *more = command
    target = [str(tmp_path / word) if word == "x.parquet" else word for word in more]

    answer = rebalancer(name, recorded(tmp_path, lines), *target)

    assert answer.code == exit_codes.ERROR
    assert told in answer.err.splitlines()[-1]
    assert "name a recording of load reports" in answer.err
    assert not (tmp_path / "x.parquet").exists()


def test_what_was_rejected_is_kept_and_counted_even_when_it_is_everything(tmp_path: Path) -> None:
    log = recorded(tmp_path, [b"hello"])

    answer = rebalancer("replay", log, "--out", tmp_path / "out", "--json")

    assert answer.code == exit_codes.ERROR
    assert answer.json["rejected"] == {"total": 1, "by_code": {"not-json": 1}}
    assert len((tmp_path / "out" / "rejected.jsonl").read_bytes().splitlines()) == 1


def test_a_damaged_recording_says_how_far_it_was_good(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(line + b"\n" for line in uneven(rounds=40)))
    log = tmp_path / "log.jsonl.gz"
    log.write_bytes(whole[: len(whole) // 2])

    answer = rebalancer("replay", log, "--out", tmp_path / "out")

    assert (answer.code, answer.out) == (1, "")
    assert f"{log} is damaged after line" in answer.err
    assert not (tmp_path / "out").exists()


def test_rows_that_were_published_twice_count_once(tmp_path: Path) -> None:
    row = OutputRow("commands", "c", b'{"id":"1"}')

    files = write(collect([row, OutputRow("commands", "b", b'{"id":"0"}'), row]), tmp_path)

    assert files["commands"].read_bytes() == b'{"id":"0"}\n{"id":"1"}\n'
