"""Drains and rolls on the live page in a real browser."""

from dataclasses import replace
from pathlib import Path

import pytest

from sinks.topics.files.topic import FileTopicWriter
from sinks.wire.record_encoding import encode_round
from strategies.cluster.intent_records_and_states import IntentStatus
from tests.browser.conftest import Open
from tests.control_topic import now_ms
from tests.live_server import page_of
from tests.live_topics import MadeUpCluster, publish

pytestmark = pytest.mark.browser
HOSTILE = "<img/src=x/onerror=alert(1)>"


def statuses(now: int) -> tuple[IntentStatus, ...]:
    drain = IntentStatus(
        "d" * 32, "drain", "blocked", "3 of 9 bundles are left, and none may move now [budget]",
        "Wait, or raise `limits.moves_per_round`.", "anna", HOSTILE, now, now, "b-1:8080",
        until_ms=1_800_000_000_000, left=3, total=9, left_ms=240_000,
    )  # fmt: skip
    roll = IntentStatus(
        "a" * 32, "roll", "rolling", "0 of 2 brokers are restarted", "Nothing to do.", "bo", "4.2",
        now, now, phases={"b-1:8080": "draining", "b-2:8080": "waiting"},
    )  # fmt: skip
    empty = IntentStatus(
        "e" * 32, "drain", "drained", "no bundle is left that could move",
        "The broker may be stopped.", "bo", "x", now, now, "b-3:8080", left=0, total=9,
    )  # fmt: skip
    return roll, drain, empty


def test_drains_and_rolls_are_shown_while_there_are_any(tmp_path: Path, open_live: Open) -> None:
    now = now_ms()
    made = MadeUpCluster(now, waits=False)
    publish(tmp_path, made)
    *_, (newest, _, _) = made.made()
    with page_of(tmp_path) as running:
        page = open_live(running)
        page.locator("html[data-drawn]").wait_for()
        assert page.is_hidden("#intents")

        asked = replace(newest, round=newest.round + 1, intents=statuses(now))
        with FileTopicWriter(tmp_path / "rounds") as writer:
            writer.append([encode_round(asked)])
        page.locator("#intents").wait_for()

        roll, drain, empty = page.locator("#intents .plan").all()
        assert "roll of 2 brokers: rolling, " in roll.inner_text()
        assert roll.locator("tbody tr").count() == 2
        until = "until 2027-01-15 08:00:00 UTC"
        assert f"about 4 min left, {until}; anna: {HOSTILE}" in drain.inner_text()
        assert "none may move now [budget]. Wait, or raise limits.moves" in drain.inner_text()
        assert drain.locator("progress").get_attribute("value") == "6"
        assert "could move. The broker may be stopped." in empty.inner_text()
        assert "until" not in empty.inner_text()
        assert page.locator("img").count() == 0, "names are text"
