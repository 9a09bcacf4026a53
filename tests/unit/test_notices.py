"""What is remembered between records that cause notices; limits and escapes of notices. Notices
themselves are in tests/golden/notices.txt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_rebalancer.decisions.log import DecisionRecord, LoggedCommand
from pulsar_rebalancer.decisions.notices.decide import (
    MOST_CLUSTERS,
    NoticeMemory,
    NoticeRules,
    after_records,
    after_silence,
)
from sinks.notices.notice import (
    HEADER,
    MESSAGE,
    SECTION,
    Notice,
    NoticeCause,
    as_json,
    as_slack,
    clipped,
)
from sinks.notices.settings import NoticeSettings, notice_kinds
from strategies.cluster.model import Outcome, OutcomeStatus, Round
from tests.control_topic import command
from tests.notice_builders import HOSTILE, MINUTE, T0, a_notice, a_round

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

    def test_silence_that_is_not_wanted(self) -> None:
        memory, _ = after_records(EMPTY, rounds("balanced"), RULES)
        rules = replace(RULES, kinds=RULES.kinds - {"silent"})
        assert after_silence(memory, T0 + 70 * MINUTE, rules) == (memory, [])


def an_outcome(status: OutcomeStatus, reason: str | None, minute: int = 1) -> Outcome:
    at = T0 + minute * MINUTE
    return Outcome(
        f"id-{minute}", "prod", "t/n/0x00000000_0x80000000", status, reason, "b1:1", None, 5, at
    )


class TestOutcomes:
    def test_those_before_the_first_start_are_history(self) -> None:
        old = an_outcome("failed", "cluster-silent: no answer", -1)
        assert after_records(EMPTY, [old], RULES) == (EMPTY, [])


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

    def test_commands_before_the_first_start_are_history(self) -> None:
        old = published("a", minute=-1)
        assert after_records(EMPTY, [old], PLANS) == (EMPTY, [])


#: What Slack interprets in a text: everything between these signs.
CONTROL = re.compile(r"[<>]|&(?!amp;|lt;|gt;)")


def texts(message: Any) -> list[dict[str, Any]]:
    """All text objects of the blocks."""
    blocks = message["blocks"]
    return [one for it in blocks for one in ([it["text"]] if "text" in it else it["elements"])]


class TestJson:
    def test_hostile_names_come_back_as_they_are(self) -> None:
        notice = a_notice(cluster=HOSTILE, cause=NoticeCause("x", HOSTILE, ""))
        body = as_json(notice)
        assert body.isascii()
        assert b"\n" not in body
        assert json.loads(body)["cause"]["text"] == HOSTILE


class TestSlack:
    @pytest.mark.heavy
    @given(
        words=st.lists(st.text(max_size=40) | st.just(HOSTILE), min_size=6, max_size=6),
        times=st.sampled_from((1, 200)),
    )
    def test_words_from_records_are_text_and_keep_to_the_limits(
        self, words: list[str], times: int
    ) -> None:
        cluster, title, text, advice, picture, plan = (word * times for word in words)
        notice = a_notice(
            cluster=cluster,
            title=f"x{title}",
            cause=NoticeCause("code", text, advice),
            picture=picture,
            plan=plan,
        )
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
