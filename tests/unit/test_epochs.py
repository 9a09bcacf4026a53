"""The next epoch is read off the topics, and so is whether two jobs wrote at a time."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from sinks.metrics.exposition import Liveness
from sinks.topics.epochs import histories, next_epoch
from strategies.errors import SinkError
from tests.control_topic import Control, command
from tests.topic_uris import topic_of


def told(*epochs: int, cluster: str = "c") -> list[bytes]:
    """Rounds, with no more in them than is looked at."""
    return [b'{"v":1,"cluster":"%s","epoch":%d}' % (cluster.encode(), epoch) for epoch in epochs]


def following(control: Control) -> int:
    return next_epoch((topic_of(control.uri("rounds")), topic_of(control.uri("commands"))))


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
