"""What is remembered between records that cause notices, and its bounds. The notices themselves are
in tests/golden/notices.txt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pulsar_rebalancer.decisions.log import DecisionRecord, LoggedCommand
from pulsar_rebalancer.decisions.notices.decide import (
    MOST_CLUSTERS,
    NoticeMemory,
    NoticeRules,
    after_records,
    after_silence,
)
from sinks.notices.notice import Notice
from sinks.notices.settings import NoticeSettings, notice_kinds
from strategies.cluster.model import Outcome, OutcomeStatus, Round
from tests.control_topic import command
from tests.notice_builders import MINUTE, T0, a_round

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
