"""What is remembered between records that cause notices; limits and escapes of notices; a notifier
that dies at any step. Notices themselves are in tests/golden/notices.txt.
"""

import json
import re
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_rebalancer.decisions.log import DecisionRecord, Kind, LoggedCommand
from pulsar_rebalancer.decisions.notices.notice_loop_and_outbox import (
    NoticeSource,
    Notifier,
    Outbox,
    Stored,
)
from pulsar_rebalancer.decisions.notices.notice_rules import (
    MOST_CLUSTERS,
    NoticeMemory,
    NoticeRules,
    after_records,
    after_silence,
)
from sinks.notices.delivery import (
    HEADER,
    MESSAGE,
    SECTION,
    Delivery,
    Fate,
    Notice,
    NoticeCause,
    as_json,
    as_slack,
    clipped,
)
from sinks.notices.settings import NoticeSettings, notice_kinds, webhook
from sinks.topics.files.topic import FileTopicWriter, TopicRecord
from sinks.topics.open_topics import open_consumer
from sinks.topics.topic_settings import file_topic
from sinks.wire.record_decoding import Position
from sinks.wire.record_encoding import encode_command, encode_outcome, encode_round
from strategies.cluster.model import Outcome, OutcomeStatus, Round
from tests.control_topic import command
from tests.notice_builders import HOSTILE, MINUTE, T0, a_notice, a_round
from tests.unit.executor_lives import Death, Fuse, FusedTopic

RULES = NoticeRules(
    notice_kinds(NoticeSettings()), settle_rounds=3, silent_ms=5 * MINUTE, quiet_ms=60 * MINUTE
)
#: The same, and plans.
PLANS = replace(RULES, kinds=RULES.kinds | {"plan"}, link="http://rebalancer:8080/")
EMPTY = NoticeMemory(begun=T0)


def rounds(*codes: str) -> list[Round]:
    return [a_round(code, number) for number, code in enumerate(codes, 1)]


def notices(observed: Sequence[DecisionRecord], rules: NoticeRules = RULES) -> list[Notice]:
    return after_records(EMPTY, observed, rules)[1]


class TestStates:
    def test_before_the_first_start_only_the_present_state_counts(self) -> None:
        begun = NoticeMemory(begun=T0 + 9 * MINUTE)
        history = rounds(*["blind"] * 4, *["cannot-help"] * 4)
        memory, found = after_records(begun, history, RULES)
        assert found == []
        _, found = after_records(memory, [a_round("cannot-help", 9)], RULES)
        assert [(one.kind, one.since) for one in found] == [("cannot-help", T0 + 5 * MINUTE)]

    def test_the_number_of_remembered_clusters_is_limited(self) -> None:
        many = [replace(a_round("blind", 1), cluster=f"c{n}") for n in range(MOST_CLUSTERS + 5)]
        assert len(after_records(EMPTY, many, RULES)[0].clusters) == MOST_CLUSTERS


class TestSilence:
    def test_a_cluster_that_was_gone_long_before_the_first_start_is_not_silent(self) -> None:
        begun = NoticeMemory(begun=T0 + 3 * 24 * 60 * MINUTE)
        memory, _ = after_records(begun, rounds("balanced"), RULES)
        assert after_silence(memory, begun.begun + MINUTE, RULES)[1] == []


def an_outcome(status: OutcomeStatus, reason: str | None, minute: int = 1) -> Outcome:
    at = T0 + minute * MINUTE
    return Outcome(
        f"id-{minute}", "prod", "t/n/0x00000000_0x80000000", status, reason, "b1:1", None, 5, at
    )


def published(name: str, minute: int = 1, **changes: object) -> LoggedCommand:
    at = T0 + minute * MINUTE
    given = {"id": name, "cluster": "prod", "issued_at_ms": at, **changes}
    return LoggedCommand(command("t/n/0x00000000_0x80000000", "b1:1", None, **given), "a-digest")


