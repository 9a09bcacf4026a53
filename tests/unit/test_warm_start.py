"""Where a new checkpoint begins, with which epoch, what it does not publish, and when that ends."""

import json
from collections.abc import Callable, Mapping
from dataclasses import astuple, replace
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from pulsar_rebalancer.doctor.disk_and_topics import check_checkpoint
from sinks.metrics.http_server_and_probes import Liveness
from sinks.topics.epochs import histories, next_epoch
from sinks.topics.files.segments import Offset, segments
from sinks.topics.files.topic import FileTopicReader, FileTopicWriter
from sinks.topics.kafka.settings import KafkaSettings
from sinks.topics.open_topics import ends
from sinks.topics.pulsar.partition import MessageId
from sinks.topics.topic_settings import Connections, file_topic_uri
from strategies.errors import SinkError
from strategies.fold.engine import EngineSettings
from streaming.checkpoint.guard import LOCKS, guarded
from streaming.checkpoint.remembered_and_changed_settings import (
    GUARD,
    Warming,
    WarmStart,
    guard_of,
    read_guard,
)
from streaming.checkpoint.spark_checkpoint_files import moved_aside
from streaming.first_start import (
    Used,
    end_warm_start,
    read_job_before,
    warming,
    window_minutes,
    with_start,
)
from streaming.settings import JobSettings
from streaming.sources.file_places import offset_since
from tests.control_topic import Control, command
from tests.telemetry_lines import T0, load_report, sweep
from tests.topic_uris import topic_of, topics_of

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
ENGINE = EngineSettings()


def a_job(folder: Path, **settings: object) -> JobSettings:
    names = ("telemetry", "commands", "rounds", "rejected")
    topics = topics_of(**{name: file_topic_uri(folder / name) for name in names})
    made = JobSettings(str(folder / "checkpoint"), connections=Connections(topics=topics))
    return replace(made, **settings)  # type: ignore[arg-type]


def put(folder: Path, topic: str, *lines: bytes) -> None:
    with FileTopicWriter(folder / topic) as writer:
        writer.append(lines)


def a_round(
    seconds: float, cluster: str = "c", *asked: tuple[str, float], number: int = 1
) -> bytes:
    """`asked`: state of an intent, and when it was asked, in seconds."""
    intents = [{"state": state, "asked_ms": T0 + round(1000 * since)} for state, since in asked]
    return json.dumps(
        {"cluster": cluster, "ts": T0 + round(1000 * seconds), "round": number, "epoch": 1}
        | ({"intents": intents} if intents else {})
    ).encode()


def decided(job: JobSettings, later_ms: int = HOUR_MS) -> tuple[WarmStart | None, list[str]]:
    """What a new checkpoint decides, and says, this long after T0."""
    said: list[str] = []
    return warming(job, ENGINE, said.append, lambda: T0 + later_ms).decide(), said


def test_the_window_ends_at_the_newest_round_and_the_boundary_at_the_end(tmp_path: Path) -> None:
    put(tmp_path, "telemetry", sweep(0), sweep(1200), sweep(1300))
    put(tmp_path, "rounds", a_round(0), a_round(1200), b"nonsense")
    warm, (said,) = decided(a_job(tmp_path, warm_start_minutes=5))
    assert warm is not None
    assert warm.since_ms == T0 + 1_200_000 - 5 * MINUTE_MS
    size = (tmp_path / "telemetry" / "segment-00000000.jsonl").stat().st_size
    assert (warm.until, warm.done) == ({0: size}, False)
    assert "5 minutes before the newest round of the job before" in said


def test_a_start_that_reads_long_topics_works(tmp_path: Path) -> None:
    put(tmp_path, "telemetry", sweep(0), sweep(1200))
    put(tmp_path, "rounds", *(a_round(seconds) for seconds in range(100, 1200, 100)))
    turns: list[None] = []
    job = a_job(tmp_path, warm_start_minutes=5)
    found = warming(job, ENGINE, on_record=lambda: turns.append(None))
    assert (found.decide() is not None, len(turns)) == (True, 11)


def test_a_clock_that_is_behind_the_rounds_counts(tmp_path: Path) -> None:
    put(tmp_path, "telemetry", sweep(0))
    put(tmp_path, "rounds", a_round(7200))
    warm, _ = decided(a_job(tmp_path, warm_start_minutes=5), later_ms=HOUR_MS)
    assert warm is not None
    assert warm.since_ms == T0 + HOUR_MS - 5 * MINUTE_MS


