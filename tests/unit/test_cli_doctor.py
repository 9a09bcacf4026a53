"""Doctor: each check finds what is wrong and says what to do; a failure is exit code 1, a warning
is not.
"""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_rebalancer.doctor.disk_and_topics import (
    check_checkpoint,
    check_disk,
    check_temporary,
    check_topics,
)
from pulsar_rebalancer.doctor.environment import check_java, check_python, java_version
from sinks.topics.connections import Connections
from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.kafka.settings import KafkaSettings
from sinks.topics.uri import file_topic_uri
from sinks.wire.signing import SigningSettings
from strategies.cluster.limit_settings import LimitSettings
from strategies.fold.engine import EngineSettings
from strategies.settings import RoundSettings
from streaming.checkpoint.guard import guarded
from streaming.checkpoint.guard_file import guard_of
from streaming.checkpoint.locks import locked
from streaming.settings import JobSettings
from tests.topic_uris import topic_of, topics_of
from tests.unit.command_line import rebalancer

ENGINE = EngineSettings()


def job(folder: Path) -> JobSettings:
    topics = {
        name: file_topic_uri(folder / name)
        for name in ("telemetry", "commands", "rounds", "rejected", "outcomes")
    }
    return JobSettings(
        checkpoint=str(folder / "checkpoint"), connections=Connections(topics=topics_of(**topics))
    )


def words(of: JobSettings) -> list[str]:
    """The same settings for a command line."""
    names = ("telemetry", "commands", "rounds", "rejected", "outcomes")
    settings = [
        f"executor.state={Path(of.checkpoint).parent}/executor",
        f"job.checkpoint={of.checkpoint}",
        *(f"topics.{name}={getattr(of.connections.topics, name)}" for name in names),
    ]
    return [word for setting in settings for word in ("--set", setting)]


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("no idea", None),
    ],
)
def test_javas_version_out_of_what_it_tells(told: str, version: int | None) -> None:
    assert java_version(told) == version


def fake_java(folder: Path, version: str) -> dict[str, str]:
    """An environment whose JAVA_HOME holds a program that calls itself Java."""
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", "utf-8")
    program.chmod(0o755)
    return {"JAVA_HOME": str(folder)}


def test_a_java_that_is_new_enough(tmp_path: Path) -> None:
    found = check_java(fake_java(tmp_path, "21.0.1"))
    assert (found.status, found.text, found.remedy) == ("ok", f"Java 21, {tmp_path}/bin/java", "")


def test_a_java_that_is_too_old(tmp_path: Path) -> None:
    found = check_java(fake_java(tmp_path, "11.0.2"))
    assert (found.status, found.text) == ("fail", f"{tmp_path}/bin/java is Java 11")
    assert "install Java 17 or newer" in found.remedy


def test_no_java_at_all(tmp_path: Path) -> None:
    assert (
        check_java({"PATH": str(tmp_path)}).text == "not found: no JAVA_HOME, and no java on PATH"
    )
    assert check_java({"JAVA_HOME": str(tmp_path)}).status == "fail"


def test_workers_on_this_machine_run_this_python(tmp_path: Path) -> None:
    assert check_python({"PYSPARK_PYTHON": "/nowhere"}, job(tmp_path)).status == "ok"


