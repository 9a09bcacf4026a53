"""Which notices records lead to, in both forms, and the pictures of rounds are in notices.txt."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pulsar_rebalancer.decisions.log import DecisionRecord
from pulsar_rebalancer.decisions.notices.notice_rules import (
    NoticeRules,
    after_records,
    after_silence,
    picture_of,
)
from sinks.notices.delivery import NoticeCause, as_json, as_slack
from strategies.cluster.model import OutcomeStatus
from tests.golden.printed import compare, titled
from tests.notice_builders import MINUTE, T0, a_notice, a_round
from tests.unit.test_notices import EMPTY, PLANS, RULES, an_outcome, published, rounds

LOW = {f"b{n}": 0.3 + n / 100 for n in range(9)}
#: Status and reason of outcomes.
OUTCOMES: tuple[tuple[OutcomeStatus, str | None], ...] = (
    ("failed", "cluster-silent: no answer"),
    ("failed", "cluster-silent: no answer"),
    ("failed", "unanswered: no answer"),
    ("applied", "elsewhere: b3:1 has the bundle"),
    ("applied", None),
    ("applied", "came-back: b1:1 has it again"),
    ("already-done", "replayed: before"),
    ("refused", "paused: this executor is paused"),
    ("expired", "expired: 3 s ago"),
    ("dry-run", "dry-run: would unload"),
)


def told(records: Sequence[DecisionRecord], rules: NoticeRules = RULES) -> Iterator[str]:
    for notice in after_records(EMPTY, records, rules)[1]:
        yield as_json(notice).decode()


def states_that_last() -> Iterator[str]:
    yield from told(rounds(*["cannot-help"] * 5, *["balanced"] * 5))
    first, second, *others = rounds(*["blind"] * 4)
    yield from ("repeated and older rounds", *told([first, second, second, first, second]))
    yield from ("the third one", *told([first, second, second, *others]))
    plain = [replace(one, state=None, epoch=2) for one in rounds(*["balanced"] * 4)]
    yield from ("a version without states", *told([*rounds(*["blind"] * 3), *plain]))


def silence() -> Iterator[str]:
    memory, _ = after_records(EMPTY, rounds("balanced"), RULES)
    for minute in (6, 7, 90):
        memory, found = after_silence(memory, T0 + minute * MINUTE, RULES)
        yield from (f"minute {minute}", *(as_json(one).decode() for one in found))
    later = [replace(one, epoch=2) for one in rounds(*["balanced"] * 3)]
    yield from ("back", *(as_json(one).decode() for one in after_records(memory, later, RULES)[1]))


def outcomes() -> Iterator[str]:
    """Further ones of a reason are counted, and named an hour later."""
    yield from told([an_outcome(*one, at) for at, one in enumerate(OUTCOMES, 1)])
    same = [an_outcome("failed", "cluster-silent: no answer", at) for at in (1, 2, 3, 61)]
    yield from ("the same within an hour", *told(same))


def plans() -> Iterator[str]:
    """Of rounds whose commands are all there, if they are wanted; advice is in no plan."""
    acting: list[DecisionRecord] = [
        *rounds("balanced", "acting", "acting"),
        published("c-2"),
        published("c-3"),
    ]
    yield from ("not wanted", *told(acting), "wanted", *told(acting, PLANS))
    done = a_round("acting", 1, commands=("a", "b"))
    advice = [published(name, action="throttle") for name in ("a", "b")]
    yield from ("half advice", *told([done, advice[0], published("b")], PLANS))
    yield from ("all advice", *told([done, *advice], PLANS))


def forms() -> Iterator[str]:
    link = "https://rebalancer.example/?a=1&b=2"
    full = a_notice(ended="blind", plan="1.2", command="c-1", picture="highest b1 82 %", link=link)
    for notice in (full, a_notice(cause=NoticeCause("x", "y", ""))):
        yield from (as_json(notice).decode(), as_slack(notice).decode())


def pictures() -> Iterator[str]:
    for usage in (
        LOW | {"x1": 0.82, "x2": 0.79, "x3": 0.78},
        LOW | {f"x{n}": 0.8 for n in range(5)},
        {"a": 0.5, "b": 0.5},
        {"a": 0.9, "b": 0.8, "c": 0.1},
        {"a": 0.5},
        {},
    ):
        yield picture_of(replace(a_round("acting", 1), usage=usage, stale={"s": "x", "t": "y"}))


STORIES: tuple[Callable[[], Iterator[str]], ...] = (
    states_that_last, silence, outcomes, plans, forms, pictures,
)  # fmt: skip


def test_notices_are_those_of_the_file(rewrite: bool) -> None:
    parts: list[str] = []
    for story in STORIES:
        parts.append(titled(story))
        parts += [*(f"{line}\n" for line in story()), "\n"]
    compare(Path(__file__).with_name("notices.txt"), parts, rewrite)