def test_topics_that_no_job_has_used_are_read_and_published_whole(tmp_path: Path) -> None:
    put(tmp_path, "telemetry", sweep(0))
    assert decided(a_job(tmp_path)) == (None, [])
    put(tmp_path, "rounds", a_round(0, "another cluster's"))
    assert decided(a_job(tmp_path)) == (None, [])
    put(tmp_path, "rounds", a_round(0, "c"))
    assert decided(a_job(tmp_path))[0] is not None
    assert decided(a_job(tmp_path, warm_start_minutes=0)) == (None, [])


def test_a_drain_that_lasts_is_read_again_however_long_ago_it_was_asked(tmp_path: Path) -> None:
    put(tmp_path, "telemetry", sweep(0), sweep(90_000))
    put(tmp_path, "rounds", a_round(90_000, "c", ("done", 10), ("drained", 600)))
    put(tmp_path, "rounds", a_round(90_000, "another", ("draining", 80_000)), a_round(90_000, "d"))
    warm, (said,) = decided(a_job(tmp_path, warm_start_minutes=5), 30 * HOUR_MS)
    assert warm is not None
    assert warm.since_ms == T0 + 600_000 - ENGINE.round.max_clock_jump_ms
    assert "(a drain or roll of that time lasts in c, and the commands of all clusters wait" in said
    assert "; without it, 5 minutes before the newest round" in said


def test_drains_of_clusters_that_have_gone_do_not_count(tmp_path: Path) -> None:
    gone, lasting = (a_round(0, "gone", ("draining", -600)), a_round(80_000, "c", ("draining", -1)))
    put(tmp_path, "rounds", gone, lasting, a_round(90_000))
    job = a_job(tmp_path)
    used = read_job_before(job.connections.topics.rounds, job.connections)
    assert used == Used(T0 + 90_000_000, {"gone": (T0, T0 - 600_000), "c": (T0 + 90_000_000, None)})
    now_ms, day_ms = T0 + 10**9, 24 * HOUR_MS
    assert used.since(now_ms, HOUR_MS, 0, day_ms) == (T0 + 90_000_000 - HOUR_MS, None)
    assert used.since(now_ms, HOUR_MS, 0, 2 * day_ms) == (T0 - 600_000, "gone"), "only silent"
    assert used.since(now_ms, HOUR_MS, 0, 0) == (T0 - 600_000, "gone"), "none is forgotten"


def test_the_newest_round_is_that_with_the_highest_number_though_the_clock_was_put_back(
    tmp_path: Path,
) -> None:
    ahead, put_back = a_round(86_400, number=7), a_round(60, "c", ("drained", -600), number=8)
    put(tmp_path, "rounds", ahead, put_back, ahead)
    job = a_job(tmp_path)
    used = read_job_before(job.connections.topics.rounds, job.connections)
    assert used == Used(T0 + 60_000, {"c": (T0 + 60_000, T0 - 600_000)})


def test_a_start_position_that_the_settings_name_wins() -> None:
    topics = topics_of(telemetry="kafka://host:9092/telemetry")
    named = Connections(topics=topics, kafka=KafkaSettings(start="latest"))
    said: list[str] = []
    found = warming(JobSettings(connections=named), ENGINE, said.append)
    assert (found.minutes, found.decide()) == (0, None)
    assert said == ["no warm start: kafka.start names where this new checkpoint begins"]
    assert with_start(named, WarmStart(T0, {})).kafka.start == str(T0)


def test_by_default_the_window_is_what_the_settings_of_the_engine_need() -> None:
    job = JobSettings()
    assert 500 < window_minutes(job, EngineSettings("threshold")) < 600
    assert window_minutes(job, ENGINE) > window_minutes(job, EngineSettings("threshold"))
    assert window_minutes(replace(job, warm_start_minutes=7), ENGINE) == 7


ON_FILES = {4: 2**63 - 1, 5: 100}
ON_KAFKA = {0: 8, 1: 3, 2: 0}
ON_PULSAR = {0: MessageId(7, 2, 1).offset + 1, 1: MessageId(9, 0, 0).offset + 1}


@pytest.mark.parametrize(
    ("until", "end", "passed"),
    [
        (ON_FILES, '{"segment": 4, "byte": 99, "records": 7}', False),
        (ON_FILES, '{"segment": 5, "byte": 99, "records": 7}', False),
        (ON_FILES, '{"segment": 5, "byte": 100, "records": 7}', True),
        (ON_FILES, '{"segment": 6, "byte": 0, "records": 7}', True),
        (ON_FILES, None, False),
        (ON_FILES, "nonsense", False),
        (ON_KAFKA, '{"telemetry": {"0": 7, "1": 3, "2": 0}}', False),
        (ON_KAFKA, '{"telemetry": {"0": 8, "1": 2, "2": 0}}', False),
        (ON_KAFKA, '{"telemetry": {"0": 8, "1": 3, "2": 0}}', True),
        (ON_PULSAR, '{"0": [7, 2, 1, 40]}', False),
        (ON_PULSAR, '{"0": [7, 2, 0, 39], "1": [9, 0, 0, 1]}', False),
        (ON_PULSAR, '{"0": [7, 2, 1, 40], "1": [-1, -1, -1, 0]}', False),
        (ON_PULSAR, '{"0": [7, 2, 1, 40], "1": [9, 0, 0, 1], "2": [1, 1, 1, 1]}', True),
    ],
)
def test_it_ends_when_all_partitions_have_been_read(
    until: Mapping[int, int], end: str | None, passed: bool
) -> None:
    assert WarmStart(0, until).passed(end) == passed