def test_workers_elsewhere_must_run_the_same_python(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 3.8\n", "utf-8")
    other.chmod(0o755)
    cluster = replace(job(tmp_path), master="spark://host:7077")

    assert check_python({}, cluster).status == "ok"
    assert check_python({"PYSPARK_PYTHON": str(other)}, cluster).status == "fail"
    assert check_python({"PYSPARK_PYTHON": "/nowhere"}, cluster).status == "warn"


def test_a_checkpoint_that_does_not_exist_is_not_created_by_looking(tmp_path: Path) -> None:
    found = check_checkpoint(job(tmp_path), ENGINE)

    assert (found.status, found.text) == ("ok", f"{tmp_path}/checkpoint will be created")
    assert not (tmp_path / "checkpoint").exists()
    assert check_disk(job(tmp_path)).check == "disk"


def test_temporary_files_in_memory_are_noticed(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    folder = tmp_path / "tmp"
    folder.mkdir()
    mounts.write_text(f"/dev/a / ext4 rw 0 0\ntmpfs {folder} tmpfs rw 0 0\n", "utf-8")

    (found,) = check_temporary(folder, mounts, little_bytes=0)
    assert (found.status, found.check) == ("warn", "temporary files")
    assert f"{folder} is in memory (tmpfs)" in found.text
    assert "twice its size" in found.text
    assert "TMPDIR" in found.remedy

    mounts.write_text(f"tmpfs {folder} tmpfs rw 0 0\n/dev/a {folder} ext4 rw 0 0\n", "utf-8")
    assert list(check_temporary(folder, mounts, little_bytes=0)) == []
    assert list(check_temporary(folder, tmp_path / "none", little_bytes=0)) == []


def test_a_disk_without_room_for_temporary_files_is_noticed(tmp_path: Path) -> None:
    (found,) = check_temporary(tmp_path, little_bytes=2**62)
    assert found.text.startswith(f"{tmp_path} has ")
    assert "GiB free" in found.text


def test_a_checkpoint_of_these_or_of_other_settings(tmp_path: Path) -> None:
    with guarded(tmp_path / "checkpoint", guard_of(job(tmp_path), ENGINE)):
        pass

    assert check_checkpoint(job(tmp_path), ENGINE).status == "ok"
    other = check_checkpoint(job(tmp_path), EngineSettings(round=RoundSettings(epoch=2)))
    assert other.status == "fail"
    assert other.text.startswith("round.epoch: 2, but the checkpoint was written with 1")


def test_limits_that_have_changed_are_told_and_left_for_the_job_to_write_down(
    tmp_path: Path,
) -> None:
    with guarded(tmp_path / "checkpoint", guard_of(job(tmp_path), ENGINE)):
        pass

    for _ in range(2):
        found = check_checkpoint(
            job(tmp_path), replace(ENGINE, limits=LimitSettings(moves_per_round=3))
        )
        assert found.status == "ok"
        assert found.text.endswith(
            "; changed since the last start, which is allowed: limits.moves_per_round"
        )


def test_a_checkpoint_that_our_job_uses_is_fine_unless_it_was_started_with_other_settings(
    tmp_path: Path,
) -> None:
    with guarded(tmp_path / "checkpoint", guard_of(job(tmp_path), ENGINE)):
        found = check_checkpoint(job(tmp_path), ENGINE)
        assert (found.status, found.text) == (
            "ok",
            f"{tmp_path}/checkpoint belongs to these settings and is in use by a job",
        )

        other = check_checkpoint(
            job(tmp_path), replace(ENGINE, limits=LimitSettings(moves_per_round=3))
        )
        assert (other.status, other.text.rpartition(": ")[2]) == ("warn", "limits.moves_per_round")


def test_a_folder_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "holiday.jpg").touch()

    assert check_checkpoint(job(tmp_path), ENGINE).text.endswith(
        "has files that are not a checkpoint's"
    )


def test_a_start_that_ended_before_it_wrote_anything_is_no_obstacle(tmp_path: Path) -> None:
    with locked(tmp_path / "checkpoint", timeout_s=0):
        pass

    assert check_checkpoint(job(tmp_path), ENGINE).status == "ok"


def test_a_checkpoint_elsewhere(tmp_path: Path) -> None:
    elsewhere = replace(job(tmp_path), checkpoint="s3://bucket/x")

    assert check_disk(elsewhere).status == "fail"
    assert check_checkpoint(elsewhere, ENGINE).status == "fail"


def test_topics(tmp_path: Path) -> None:
    with FileTopicWriter(tmp_path / "telemetry") as writer:
        writer.append([b"{}"])
    (tmp_path / "rounds").touch()
    placed = job(tmp_path)
    wrong = KafkaSettings(security_protocol="SSL", ca_file=str(tmp_path / "nowhere.pem"))
    topics = replace(placed.connections.topics, commands=topic_of("kafka://host:9092/commands"))
    placed = replace(placed, connections=Connections(topics=topics, kafka=wrong))

    telemetry, commands, rounds, rejected, outcomes = check_topics(placed.connections)

    assert (telemetry.status, telemetry.text) == ("ok", f"{tmp_path}/telemetry, 1 segment")
    assert (commands.status, commands.remedy) == ("fail", "correct that, or change topics.commands")
    assert rounds.status == "fail"
    assert (rejected.status, rejected.text) == ("ok", f"{tmp_path}/rejected will be created")
    assert (outcomes.status, outcomes.text) == ("ok", f"{tmp_path}/outcomes will be created")


def test_an_outcomes_topic_that_cannot_be_made_is_a_warning_because_only_executors_need_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "outcomes").touch()

    *_, found = check_topics(job(tmp_path).connections)

    assert (found.check, found.status, found.remedy) == (
        "topic outcomes",
        "warn",
        "correct that, or change topics.outcomes",
    )


