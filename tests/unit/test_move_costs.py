"""What moves cost, by load manager and number of topics."""

from dataclasses import replace

from pulsar_rebalancer.decisions.explain.measured_move_costs import move_costs
from pulsar_rebalancer.decisions.explain.outcome_verdicts import in_short
from strategies.cluster.model import Outcome
from strategies.cluster.move_cost import MoveCost

MOVED = Outcome("id", "c", "t/ns/0x00000000_0x80000000", "applied", None, "a:1", "b:1", 90, 5)


def moved(topics: int | None, unowned_ms: int | None, first_ms: int | None = None) -> Outcome:
    return replace(MOVED, cost=MoveCost(unowned_ms, first_ms, topics, 1, "modular"))


def test_moves_are_grouped_by_manager_and_about_as_many_topics() -> None:
    modular = ((1, 20), (12, 100, 400), (99, 300, 900), (40, 200), (5_000, 7_000), (None, 30))
    extensible = replace(MOVED, cost=MoveCost(10, None, 12, 1, "extensible"))
    found = move_costs([*(moved(*one) for one in modular), extensible])
    assert [one.row for one in found] == [
        ("extensible", "10–99", "1", "0.01", "0.01", "–", "–"),
        ("modular", "0–1", "1", "0.02", "0.02", "–", "–"),
        ("modular", "10–99", "3", "0.20", "0.30", "0.65", "0.90"),
        ("modular", "1000 or more", "1", "7.00", "7.00", "–", "–"),
        ("modular", "unknown", "1", "0.03", "0.03", "–", "–"),
    ]
    assert found[2].line.startswith("modular, 10–99 topics, 3 moves: without owner for 0.20 s (")
    assert found[2].line.endswith("(longest 0.30 s), first message after 0.65 s (longest 0.90 s)")


def test_only_measured_moves_that_were_applied_count_and_repetitions_once() -> None:
    failed = replace(moved(3, 20), status="failed")
    assert move_costs([MOVED, failed]) == []
    assert [one.moves for one in move_costs([moved(3, 20), moved(3, 20), MOVED])] == [1]


def test_an_outcome_in_words_has_what_was_measured() -> None:
    assert in_short(MOVED) == "applied, now on b:1"
    assert in_short(moved(12, 16, 310)) == (
        "applied, now on b:1; 12 topics, without owner for 0.02 s, first message after 0.31 s"
    )
