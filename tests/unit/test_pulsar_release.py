"""`pulsar.version = "auto"`: the oldest broker decides, by what telemetry or a recording says; the
checkpoint keeps the answer.
"""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_rebalancer.doctor.admin_and_clocks import in_release_of_checkpoint
from pulsar_rebalancer.lab.recorded_release import recorded_release
from pulsar_rebalancer.settings.merge_sources import load
from sinks.recordings.copy_topic import converted
from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.topic_settings import Connections
from sinks.wire.raw_broker_reports import brokers_in
from sinks.wire.record_decoding import WireLimits
from strategies.errors import SettingsError
from strategies.fold.engine import EngineSettings
from strategies.java.pulsar_versions_and_defaults import PulsarRelease, read_version, release_of
from streaming.checkpoint.guard import guarded, other_settings
from streaming.checkpoint.remembered_and_changed_settings import (
    GUARD,
    guard_of,
    read_guard,
    write_guard,
    written_guard,
)
from streaming.first_start import resolve_release, versions_seen
from streaming.settings import JobSettings
from tests.telemetry_lines import line
from tests.topic_uris import topics_of
from tests.unit.command_line import rebalancer


@pytest.mark.parametrize(
    ("text", "release", "exact"),
    [
        ("4.2.4", "4.2", True),
        ("4.2.0-SNAPSHOT", "4.2", True),
        ("5.0.1", "5.0", True),
        ("5.0.0", "5.0", True),
        ("5.0.0-rc-1", "5.0", True),
        # Milestones of 5.0 still had the rules and defaults of 4.2.
        ("5.0.0-M1", "4.2", True),
        ("5.0.0-M2", "4.2", True),
        ("4.0.0.3-vendor", "4.2", False),
        ("3.0.17", "4.2", False),
        ("4.10.2", "4.2", False),
        ("5.1.0", "5.0", False),
        ("6.1", "5.0", False),
    ],
)
def test_a_version_has_the_rules_of_the_nearest_release(
    text: str, release: str, exact: bool
) -> None:
    found = read_version(text)
    assert found is not None
    assert (found.release, found.exact) == (release, exact)


@pytest.mark.parametrize("text", ["", "5", "five", "v5.0.1", "5..0", "99999.0", "5,0", "٥.٠"])
def test_other_texts_are_no_version(text: str) -> None:
    assert read_version(text) is None


def test_the_oldest_broker_decides() -> None:
    found = release_of({"b1": "5.0.1", "b2": "4.2.10", "b3": "4.10.0", "b4": "4.2.9"})
    assert (found.release, found.oldest, found.brokers) == ("4.2", ("b4", "4.2.9"), 4)
    assert found.why == "b4, the oldest of 4 brokers, runs 4.2.9"
    assert "brokers run 4.2.9 to 5.0.1: the rules of the oldest, 4.2, apply" in found.remarks


NOT_KNOWN = "whose rules are not known: those of {}, the nearest known release, stand for them"


@pytest.mark.parametrize(
    ("versions", "release", "remarks"),
    [
        ({}, "4.2", []),
        ({"b1": "5.0.1", "b2": "5.0.0"}, "5.0", []),
        (
            dict.fromkeys(("b1", "b2", "b3"), "6.1.0"),
            "5.0",
            [f"b1 and 2 more run Pulsar 6.1.0, {NOT_KNOWN.format('5.0')}"],
        ),
        ({"b1": "3.0.1"}, "4.2", [f"b1 runs Pulsar 3.0.1, {NOT_KNOWN.format('4.2')}"]),
        (
            {"b1": "\x1b[31mfive", "b2": "5.0.1"},
            "5.0",
            ["b1 reports '?[31mfive', which is no version of Pulsar: it does not count"],
        ),
    ],
    ids=["none", "one release", "newer", "older", "nonsense"],
)
def test_what_brokers_run_names_a_release_and_what_is_remarkable(
    versions: Mapping[str, str], release: str, remarks: Sequence[str]
) -> None:
    found = release_of(versions)
    assert (found.release, list(found.remarks)) == (release, remarks)
    assert len(release_of({"b1": "x" * 10_000}).remarks[0]) < 150


def report(broker: str, version: object) -> bytes:
    """A modular load report, as far as it names a version."""
    return line("load-report", broker=broker, report={"brokerVersionString": version})


def policies(versions: Mapping[str, object], cluster: str = "c") -> bytes:
    """What a collector publishes about brokers."""
    brokers = {broker: {"version": version} for broker, version in versions.items()}
    return line("policies", cluster=cluster, report={"brokers": brokers})