def test_the_approvals_topic_is_looked_at_only_where_there_is_a_key(tmp_path: Path) -> None:
    connections = job(tmp_path).connections
    assert "topic approvals" not in [found.check for found in check_topics(connections)]

    signing = SigningSettings(approvals_key_file=str(tmp_path / "key"))
    (tmp_path / "approvals").touch()
    topics = replace(connections.topics, approvals=topic_of(file_topic_uri(tmp_path / "approvals")))
    *_, found = check_topics(replace(connections, signing=signing, topics=topics))

    assert (found.check, found.status) == ("topic approvals", "warn")


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.heavy
def test_servers_that_do_not_answer_are_asked_once(tmp_path: Path) -> None:
    one, other = closed_port(), closed_port()
    places = {
        "telemetry": one,
        "commands": one,
        "rounds": other,
        "rejected": other,
        "outcomes": other,
    }
    given = [
        word
        for name, port in places.items()
        for word in ("--set", f"topics.{name}=kafka://127.0.0.1:{port}/{name}")
    ]

    answer = rebalancer(
        "doctor", "--no-spark-start", "--json", *given, "--set", "kafka.timeout_ms=1000"
    )

    found = {finding["check"]: finding for finding in answer.json["findings"]}
    assert "no answer; check that the broker runs" in found["topic telemetry"]["text"]
    assert found["topic telemetry"]["remedy"] == "correct that, or change topics.telemetry"
    assert found["topic commands"]["text"].endswith("/commands: not checked")
    assert found["topic commands"]["remedy"] == "see the finding about topic telemetry"
    assert "no answer" in found["topic rounds"]["text"], "other servers"
    for check in ("job", "epochs"):
        assert (found[check]["status"], found[check]["remedy"]) == (
            "warn",
            "see the finding about topic rounds",
        )
    assert answer.code == 1


def test_all_is_well_but_for_missing_telemetry(tmp_path: Path) -> None:
    answer = rebalancer("doctor", "--no-spark-start", "--json", *words(job(tmp_path)))

    findings = {finding["check"]: finding["status"] for finding in answer.json["findings"]}
    assert findings.pop("topic telemetry") == "warn"
    spark = {findings.pop("java"), findings.pop("pyspark")}
    assert set(findings.values()) == {"ok"}
    assert answer.code == (0 if spark == {"ok"} else 1)


def test_wrong_settings_are_findings_too(tmp_path: Path) -> None:
    answer = rebalancer("doctor", "--set", "a.b=1", "--set", "round.epoch=0", env={"COLUMNS": "80"})

    assert (answer.code, answer.err) == (1, "")
    assert "spark start" not in answer.words, "it takes a minute, and needs the settings"
    assert "a.b: unknown setting" in answer.words
    assert "round.epoch: must be at least 1" in answer.words
    assert max(len(line) for line in answer.out.splitlines()) <= 80
