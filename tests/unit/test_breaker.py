"""The breaker's rule: its state follows from the results of moves alone."""

import pytest

from strategies.executor.gate_and_breaker import (
    BreakerRules,
    MoveResult,
    breaker_objection,
    breaker_state,
    result_of,
)

RULES = BreakerRules(failures=3, within_ms=60_000, pause_ms=30_000)


def results(*moves: tuple[int, str]) -> list[MoveResult]:
    """Second, and whether the move was done or failed."""
    return [MoveResult(at_s * 1000, failed=how == "failed") for at_s, how in moves]


def code(at_s: int, *moves: tuple[int, str], rules: BreakerRules = RULES) -> str:
    return breaker_state(results(*moves), rules, at_s * 1000).code


THREE = ((1, "failed"), (2, "failed"), (3, "failed"))


def test_it_opens_at_the_last_of_so_many_failures_within_the_time() -> None:
    assert code(2, *THREE[:2]) == "closed"
    assert code(3, *THREE) == "open"


def test_failures_that_are_far_apart_do_not_open_it() -> None:
    assert code(90, (1, "failed"), (40, "failed"), (61, "failed")) == "closed"
    assert code(90, (1, "failed"), (40, "failed"), (60, "failed")) == "trying"


def test_moves_that_succeed_in_between_forgive_nothing() -> None:
    assert code(4, (1, "failed"), (2, "failed"), (3, "done"), (4, "failed")) == "open"


def test_after_the_pause_one_move_decides() -> None:
    assert code(32, *THREE) == "open"
    assert code(33, *THREE) == "trying"
    assert code(40, *THREE, (34, "done")) == "closed"
    assert code(40, *THREE, (34, "failed")) == "open"
    assert code(64, *THREE, (34, "failed")) == "trying"


def test_after_it_has_closed_all_failures_are_forgotten() -> None:
    assert code(40, *THREE, (34, "done"), (35, "failed"), (36, "failed")) == "closed"
    assert code(40, *THREE, (34, "done"), *((at, "failed") for at in (35, 36, 37))) == "open"


def test_a_move_that_ends_while_it_is_open_does_not_close_it() -> None:
    assert code(10, *THREE, (5, "done")) == "open"


def test_failures_of_a_clock_that_was_ahead_are_left_out_once_it_is_right() -> None:
    ahead = [(86_400 + at, "failed") for at in (1, 2, 3)]
    assert code(86_403, *ahead) == "open"
    assert code(10, *ahead) == "closed"
    assert code(13, *ahead, (11, "failed"), (12, "failed"), (13, "failed")) == "open"


def test_zero_failures_are_no_breaker() -> None:
    assert code(3, *THREE, rules=BreakerRules(failures=0)) == "closed"


def test_it_says_why_and_until_when() -> None:
    state = breaker_state(results(*THREE), RULES, 13_000)
    found = breaker_objection(state, RULES, 13_000)
    assert found is not None
    assert str(found) == (
        "breaker-open: 3 moves have failed within 1 min, so the executor pauses; in 20 s it tries "
        "one move; check the brokers and the metadata store"
    )
    assert breaker_objection(breaker_state(results(*THREE), RULES, 33_000), RULES, 33_000) is None


@pytest.mark.parametrize(
    ("status", "reason", "failed"),
    [
        ("applied", None, False),
        ("applied", "elsewhere: the bundle went to b:1", False),
        ("applied", "repaired: …", False),
        ("applied", "unverified: …", True),
        ("applied", "unowned: …", True),
        ("failed", "unanswered: …", True),
        ("failed", "refused-by-broker: …", True),
        ("failed", "cluster-silent: …", True),
        ("failed", "cluster-error: …", True),
        ("failed", "declined: …", None),
        ("failed", "came-back: …", None),
        ("failed", "not-found: …", None),
        ("refused", "moved-on: …", None),
        ("already-done", "at-destination: …", None),
    ],
)
def test_what_an_outcome_says_about_the_cluster(
    status: str, reason: str | None, failed: bool | None
) -> None:
    found = result_of(status, reason, 5)  # type: ignore[arg-type]
    assert (None if found is None else found.failed) == failed
