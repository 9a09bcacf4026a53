"""The next epoch is read off the topics, and so is whether two jobs wrote at a time."""

from __future__ import annotations

from dataclasses import astuple

import msgspec
import pytest

from pulsar_rebalancer.cli.finding import Finding
from pulsar_rebalancer.doctor.job import check_epochs
from sinks.metrics.liveness import Liveness
from sinks.topics.connections import Connections
from sinks.topics.epochs import histories, next_epoch
from strategies.errors import SinkError
from strategies.fold.engine import EngineSettings
from streaming.checkpoint.guard import guarded
from streaming.checkpoint.guard_file import guard_of
from streaming.settings import JobSettings
from tests.control_topic import Control, command
from tests.topic_uris import topic_of, topics_of


def told(*epochs: int, cluster: str = "c") -> list[bytes]:
    """Rounds, with no more in them than is looked at."""
    return [b'{"v":1,"cluster":"%s","epoch":%d}' % (cluster.encode(), epoch) for epoch in epochs]


def a_round(number: int, *commands: str, epoch: int = 1, ts: int = 0) -> bytes:
    return msgspec.json.encode(
        {"v": 1, "cluster": "c", "epoch": epoch, "round": number, "ts": ts, "commands": commands}
    )


def following(control: Control) -> int:
    return next_epoch((topic_of(control.uri("rounds")), topic_of(control.uri("commands"))))


def examined(control: Control, ours: int | None = None) -> Finding:
    """What doctor says, to the job whose checkpoint has this epoch if there is one."""
    topics = topics_of(rounds=control.uri("rounds"))
    job = JobSettings(
        checkpoint=str(control.folder / "checkpoint"), connections=Connections(topics=topics)
    )
    if ours is not None:
        with guarded(control.folder / "checkpoint", guard_of(job, EngineSettings()), lambda: ours):
            pass
    return check_epochs(job)


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

    topics = (topic_of(control.uri("rounds")), topic_of(control.uri("commands")))
    assert next_epoch(topics, on_record=a_minute_later) == 9
    assert now == 8 * 60


def test_the_next_epoch_is_above_all_rounds_and_commands(control: Control) -> None:
    control.write(
        "rounds", [*told(2, 4), *told(3, cluster="other"), b'{"epoch":9}', b"\xff no JSON"]
    )
    assert following(control) == 5

    control.send(command("t/ns/0x00000000_0xffffffff", "a:1", epoch=6))
    assert following(control) == 7


def test_the_last_epoch_of_all_has_no_next_one(control: Control) -> None:
    control.write("rounds", told(2**53))
    with pytest.raises(SinkError, match="use new topics"):
        following(control)


def test_rounds_of_an_older_epoch_behind_newer_ones_are_late(control: Control) -> None:
    control.write(
        "rounds",
        [
            *told(1, 1),
            *told(1, cluster="other"),
            *told(2, 1, 2, 1, 2, 2),
            *told(2, cluster="other"),
        ],
    )

    found = histories(topic_of(control.uri("rounds")))

    assert astuple(found["c"])[:5] == ({1, 2}, 2, 2, 1, 2)
    assert astuple(found["other"])[:5] == ({1, 2}, 2, 0, 0, 2)


def test_doctor_is_content_with_one_job_after_the_other(control: Control) -> None:
    found = examined(control)
    assert (found.status, found.text) == (
        "ok",
        "none on topics.rounds yet; a new checkpoint takes the next",
    )

    control.write("rounds", told(1, 1, 2, 2))
    found = examined(control, ours=2)
    assert (found.status, found.text) == ("ok", "newest on topics.rounds: 2; this checkpoint has 2")


def test_doctor_tells_the_older_of_two_jobs_that_nobody_obeys_it(control: Control) -> None:
    control.write("rounds", told(1, 2, 1))

    found = examined(control, ours=1)

    assert found.status == "fail"
    assert (
        found.text
        == "a job of epoch 2 serves cluster c; executors refuse commands of this checkpoint's "
        "epoch 1"
    )
    assert "name a new job.checkpoint" in found.remedy


def test_doctor_tells_the_newer_of_two_jobs_that_the_older_still_writes(control: Control) -> None:
    control.write("rounds", told(1, 2, 1, 2, 2))

    found = examined(control, ours=2)

    assert found.status == "warn"
    assert (
        "1 rounds of epoch 1 or older follow a newer job's first round (newest: epoch 2), the "
        "last of them 2 rounds ago" in found.text
    )
    assert found.remedy.startswith("stop the job of epoch 1")


def test_doctor_tells_two_jobs_of_one_epoch_from_one_that_repeats_itself(control: Control) -> None:
    control.write(
        "rounds", [a_round(1), a_round(2, "a"), a_round(1), a_round(2, "a"), a_round(3, "b")]
    )
    assert examined(control, ours=1).status == "ok"

    control.write("rounds", [a_round(3, "c"), a_round(4, ts=1), a_round(4, ts=2)])
    found = examined(control, ours=1)
    assert found.status == "fail"
    both = "two jobs of epoch 1 write for cluster c, and executors accept commands of both"
    assert found.text == f"{both}: 2 rounds are on the topic twice, with different content"
    assert found.remedy.startswith("stop both")

    control.write("rounds", [a_round(1, epoch=2)])
    assert examined(control).text.startswith("a job of epoch 2 serves"), (
        "which is the only one that is obeyed"
    )


def test_jobs_of_different_clusters_may_share_topics(control: Control) -> None:
    control.write(
        "rounds", [*told(1), *told(2, cluster="other"), *told(1), *told(2, cluster="other")]
    )
    assert examined(control, ours=1).status == "ok"


def test_doctor_says_when_it_cannot_tell(control: Control) -> None:
    (control.folder / "checkpoint").mkdir()
    (control.folder / "checkpoint" / "rebalancer.json").write_text("{", "utf-8")
    assert examined(control).status == "warn"