class TestPlans:
    def test_in_any_order_and_only_once(self) -> None:
        done, one, two = a_round("acting", 1, commands=("a", "b")), published("a"), published("b")
        orders: list[list[DecisionRecord]] = [[done, one, two], [one, done, two], [two, one, done]]
        for records in orders:
            (found,) = notices(records, PLANS)
            assert found.title == "prod: round 1 has a plan of 2 commands"
        assert notices([done, one], PLANS) == []
        assert len(notices([done, one, two, two, done, one], PLANS)) == 1

    @pytest.mark.heavy
    def test_what_is_never_complete_is_forgotten(self) -> None:
        many = [a_round("acting", number, commands=("lost",)) for number in range(1, 60)]
        stray = [published(f"stray-{n}") for n in range(5_050)]
        known = after_records(EMPTY, [*many, *stray], PLANS)[0].of("prod")
        assert (len(known.plans), len(known.commands)) == (20, 5_000)
        assert "stray-5049" in known.commands

    def test_outcomes_and_commands_before_the_first_start_are_history(self) -> None:
        for old in (an_outcome("failed", "cluster-silent: no answer", -1), published("a", -1)):
            assert after_records(EMPTY, [old], PLANS) == (EMPTY, [])


#: What Slack interprets in a text: everything between these signs.
CONTROL = re.compile(r"[<>]|&(?!amp;|lt;|gt;)")


def texts(message: Any) -> list[dict[str, Any]]:
    """All text objects of the blocks."""
    blocks = message["blocks"]
    return [one for it in blocks for one in ([it["text"]] if "text" in it else it["elements"])]


class TestForms:
    def test_hostile_names_come_back_from_json_as_they_are(self) -> None:
        body = as_json(a_notice(cluster=HOSTILE, cause=NoticeCause("x", HOSTILE, "")))
        assert body.isascii()
        assert b"\n" not in body
        assert json.loads(body)["cause"]["text"] == HOSTILE

    @pytest.mark.heavy
    @given(
        words=st.lists(st.text(max_size=40) | st.just(HOSTILE), min_size=6, max_size=6),
        times=st.sampled_from((1, 200)),
    )
    def test_words_from_records_are_text_and_keep_to_the_limits(
        self, words: list[str], times: int
    ) -> None:
        cluster, title, text, advice, picture, plan = (word * times for word in words)
        cause, shown = NoticeCause("code", text, advice), {"picture": picture, "plan": plan}
        notice = a_notice(cluster=cluster, title=f"x{title}", cause=cause, **shown)
        message = json.loads(as_slack(notice))
        found = texts(message)
        assert {one["type"] for one in found} == {"plain_text"}
        for one in (message["text"], *(one["text"] for one in found)):
            assert one
            assert not CONTROL.search(one)
            assert all(character.isprintable() for character in one)
        assert len(found[0]["text"]) <= HEADER
        assert all(len(one["text"]) <= SECTION for one in found)
        assert len(message["text"]) <= MESSAGE
        assert len(message["blocks"]) <= 50

    @pytest.mark.parametrize(
        ("text", "most", "short"),
        [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("a&b", 7, "a&amp;b"),
            ("a&b", 6, "a…"),
            ("a&bc", 7, "a&amp;…"),
            ("\n\u202e", 20, "\\u000a\\u202e"),
        ],
    )
    def test_an_escape_is_never_cut(self, text: str, most: int, short: str) -> None:
        assert clipped(text, most) == short


DYING_RULES = NoticeRules(frozenset({"blind", "plan", "failed", "silent"}), 2, 5 * MINUTE, 0)
SETTINGS = NoticeSettings(url="http://127.0.0.1:1/")
BUNDLE = "t/n/0x00000000_0x80000000"


def publish(folder: Path) -> None:
    moves = [command(BUNDLE, "a:1", id=f"c-{n}", issued_at_ms=T0 + n * MINUTE) for n in (3, 4, 5)]
    moves = [replace(one, cluster="prod", expires_at_ms=T0 + 60 * MINUTE) for one in moves]
    codes = ("blind", "blind", "acting", "acting", "acting", "blind", "blind")
    failed = [
        Outcome(f"c-{n}", "prod", BUNDLE, "failed", "x: y", "a:1", None, 1, T0 + n)
        for n in range(3)
    ]
    records = {
        "commands": [encode_command(one) for one in moves],
        "rounds": [encode_round(one) for one in rounds(*codes)],
        "outcomes": [encode_outcome(one) for one in failed],
    }
    for name, values in records.items():
        with FileTopicWriter(folder / name) as topic:
            topic.append(values)


