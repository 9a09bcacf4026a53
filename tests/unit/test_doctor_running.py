"""Doctor as a health check: does a job of ours run, and how old is its last round?"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.doctor.finding import Finding
from pulsar_rebalancer.doctor.job_and_executor import check_job
from sinks.topics.kafka.settings import KafkaSettings
from sinks.topics.topic_settings import Connections
from strategies.fold.engine import EngineSettings
from streaming.checkpoint.guard import LOCKS, guarded, holder
from streaming.checkpoint.remembered_and_changed_settings import Warming, WarmStart, guard_of
from streaming.first_start import end_warm_start
from streaming.settings import JobSettings
from tests.control_topic import Control, now_ms
from tests.topic_uris import topic_of, topics_of
from tests.unit.command_line import Answer, rebalancer
from tools.processes.set_words import set_words

ENGINE = EngineSettings()
MINUTE, HOUR = 60_000, 3_600_000


def a_job(control: Control) -> JobSettings:
    topics = topics_of(rounds=control.uri("rounds"), telemetry=control.uri("telemetry"))
    return JobSettings(
        checkpoint=str(control.folder / "checkpoint"), connections=Connections(topics=topics)
    )


@contextmanager
def running(control: Control, epoch: int = 1) -> Iterator[None]:
    with guarded(control.folder / "checkpoint", guard_of(a_job(control), ENGINE), lambda: epoch):
        yield


def test_a_job_that_warms_up_closes_no_round_and_is_well(control: Control) -> None:
    warm = Warming(60, lambda: WarmStart(now_ms() - HOUR, {0: 10}))
    folder = control.folder / "checkpoint"
    with guarded(folder, guard_of(a_job(control), ENGINE), warming=warm) as held:
        begun = found(control)
        assert begun.status == "ok"
        assert "without publishing (warm start)" in begun.text
        (folder / "commits").mkdir()
        (folder / "commits" / "7").write_text("v1")
        os.utime(folder / "commits" / "7", times=(now_ms() / 1000 + 3_600,) * 2)
        assert found(control, later_ms=HOUR + MINUTE).status == "ok"
        for expected in (True, False):
            still = found(control, expected=expected, later_ms=HOUR + 5 * MINUTE)
            assert (still.status, "rebalancer collect" in still.remedy) == ("fail", True)
            assert still.text.endswith("finished no micro-batch within the last 3 min")
        an_hour_ago = {"pid": 7, "host": "h", "since_ms": now_ms() - HOUR}
        (folder / LOCKS[0]).write_bytes(msgspec.json.encode(an_hour_ago))
        end_warm_start(folder, held.guard)
        assert found(control).text.endswith("for 60 min); has closed no round yet")
        assert found(control, later_ms=HOUR).status == "fail"


def close_round(control: Control, ago_ms: int, number: int = 1, **changes: object) -> None:
    told: dict[str, object] = {"v": 1, "cluster": "prod", "epoch": 1, "commands": []}
    state = {"code": changes.pop("state", "waiting"), "text": "", "advice": ""}
    told |= {"round": number, "ts": now_ms() - ago_ms, "state": state, **changes}
    control.write("rounds", [msgspec.json.encode(told)])


def found(control: Control, *, expected: bool = True, later_ms: int = 0) -> Finding:
    return check_job(a_job(control), ENGINE, now_ms() + later_ms, expected=expected)


def health(control: Control, *more: str) -> Answer:
    given = control.settings(job__checkpoint=control.folder / "checkpoint", pulsar__cluster="")
    return rebalancer("doctor", "--health", *more, *set_words(given))


def test_a_running_job_is_healthy_and_says_how_old_its_last_round_is(control: Control) -> None:
    with running(control):
        close_round(control, 40_000, number=6)
        close_round(control, 30_500, number=7)
        for expected in (True, False):
            told = found(control, expected=expected)
            assert told.status == "ok"
            assert told.text.endswith("; last round 7 of prod, 30 s ago")
        quiet = health(control, "--quiet")
        assert (quiet.code, quiet.out) == (exit_codes.OK, "")
    assert "start it: rebalancer run" in health(control, "--quiet").words


def test_a_job_whose_last_round_is_too_old_fails_the_health_check(control: Control) -> None:
    with running(control):
        close_round(control, 0)
        assert found(control, later_ms=3 * MINUTE).status == "ok"
        for expected in (True, False):
            late = found(control, expected=expected, later_ms=5 * MINUTE)
            assert (late.status, "3 min" in late.text) == ("fail", True)
            assert "rebalancer collect" in late.remedy


def test_a_job_that_has_just_begun_may_catch_up(control: Control) -> None:
    with running(control):
        close_round(control, 2 * HOUR)
        assert (found(control).status, "is catching up" in found(control).text) == ("ok", True)
        assert found(control, later_ms=HOUR).status == "fail"


def test_rounds_of_another_epoch_are_of_another_job(control: Control) -> None:
    with running(control, epoch=2):
        close_round(control, 0, epoch=1)
        told = found(control, later_ms=HOUR, expected=False)
    assert told.text.endswith("closed no round within the last 3 min")


def test_a_cluster_that_fell_silent_is_named_while_the_others_go_on(control: Control) -> None:
    with running(control):
        close_round(control, HOUR, cluster="old")
        close_round(control, 0)
        told = found(control, expected=False)
        assert (told.status, told.text.endswith("; no recent round of old")) == ("warn", True)
        assert health(control).code == exit_codes.OK, "it may have been given up"


def test_without_a_job_only_the_health_check_fails(control: Control) -> None:
    assert (found(control, expected=False).status, found(control).status) == ("ok", "fail")
    with running(control):
        pass
    ended = found(control)
    assert (ended.status, ended.remedy) == ("fail", "start it: rebalancer run")
    assert found(control, expected=False).status == "ok"
    answer = health(control, "--json")
    checks = [one["check"] for one in answer.json["findings"]]
    assert (answer.code, checks) == (exit_codes.ERROR, ["job"])


def test_rounds_that_cannot_be_read_leave_the_health_unknown(control: Control) -> None:
    job = a_job(control)
    topics = replace(job.connections.topics, rounds=topic_of("kafka://127.0.0.1:1/rounds"))
    kafka = Connections(topics=topics, kafka=KafkaSettings(timeout_ms=100))
    job = replace(job, connections=kafka)
    with running(control):
        told = [check_job(job, ENGINE, now_ms(), expected=one).status for one in (True, False)]
    assert told == ["fail", "warn"]


def test_the_lock_of_an_older_version_names_nobody(tmp_path: Path) -> None:
    assert holder(tmp_path) is None
    (tmp_path / ".rebalancer.lock").write_text("")
    assert holder(tmp_path) is None


def test_doctor_names_clusters_that_are_set_aside_and_the_health_check_does_not(
    control: Control,
) -> None:
    """One cluster's poison is no reason to restart the job of all."""
    with running(control):
        close_round(control, 10_000, cluster="bad", state="set-aside")
        close_round(control, 0, cluster="good")
        told = found(control, expected=False)
        assert (told.status, told.text.endswith("; set aside: bad")) == ("warn", True)
        assert "rebalancer status" in told.remedy
        assert found(control).status == "ok"
        close_round(control, 0, number=2, cluster="bad")
        assert found(control, expected=False).status == "ok"
