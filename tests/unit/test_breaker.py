"""The breaker's rule: its state follows from the results of moves alone."""

import pytest

from strategies.executor.gate_and_breaker import (
    BreakerRules,
    BreakerState,
    MoveResult,
    breaker_objection,
    breaker_state,
    result_of,
)

RULES = BreakerRules(failures=3, within_ms=60_000, pause_ms=30_000)


THREE = ((1, "failed"), (2, "failed"), (3, "failed"))
AHEAD = tuple((86_400 + at_s, how) for at_s, how in THREE)


def state(at_s: int, *moves: tuple[int, str], rules: BreakerRules = RULES) -> BreakerState:
    """`moves`: second, and whether the move was done or failed."""
    results = [MoveResult(second * 1000, failed=how == "failed") for second, how in moves]
    return breaker_state(results, rules, at_s * 1000)


@pytest.mark.parametrize(
    ("at_s", "moves", "code"),
    [
        # It opens at the last of so many failures within the time,
        (2, THREE[:2], "closed"),
        (3, THREE, "open"),
        # not for failures that are far apart,
        (90, ((1, "failed"), (40, "failed"), (61, "failed")), "closed"),
        (90, ((1, "failed"), (40, "failed"), (60, "failed")), "trying"),
        # and moves that succeed in between forgive nothing.
        (4, ((1, "failed"), (2, "failed"), (3, "done"), (4, "failed")), "open"),
        # After the pause one move decides.
        (32, THREE, "open"),
        (33, THREE, "trying"),
        (40, (*THREE, (34, "done")), "closed"),
        (40, (*THREE, (34, "failed")), "open"),
        (64, (*THREE, (34, "failed")), "trying"),
        # After it has closed all failures are forgotten.
        (40, (*THREE, (34, "done"), (35, "failed"), (36, "failed")), "closed"),
        (40, (*THREE, (34, "done"), *((at, "failed") for at in (35, 36, 37))), "open"),
        # A move that ends while it is open does not close it.
        (10, (*THREE, (5, "done")), "open"),
        # Failures of a clock that was ahead are left out once it is right.
        (86_403, AHEAD, "open"),
        (10, AHEAD, "closed"),
        (13, (*AHEAD, (11, "failed"), (12, "failed"), (13, "failed")), "open"),
    ],
)
def test_its_state(at_s: int, moves: tuple[tuple[int, str], ...], code: str) -> None:
    assert state(at_s, *moves).code == code


def test_zero_failures_are_no_breaker() -> None:
    assert state(3, *THREE, rules=BreakerRules(failures=0)).code == "closed"


def test_it_says_why_and_until_when() -> None:
    found = breaker_objection(state(13, *THREE), RULES, 13_000)
    assert found is not None
    assert str(found) == (
        "breaker-open: 3 moves have failed within 1 min, so the executor pauses; in 20 s it tries "
        "one move; check the brokers and the metadata store"
    )
    assert breaker_objection(state(33, *THREE), RULES, 33_000) is None


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