class TwoAtATime(FusedTopic):
    """However many are asked for."""

    def poll(
        self, max_records: int, timeout_s: float, max_bytes: int | None = None
    ) -> Sequence[TopicRecord]:
        return super().poll(2, timeout_s, max_bytes)


class FusedOutbox(Outbox):
    """May die before and after each change."""

    def __init__(self, folder: Path, fuse: Fuse) -> None:
        super().__init__(folder)
        self._fuse = fuse

    def write(self, stored: Stored) -> None:
        self._fuse()
        super().write(stored)
        self._fuse()


class Receiver(Delivery):
    """Keeps what arrives; may die before and after it."""

    def __init__(self, arrived: list[Notice], fuse: Fuse) -> None:
        super().__init__(webhook(SETTINGS), SETTINGS, lambda _: True, lambda _: None)
        self._arrived, self._fuse = arrived, fuse

    def deliver(self, notice: Notice) -> Fate:
        self._fuse()
        self._arrived.append(notice)
        self._fuse()
        return "delivered"


def live(folder: Path, arrived: list[Notice], fuse: Fuse) -> None:
    """A notifier, until nothing is left to read, or death."""
    kinds: tuple[Kind, ...] = ("rounds", "commands", "outcomes")
    with closing(FusedOutbox(folder / "state", fuse)) as outbox:
        consumers = (
            open_consumer(file_topic(folder / kind), "g", folder / "state") for kind in kinds
        )
        sources = [
            NoticeSource(kind, TwoAtATime(consumer, fuse))
            for kind, consumer in zip(kinds, consumers, strict=True)
        ]
        notifier = Notifier(
            sources, outbox, Receiver(arrived, fuse), DYING_RULES, clock_ms=lambda: T0
        )
        while notifier.step(0):
            pass
        assert notifier.waiting == 0


def story(folder: Path, fuse: Fuse) -> list[Notice]:
    """What arrives of notifiers before and after the records; one that dies has a successor."""
    arrived = list[Notice]()
    for published in (False, True):
        if published:
            publish(folder)
        with suppress(Death):
            live(folder, arrived, fuse)
        live(folder, arrived, Fuse())
    return arrived


def by_topic(notices: Sequence[Notice]) -> list[list[str]]:
    """The ids of notices about states, plans and outcomes, a repeated delivery once. Between two
    topics there is no order.
    """
    kinds = (("blind", "ended"), ("plan",), ("failed",))
    parts = [[one for one in notices if one.kind in part] for part in kinds]
    return [[name for name, _ in groupby(one.id for one in part)] for part in parts]


@pytest.mark.heavy
def test_a_death_at_any_moment_loses_and_reorders_nothing(tmp_path: Path) -> None:
    wanted = by_topic(story(tmp_path / "whole", Fuse()))
    assert [len({*ids}) for ids in wanted] == [len(ids) for ids in wanted] == [3, 3, 3]
    for at in range(1_000):
        fuse = Fuse(at)
        arrived = story(tmp_path / f"{at}", fuse)
        assert by_topic(arrived) == wanted, f"death at moment {at}"
        assert len(arrived) <= sum(map(len, wanted)) + 1
        if not fuse.blown:
            break
    assert 40 < at < 999


@pytest.mark.parametrize(
    ("topic", "kept"),
    [("file:///rounds", [(3, 7)]), ("kafka://h:1/rounds", [(0, 20), (1, 5), (3, 7)])],
)
def test_places_of_processed_records(topic: str, kept: list[tuple[int, int]]) -> None:
    seen = [Position(topic, 0, 20), Position(topic, 1, 5), Position(topic, 3, 7)]
    memory = NoticeMemory(T0)
    stored = Stored(1, memory).with_records(seen, memory, [])
    assert stored.places[topic] == kept
    assert all(stored.has(position) for position in seen)
    assert not stored.has(Position(topic, 3, 8))
    assert not stored.has(Position(topic, 4, 0))
    assert not stored.has(Position("another", 0, 0))
    assert stored.has(Position(topic, 2, 0)) == topic.startswith("file")