def test_versions_are_in_load_reports_and_in_policies() -> None:
    assert brokers_in(report("b1:1", "5.0.1")) == {"c/b1:1": "5.0.1"}
    assert brokers_in(policies({"b1:1": "5.0.1", "b2:1": None}, "east")) == {"east/b1:1": "5.0.1"}


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"nonsense",
        b"[" * 100_000,
        b"\xff",
        report("b1:1", 5.0),
        report("b1:1", None),
        b'{"kind": "load-report", "report": 3}',
        b'{"kind": "policies", "report": {"brokers": {"b": 7}}}',
        b'{"kind": "policies", "report": {"brokers": [1]}}',
        b'{"kind": "sweep", "report": {"brokers": {"b": {"version": "5.0.1"}}}}',
        b'{"kind": "note", "report": {"brokerVersionString": "5.0.1"}}',
    ],
)
def test_other_records_say_nothing(value: bytes) -> None:
    assert not brokers_in(value)


def a_job(folder: Path, lines: Sequence[bytes]) -> JobSettings:
    with FileTopicWriter(folder / "telemetry") as writer:
        writer.append(lines)
    topics = topics_of(telemetry=(folder / "telemetry").as_uri())
    checkpoint = str(folder / "checkpoint")
    return JobSettings(checkpoint=checkpoint, connections=Connections(topics=topics))


def resolved(
    job: JobSettings, folder: Path, said: list[str], ended: Callable[[float], bool] = lambda _: True
) -> PulsarRelease | None:
    return resolve_release(job, written_guard(folder), said.append, ended=ended)


def test_the_newest_record_of_a_broker_counts(tmp_path: Path) -> None:
    versions = (("b1:1", "4.2.4"), ("b2:1", "5.0.1"), ("b1:1", "5.0.1"))
    job = a_job(tmp_path, [report(*one) for one in versions])
    assert versions_seen(job.connections) == {"c/b1:1": "5.0.1", "c/b2:1": "5.0.1"}


#: Of the extensible load manager: it names no version.
LOAD_DATA = line("broker-load-data", broker="b1:1", report={})
SEEN: Mapping[str, tuple[Sequence[bytes], Mapping[str, str] | None]] = {
    "nothing": ([], None),
    "a note": ([line("note")], None),
    "an empty sweep": ([line("sweep", brokers=[])], None),
    "load data": ([LOAD_DATA], None),
    "a whole pass": ([LOAD_DATA, line("sweep", brokers=["b1:1"])], {}),
    "versions": ([LOAD_DATA, policies({"b1:1": "5.0.1"})], {"c/b1:1": "5.0.1"}),
    "an old report": ([report("b1:1", None)], {}),
}


@pytest.mark.parametrize(("lines", "versions"), SEEN.values(), ids=SEEN)
def test_only_a_report_or_a_whole_pass_shows_that_no_broker_names_its_version(
    lines: Sequence[bytes], versions: Mapping[str, str] | None, tmp_path: Path
) -> None:
    assert versions_seen(a_job(tmp_path, lines).connections) == versions


def test_a_first_start_waits_for_a_report(tmp_path: Path) -> None:
    """Job and collector start together: the checkpoint keeps what the first report says."""
    job, said = a_job(tmp_path, [line("note")]), list[str]()
    assert resolved(job, tmp_path / "checkpoint", []) is None, "the job ends before any report"
    writer = FileTopicWriter(tmp_path / "telemetry")

    def ended(_: float) -> bool:
        writer.append([report("b1:1", "5.0.1")])
        return False

    assert resolved(job, tmp_path / "checkpoint", said, ended) == "5.0"
    writer.close()
    waits, decided = said
    assert waits.startswith("pulsar.version: auto waits for the first report of a broker, which ")
    assert decided.startswith("pulsar.version: 5.0 (")


def test_old_telemetry_is_read_where_there_is_no_newer(tmp_path: Path) -> None:
    job = a_job(tmp_path, [report("b1:1", "5.0.1")])
    later_ms = (tmp_path / "telemetry").stat().st_mtime_ns // 1_000_000 + 3_600_000
    assert versions_seen(job.connections, later_ms) == {"c/b1:1": "5.0.1"}


def test_the_first_start_decides_and_says_so(tmp_path: Path) -> None:
    job, said = a_job(tmp_path, [report("b1:1", "6.1.0"), b"nonsense"]), list[str]()
    assert resolved(job, tmp_path / "checkpoint", said) == "5.0"
    by = "pulsar.version: 5.0 (auto, by the telemetry: c/b1:1 runs 6.1.0); fixed in the checkpoint"
    assert said == [
        f"{by} from now on",
        f"pulsar.version: c/b1:1 runs Pulsar 6.1.0, {NOT_KNOWN.format('5.0')}",
    ]


def begun(folder: Path, job: JobSettings, release: PulsarRelease) -> None:
    with guarded(folder, guard_of(job, EngineSettings(pulsar_version=release))):
        pass