def test_the_guard_keeps_it_and_its_end(tmp_path: Path) -> None:
    warm = WarmStart(T0, {0: 10, 3: 2**63 - 1})
    guard = guard_of(a_job(tmp_path), ENGINE)
    with guarded(tmp_path, guard, warming=Warming(5, lambda: warm)) as held:
        assert held.guard.warm == warm
    never = Warming(5, lambda: pytest.fail("decided once"))
    with guarded(tmp_path, guard, warming=never) as held:
        assert held.guard.warm == warm
    end_warm_start(tmp_path, held.guard)
    with guarded(tmp_path, guard, warming=never) as held:
        assert held.guard.warm == replace(warm, done=True)
    assert read_guard(tmp_path).warm == replace(warm, done=True)


def other_format(folder: Path, epoch: int = 1) -> None:
    """A checkpoint of an older version, with state."""
    guard = replace(guard_of(a_job(folder), ENGINE), product="0.0.1", state={"rows": 1})
    with guarded(folder / "checkpoint", guard, lambda: epoch):
        (folder / "checkpoint" / "offsets").mkdir(exist_ok=True)


def entries(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def moved(folder: Path, following: int = 1) -> tuple[Path | None, int]:
    """Where a start with a warm start moves the checkpoint, and its epoch."""
    guard = guard_of(a_job(folder), ENGINE)
    with guarded(folder / "checkpoint", guard, lambda: following, warming=Warming(5)) as held:
        return held.aside, held.epoch


def test_state_of_another_format_is_moved_aside_as_often_as_needed(tmp_path: Path) -> None:
    """A copy of what was moved aside gets a place of its own."""
    folder = tmp_path / "checkpoint"
    for name in ("checkpoint.rows-1", "checkpoint.rows-1-1"):
        other_format(tmp_path)
        assert moved(tmp_path, 7) == (tmp_path / name, 7)
        assert entries(tmp_path / name) == ["offsets", GUARD]
        assert not (folder / "offsets").exists()
        (folder / GUARD).unlink()
    rmtree(folder)
    copytree(tmp_path / "checkpoint.rows-1", folder)
    assert moved(tmp_path)[0] == tmp_path / "checkpoint.rows-1-2"


def test_a_kill_while_it_is_moved_leaves_it_to_the_next_start(tmp_path: Path) -> None:
    """The guard file is moved last."""
    folder, aside = tmp_path / "checkpoint", tmp_path / "checkpoint.rows-1"
    other_format(tmp_path)
    (folder / "commits").mkdir()
    aside.mkdir()
    (folder / "commits").rename(aside / "commits")
    assert moved(tmp_path)[0] == aside
    assert entries(aside) == ["commits", "offsets", GUARD]


def test_a_start_that_fails_before_it_has_begun_anew_leaves_it_in_its_place(tmp_path: Path) -> None:
    """The epoch of the old one is remembered nowhere else."""
    folder, guard = tmp_path / "checkpoint", guard_of(a_job(tmp_path), ENGINE)
    other_format(tmp_path, epoch=7)

    def away() -> int:
        raise SinkError("the servers do not answer")

    with pytest.raises(SinkError), guarded(folder, guard, away, warming=Warming(5)):
        pytest.fail("cannot begin")
    assert moved(tmp_path) == (tmp_path / "checkpoint.rows-1", 8)


def test_a_kill_before_the_new_guard_is_written_leaves_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    other_format(tmp_path, epoch=7)
    old = (folder / GUARD).read_text()
    aside = moved_aside(folder, {"rows": 1}, GUARD, LOCKS)
    assert (folder / GUARD).read_text() == old
    assert moved(tmp_path) == (aside, 8)
    assert (aside / GUARD).read_text() == old
    assert entries(aside) == ["offsets", GUARD]


def test_doctor_says_what_the_next_start_does_and_leaves_it_to_it(tmp_path: Path) -> None:
    other_format(tmp_path)
    found = check_checkpoint(a_job(tmp_path, warm_start_minutes=30), ENGINE)
    assert (found.status, "another state format" in found.text) == ("warn", True)
    assert "the telemetry of the last 30 minutes without publishing" in found.remedy
    assert read_guard(tmp_path / "checkpoint").product == "0.0.1"
    off = check_checkpoint(a_job(tmp_path, warm_start_minutes=0), ENGINE)
    assert off.status == "fail"


def test_the_ends_of_a_file_topic_are_those_of_its_whole_lines(tmp_path: Path) -> None:
    uri = a_job(tmp_path).connections.topics.telemetry
    assert ends(uri) == {0: 0}
    with FileTopicWriter(tmp_path / "telemetry", segment_bytes=300) as writer:
        for seconds in range(9):
            writer.append([sweep(seconds)])
    numbers = segments(tmp_path / "telemetry")
    assert len(numbers) > 2
    last = tmp_path / "telemetry" / f"segment-{numbers[-1]:08d}.jsonl"
    whole = last.stat().st_size
    with last.open("ab") as file:
        file.write(b'{"half a')
    assert ends(uri) == {**dict.fromkeys(numbers[:-1], 2**63 - 1), numbers[-1]: whole}


@pytest.mark.heavy
@pytest.mark.parametrize("segment_bytes", [20_000, 10**9])
def test_the_place_of_a_time_is_found_with_few_reads(tmp_path: Path, segment_bytes: int) -> None:
    """One of seven brokers has a clock that is a day ahead, and some lines have no time."""
    folder = tmp_path / "telemetry"
    ahead_s = [86_400 if number % 7 == 3 else 0 for number in range(3_000)]
    lines = [load_report(f"b{at % 7}", at + ahead) for at, ahead in enumerate(ahead_s)]
    lines[::11] = [b"no record"] * len(lines[::11])
    with FileTopicWriter(folder, segment_bytes=segment_bytes) as writer:
        for first in range(0, len(lines), 50):
            writer.append(lines[first : first + 50])
    for seconds in (0, 700, 1_500, 2_999, 5_000):
        records, _ = FileTopicReader(folder).read(offset_since(folder, T0 + seconds * 1000))
        begun = len(lines) - len(records)
        assert begun <= seconds, "nothing is left out"
        assert begun >= min(seconds, 2_950) - 500, "and little is read in vain"
    assert offset_since(tmp_path / "nowhere", T0) == Offset(0, 0)


def told(*epochs: int, cluster: str = "c") -> list[bytes]:
    """Rounds, with no more in them than is looked at."""
    return [b'{"v":1,"cluster":"%s","epoch":%d}' % (cluster.encode(), epoch) for epoch in epochs]


def following(control: Control, on_record: Callable[[], None] = lambda: None) -> int:
    topics = (topic_of(control.uri("rounds")), topic_of(control.uri("commands")))
    return next_epoch(topics, on_record=on_record)


def test_where_nothing_was_told_the_first_epoch_is_next(control: Control) -> None:
    assert following(control) == 1


def test_a_process_that_reads_long_topics_works(control: Control) -> None:
    """Reading takes minutes: a probe that ends the process would end the next one, too."""
    now = 0
    liveness = Liveness(300, "a micro-batch", clock=lambda: now)
    control.write("rounds", told(*range(1, 9)))

    def a_minute_later() -> None:
        nonlocal now
        assert liveness.not_healthy() == ""
        liveness.turned()
        now += 60

    assert following(control, a_minute_later) == 9
    assert now == 8 * 60


def test_the_next_epoch_is_above_all_rounds_and_commands(control: Control) -> None:
    no_rounds = [b'{"epoch":9}', b"\xff no JSON"]
    control.write("rounds", [*told(2, 4), *told(3, cluster="other"), *no_rounds])
    assert following(control) == 5

    control.send(command("t/ns/0x00000000_0xffffffff", "a:1", epoch=6))
    assert following(control) == 7


def test_the_last_epoch_of_all_has_no_next_one(control: Control) -> None:
    control.write("rounds", told(2**53))
    with pytest.raises(SinkError, match="use new topics"):
        following(control)


def test_rounds_of_an_older_epoch_behind_newer_ones_are_late(control: Control) -> None:
    for epochs, other in (((1, 1), 1), ((2, 1, 2, 1, 2, 2), 2)):
        control.write("rounds", [*told(*epochs), *told(other, cluster="other")])

    found = histories(topic_of(control.uri("rounds")))

    assert astuple(found["c"])[:5] == ({1, 2}, 2, 2, 1, 2)
    assert astuple(found["other"])[:5] == ({1, 2}, 2, 0, 0, 2)
