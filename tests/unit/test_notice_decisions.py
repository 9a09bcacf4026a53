"""Which changes of a cluster cause a notice: those that last, once, with the cause, and nothing
else.
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
from pulsar_rebalancer.decisions.round_texts import picture_of
from sinks.notices.delivery import Notice
from sinks.notices.settings import NoticeSettings, notice_kinds
from strategies.cluster.model import Outcome, OutcomeStatus, Round
from strategies.executor.approvals import ApprovedCommand, plan_id
from tests.control_topic import command
from tests.notice_builders import MINUTE, T0, a_round

RULES = NoticeRules(
    notice_kinds(NoticeSettings()), settle_rounds=3, silent_ms=5 * MINUTE, quiet_ms=60 * MINUTE
)
EMPTY = NoticeMemory(begun=T0)


def rounds(*codes: str) -> list[Round]:
    return [a_round(code, number) for number, code in enumerate(codes, 1)]


def notices(observed: Sequence[DecisionRecord], rules: NoticeRules = RULES) -> list[Notice]:
    return after_records(EMPTY, observed, rules)[1]


def kinds(observed: Sequence[DecisionRecord], rules: NoticeRules = RULES) -> list[str]:
    return [notice.kind for notice in notices(observed, rules)]


class TestStates:
    def test_a_state_that_lasts_causes_one_and_so_does_its_end(self) -> None:
        found = notices(rounds(*["cannot-help"] * 5, *["balanced"] * 5))
        assert [(one.kind, one.ended, one.since, one.ts) for one in found] == [
            ("cannot-help", None, T0 + MINUTE, T0 + 3 * MINUTE),
            ("ended", "cannot-help", T0 + 6 * MINUTE, T0 + 8 * MINUTE),
        ]
        assert found[0].cause.text == "the reason for cannot-help [cannot-help-code]"
        assert found[0].cause.advice == "What to do."
        assert found[1].cause.code == "balanced"
        assert found[1].title == (
            "prod: cannot-help has ended, now balanced, since 2026-11-18 11:12:40 UTC (3 rounds)"
        )

    def test_repeated_and_older_rounds_change_nothing(self) -> None:
        first, second, *others = rounds(*["blind"] * 4)
        assert kinds([first, second, second, first, second]) == []
        assert kinds([first, second, second, *others]) == ["blind"]

    def test_a_round_of_a_version_without_states(self) -> None:
        plain = [replace(one, state=None) for one in rounds(*["balanced"] * 4)]
        found = notices([*rounds(*["blind"] * 3), *(replace(one, epoch=2) for one in plain)])
        assert [one.kind for one in found] == ["blind", "ended"]

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
    def test_a_cluster_without_rounds_is_silent_once_and_then_comes_back(self) -> None:
        memory, _ = after_records(EMPTY, rounds("balanced"), RULES)
        in_time = after_silence(memory, T0 + 6 * MINUTE, RULES)
        memory, found = after_silence(memory, T0 + 7 * MINUTE, RULES)
        again, none = after_silence(memory, T0 + 90 * MINUTE, RULES)
        later = [replace(one, epoch=2) for one in rounds(*["balanced"] * 3)]
        _, back = after_records(again, later, RULES)

        assert (in_time[1], none) == ([], [])
        assert [(one.kind, one.since, one.ts) for one in found] == [
            ("silent", T0 + MINUTE, T0 + 6 * MINUTE)
        ]
        assert "no newer round for more than 300 s" in found[0].cause.text
        assert [(one.kind, one.ended) for one in back] == [("ended", "silent")]

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
    @pytest.mark.parametrize(
        ("status", "reason", "kind"),
        [
            ("failed", "cluster-silent: no answer", "failed"),
            ("applied", "elsewhere: b3:1 has the bundle", "lost-destination"),
        ],
    )
    def test_what_went_wrong(self, status: OutcomeStatus, reason: str, kind: str) -> None:
        (found,) = notices([an_outcome(status, reason)])
        assert (found.kind, found.command) == (kind, "id-1")
        assert found.cause.code == reason.partition(":")[0]
        assert found.cause.text == f"t/n/0x00000000_0x80000000: {reason}"

    @pytest.mark.parametrize(
        ("status", "reason"),
        [
            ("applied", None),
            ("applied", "came-back: b1:1 has it again"),
            ("already-done", "replayed: before"),
            ("refused", "paused: this executor is paused"),
            ("expired", "expired: 3 s ago"),
            ("dry-run", "dry-run: would unload"),
        ],
    )
    def test_what_did_not(self, status: OutcomeStatus, reason: str | None) -> None:
        assert notices([an_outcome(status, reason)]) == []

    def test_further_ones_of_a_reason_are_counted_and_named_later(self) -> None:
        same = [an_outcome("failed", "cluster-silent: no answer", at) for at in (1, 2, 3, 61)]
        first, second = notices(same)
        assert first.title == "prod: a command failed"
        assert second.title == "prod: a command failed; 2 more since the notice before"

    def test_another_reason_is_a_notice_of_its_own(self) -> None:
        found = [an_outcome("failed", f"{code}: x", 1) for code in ("one", "two", "one")]
        assert [one.cause.code for one in notices(found)] == ["one", "two"]

    def test_those_before_the_first_start_are_history(self) -> None:
        old = an_outcome("failed", "cluster-silent: no answer", -1)
        assert after_records(EMPTY, [old], RULES) == (EMPTY, [])


def published(name: str, minute: int = 1, **changes: object) -> LoggedCommand:
    at = T0 + minute * MINUTE
    given = {"id": name, "cluster": "prod", "issued_at_ms": at, **changes}
    return LoggedCommand(command("t/n/0x00000000_0x80000000", "b1:1", None, **given), "a-digest")


class TestPlans:
    RULES = replace(RULES, kinds=RULES.kinds | {"plan"}, link="http://rebalancer:8080/")

    def test_a_round_and_all_its_commands_are_a_plan_if_plans_are_wanted(self) -> None:
        records: list[DecisionRecord] = [
            *rounds("balanced", "acting", "acting"),
            published("c-2"),
            published("c-3"),
        ]
        found = notices(records, self.RULES)
        ids = [
            plan_id("prod", 1, number, [ApprovedCommand(f"c-{number}", "a-digest")])
            for number in (2, 3)
        ]
        assert [(one.kind, one.plan, one.link) for one in found] == [
            ("plan", ids[0], "http://rebalancer:8080/"),
            ("plan", ids[1], "http://rebalancer:8080/"),
        ]
        assert found[0].title == "prod: round 2 has a plan of 1 command"
        assert kinds(records) == []

    def test_in_any_order_and_only_once(self) -> None:
        done, one, two = a_round("acting", 1, commands=("a", "b")), published("a"), published("b")
        orders: list[list[DecisionRecord]] = [[done, one, two], [one, done, two], [two, one, done]]
        for records in orders:
            (found,) = notices(records, self.RULES)
            assert found.title == "prod: round 1 has a plan of 2 commands"
        assert notices([done, one], self.RULES) == []
        assert len(notices([done, one, two, two, done, one], self.RULES)) == 1

    def test_advice_is_in_no_plan(self) -> None:
        done = a_round("acting", 1, commands=("a", "b"))
        advice = [published(name, action="throttle") for name in ("a", "b")]
        (found,) = notices([done, advice[0], published("b")], self.RULES)
        assert found.title == "prod: round 1 has a plan of 1 command"
        assert (
            notices(
                [done, published("a", action="throttle"), published("b", action="throttle")],
                self.RULES,
            )
            == []
        )

    @pytest.mark.heavy
    def test_what_is_never_complete_is_forgotten(self) -> None:
        many = [a_round("acting", number, commands=("lost",)) for number in range(1, 60)]
        stray = [published(f"stray-{n}") for n in range(5_050)]
        known = after_records(EMPTY, [*many, *stray], self.RULES)[0].of("prod")
        assert (len(known.plans), len(known.commands)) == (20, 5_000)
        assert "stray-5049" in known.commands

    def test_commands_before_the_first_start_are_history(self) -> None:
        old = published("a", minute=-1)
        assert after_records(EMPTY, [old], self.RULES) == (EMPTY, [])


LOW = {f"b{n}": 0.3 + n / 100 for n in range(9)}


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (
            LOW | {"x1": 0.82, "x2": 0.79, "x3": 0.78},
            "3 of 12 brokers above the rest: x1 82 %, x2 79 %, x3 78 %; lowest b0 30 %; "
            "1 command; spread 51 → 2 points",
        ),
        (
            LOW | {f"x{n}": 0.8 for n in range(5)},
            "5 of 14 brokers above the rest: x0 80 %, x1 80 %, x2 80 % and 2 more; lowest b0 30 %; "
            "1 command; spread 51 → 2 points",
        ),
        ({"a": 0.5, "b": 0.5}, "highest of 2 brokers a 50 %; lowest b 50 %"),
        ({"a": 0.9, "b": 0.8, "c": 0.1}, "highest of 3 brokers a 90 %; lowest c 10 %"),
        ({"a": 0.5}, "1 broker: a 50 %"),
        ({}, "2 brokers without fresh figures; none with usage"),
    ],
)
def test_a_picture_says_who_is_above_the_rest_and_what_would_move(
    usage: dict[str, float], words: str
) -> None:
    done = replace(a_round("acting", 1), usage=usage, stale={"s": "x", "t": "y"})
    assert picture_of(done).startswith(words)