def test_later_starts_keep_what_the_checkpoint_says(tmp_path: Path) -> None:
    job, said = a_job(tmp_path, [report("b1:1", "5.0.1")]), list[str]()
    begun(tmp_path / "checkpoint", job, "4.2")
    assert (resolved(job, tmp_path / "checkpoint", said), said) == ("4.2", [])


@pytest.mark.parametrize(("enabled", "changes"), [(True, 0), (False, 1)])
def test_a_checkpoint_of_a_version_with_filters_enabled_goes_on(
    tmp_path: Path, enabled: bool, changes: int
) -> None:
    job, folder = a_job(tmp_path, []), tmp_path / "checkpoint"
    begun(folder, job, "4.2")
    written = read_guard(folder)
    older = replace(written, settings={**written.settings, "filters.enabled": enabled})
    write_guard(folder / GUARD, older)
    assert len(other_settings(folder, guard_of(job, EngineSettings()))) == changes


def test_another_version_under_a_checkpoint_is_refused_as_strategy_settings_are(
    tmp_path: Path,
) -> None:
    job, folder = a_job(tmp_path, []), tmp_path / "checkpoint"
    engine = load(flags=["shedding.strategy=avg", "pulsar.version=4.2"])
    with guarded(folder, guard_of(job, engine.engine)):
        pass
    newer = guard_of(job, engine.in_release("5.0").engine)
    with pytest.raises(SettingsError) as caught, guarded(folder, newer):
        pass
    complaints = caught.value.complaints
    assert 'pulsar.version: "5.0", but the checkpoint was written with "4.2"' in complaints
    assert "shedding.avg.max_unload: 0.5, but the checkpoint was written with 0.2" in complaints
    assert "restore them, or name a new folder as job.checkpoint" in complaints[-1]


def test_a_checkpoint_from_before_the_setting_goes_on_with_the_rules_of_its_time(
    tmp_path: Path,
) -> None:
    job, folder = a_job(tmp_path, [report("b1:1", "5.0.1")]), tmp_path / "checkpoint"
    begun(folder, job, "4.2")
    written = read_guard(folder)
    older = {path: value for path, value in written.settings.items() if path != "pulsar.version"}
    write_guard(folder / GUARD, replace(written, settings=older))
    assert "pulsar.version" not in (folder / GUARD).read_text("utf-8")
    assert resolved(job, folder, []) == "4.2"
    with guarded(folder, guard_of(job, EngineSettings())) as held:
        assert held.change is None


def recording(folder: Path, lines: Sequence[bytes]) -> Path:
    file = folder / "recording.jsonl.gz"
    file.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
    return file


def test_a_recording_names_the_release(tmp_path: Path) -> None:
    file = recording(tmp_path, [policies({"b1:1": "5.0.1"}), b"nonsense"])
    target = tmp_path / "recording.parquet"
    converted(str(file), target, WireLimits())
    assert recorded_release(file).release == "5.0"
    assert recorded_release(target).release == "5.0"


def a_recording_of_50(folder: Path) -> Path:
    """A recording of a modular cluster, with the versions of another release."""
    own = Path(__file__).parents[1] / "data" / "recordings" / "modular-broker-joins.jsonl.gz"
    text = gzip.decompress(own.read_bytes())
    assert b'"brokerVersionString":"4.2.4"' in text
    file = folder / "recording.jsonl.gz"
    file.write_bytes(gzip.compress(text.replace(b'onString":"4.2.4"', b'onString":"5.0.1"')))
    return file


@pytest.mark.heavy
def test_commands_on_a_recording_follow_its_release(tmp_path: Path) -> None:
    file = str(a_recording_of_50(tmp_path))
    words = ("replay", file, "--set", "shedding.strategy=avg", "--json")
    auto = rebalancer(*words)
    assert "pulsar.version: 5.0 (auto, by the records: " in auto.err
    explicit = rebalancer(*words, "--set", "pulsar.version=5.0")
    assert explicit.err == ""
    assert json.loads(auto.out) == json.loads(explicit.out)


@pytest.mark.heavy
def test_records_that_are_piped_are_read_once(tmp_path: Path) -> None:
    file = a_recording_of_50(tmp_path)
    words = ("--json", "--strategy", "avg")
    piped = rebalancer("backtest", "-", *words, stdin=gzip.decompress(file.read_bytes()))
    assert piped.code == 0, piped.err
    named = rebalancer("backtest", file, *words, "--set", "pulsar.version=4.2")
    assert piped.json["runs"] == named.json["runs"]


def test_doctor_compares_the_checkpoint_with_its_own_release(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    flags = [f"job.checkpoint={folder}", "shedding.strategy=avg"]
    begun(folder, JobSettings(checkpoint=str(folder)), "5.0")
    assert in_release_of_checkpoint(load(flags=flags)).engine.pulsar_version == "5.0"
    named = load(flags=[*flags, "pulsar.version=4.2"])
    assert in_release_of_checkpoint(named).engine.pulsar_version == "4.2"
