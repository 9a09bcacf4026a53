"""Notices over all sequences of states: no condition is notified twice in a row, and every change
that lasts is notified.
"""

from dataclasses import replace
from itertools import groupby, pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pulsar_rebalancer.decisions.notices.notice_rules import (
    NoticeMemory,
    NoticeRules,
    after_records,
    after_silence,
)
from sinks.notices.delivery import Notice
from strategies.cluster.model import Round
from strategies.states_and_advice_of_codes import STATES
from tests.notice_builders import MINUTE, T0, a_round

SILENT_MS = 3 * MINUTE
rules = st.builds(
    lambda kinds, settle: NoticeRules(frozenset(kinds), settle, SILENT_MS),
    st.sets(st.sampled_from((*STATES, "silent"))),
    st.integers(1, 4),
)
#: Rounds: cluster, state, minutes since the round before.
lives = st.lists(
    st.tuples(
        st.sampled_from(("east", "west")), st.sampled_from(STATES), st.sampled_from((1, 1, 1, 9))
    ),
    max_size=40,
)


def lived(
    life: list[tuple[str, str, int]], rules_: NoticeRules, *, restarts: bool = False
) -> tuple[list[Round], list[Notice]]:
    """The rounds of a life and its notices; the topics are empty after each round. With restarts,
    the memory goes to the disk and back each time.
    """
    memory, minute = NoticeMemory(begun=T0), 0
    rounds, notices = list[Round](), list[Notice]()
    for number, (cluster, code, later) in enumerate(life, 1):
        minute += later
        memory, silent = after_silence(memory, T0 + minute * MINUTE - 1, rules_)
        one = replace(a_round(code, number), cluster=cluster, ts=T0 + minute * MINUTE)
        memory, found = after_records(memory, [one], rules_)
        rounds.append(one)
        notices += [*silent, *found]
        if restarts:
            memory = msgspec.json.decode(msgspec.json.encode(memory), type=NoticeMemory)
    return rounds, notices


@given(life=lives, rules_=rules)
def test_no_condition_is_notified_twice_in_a_row(
    life: list[tuple[str, str, int]], rules_: NoticeRules
) -> None:
    _, notices = lived(life, rules_)
    for cluster in ("east", "west"):
        own = [one for one in notices if one.cluster == cluster]
        assert all(before.kind != after.kind for before, after in pairwise(own))
        assert all(one.kind in rules_.kinds or one.kind == "ended" for one in own)
        assert own == [] or own[0].kind != "ended"
        for before, after in pairwise(own):
            assert (after.kind == "ended") == (after.ended is not None)
            assert after.ended in (None, before.kind)
    assert len({one.id for one in notices}) == len(notices)


@given(life=lives, rules_=rules)
def test_every_change_that_lasts_is_notified_when_it_has_lasted(
    life: list[tuple[str, str, int]], rules_: NoticeRules
) -> None:
    without_silence = replace(rules_, kinds=rules_.kinds - {"silent"})
    rounds, notices = lived(life, without_silence)
    for cluster in ("east", "west"):
        notified, wanted = "", []
        own = [one for one in rounds if one.cluster == cluster]
        for condition, group in groupby(own, lambda one: condition_of(one, without_silence)):
            run = list(group)
            if len(run) >= without_silence.settle_rounds and condition != notified:
                notified = condition
                at = run[without_silence.settle_rounds - 1].ts
                wanted.append((condition or "ended", run[0].ts, at))
        found = [(one.kind, one.since, one.ts) for one in notices if one.cluster == cluster]
        assert found == wanted


@given(life=lives, rules_=rules)
def test_restarts_change_nothing(life: list[tuple[str, str, int]], rules_: NoticeRules) -> None:
    assert lived(life, rules_, restarts=True) == lived(life, rules_)


def condition_of(done: Round, rules_: NoticeRules) -> str:
    assert done.state is not None
    return done.state.code if done.state.code in rules_.kinds else ""
