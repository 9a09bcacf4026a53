"""Looks at a query that does nothing are rare; one that has news is looked at often."""

from __future__ import annotations

from streaming.progress import LONGEST_PAUSE_S, SHORTEST_PAUSE_S, Pauses


def looks_in(seconds: float, pauses: Pauses) -> int:
    """So many looks without news."""
    passed, looks = 0.0, 0
    while passed < seconds:
        passed += pauses.next_s
        pauses.looked(news=False)
        looks += 1
    return looks


def test_an_idle_query_is_looked_at_once_a_second() -> None:
    pauses = Pauses()
    looks_in(10, pauses)
    assert pauses.next_s == LONGEST_PAUSE_S == 1.0
    assert looks_in(60, pauses) == 60


def test_news_make_the_next_looks_frequent_again() -> None:
    pauses = Pauses()
    looks_in(10, pauses)
    pauses.looked(news=True)
    assert pauses.next_s == SHORTEST_PAUSE_S
    assert looks_in(1.5, pauses) == 4


def test_a_run_that_ends_by_itself_never_waits_longer() -> None:
    pauses = Pauses(SHORTEST_PAUSE_S)
    assert looks_in(0.95, pauses) == 10


def test_no_progress_of_spark_is_missed_in_the_longest_pause() -> None:
    quickest_batch_s, kept_by_spark = 0.05, 100
    assert LONGEST_PAUSE_S / quickest_batch_s < kept_by_spark
