"""`rebalancer notify` killed −9 in the middle of deliveries, again and again: no notice is lost,
the order is kept, and only the one in progress is repeated, with the same id.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

import pytest

from sinks.topics.files.topic import FileTopicWriter
from sinks.wire.codec import encode_command, encode_round
from tests.control_topic import TOPICS, command, now_ms
from tests.faults.started import started
from tests.notice_builders import a_round
from tests.set_words import set_words
from tests.waiting import eventually
from tests.webhook import Answered, listening

pytestmark = [pytest.mark.servers, pytest.mark.faults]
ROUNDS = 12
#: Numbers of the deliveries during which the process is killed.
KILLED = (0, 3, 4, 9)


def test_kills_between_deliveries_lose_and_reorder_nothing(tmp_path: Path) -> None:
    running: list[subprocess.Popen[bytes]] = []

    def kill() -> None:
        os.kill(running[-1].pid, signal.SIGKILL)

    answers = [Answered(wait=kill) if at in KILLED else Answered() for at in range(40)]
    with listening(*answers) as hook, ExitStack() as stack:
        words = set_words(
            {
                **{f"topics.{name}": f"file://{tmp_path}/{name}" for name in TOPICS},
                "notices.url": hook.url,
                "notices.kinds": "plan",
                "notices.state": tmp_path / "state",
            }
        )

        def start() -> subprocess.Popen[bytes]:
            begun = started("notify", words, os.environ, tmp_path / "log.txt")
            running.append(stack.enter_context(begun))
            return running[-1]

        process = start()
        eventually((tmp_path / "state" / "notices.json").exists)
        moves = [
            command("t/n/0x00000000_0x80000000", "a:1", id=f"c-{number}", cluster="prod")
            for number in range(1, ROUNDS + 1)
        ]
        with FileTopicWriter(tmp_path / "commands") as topic:
            topic.append([encode_command(one) for one in moves])
        with FileTopicWriter(tmp_path / "rounds") as topic:
            for number in range(1, ROUNDS + 1):
                topic.append([encode_round(a_round("acting", number, ts=now_ms()))])
        for _ in KILLED:
            assert process.wait(60) == -signal.SIGKILL
            process = start()
        eventually(lambda: len({*hook.ids}) == ROUNDS, otherwise=lambda: str(hook.ids))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0

    # A killed delivery arrived and was not confirmed: it is the one that comes twice.
    order = [(id_, len(list(same))) for id_, same in groupby(hook.ids)]
    assert len(order) == len({*hook.ids}) == ROUNDS
    plans = [one.json["plan"].partition("-")[0] for one in hook.received]
    assert [plan for plan, _ in groupby(plans)] == [f"1.{n}" for n in range(1, ROUNDS + 1)]
    assert sum(times - 1 for _, times in order) == len(KILLED)
