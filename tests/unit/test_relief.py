"""A broker sheds its heaviest bundles first, or those of the lowest rank."""

from dataclasses import replace

from strategies.cluster.strategy_memory import NO_MEMORY, BrokerMemory, Memory
from strategies.shedding.broker_memory import kept_of, with_histories
from strategies.shedding.bundles_to_shed import Room, SheddingReason, relieve
from strategies.shedding.candidates import ordinary_bundles
from tests.world.brokers import MIB, broker, bundles, ns, view

HOT = broker("b1", 90.0, 100.0, bundles(30, 20, 10))


def leaving(reason: SheddingReason, **order: dict[str, float]) -> tuple[list[str], str]:
    """The bundles that leave, and why others stay."""
    seen = view(HOT, broker("b2", 10.0, 10.0))
    decisions, skips = relieve(HOT, Room(0.9, 0.1), reason, seen, (), **order)
    return [one.bundle for one in decisions], skips[0].text


def test_ranked_bundles_leave_from_the_lowest_rank_and_equal_ones_by_name() -> None:
    reason = SheddingReason("far-above", "is too full", 25.0 * MIB, {}, first="newer")
    ranks = {ns(0): 1.0, ns(1): -1.0, ns(2): -1.0}

    assert leaving(reason, ranked=ranks)[0] == [ns(1), ns(2)]
    assert leaving(reason, ranked={**ranks, ns(2): 2.0}) == (
        [ns(1), ns(0)],
        "the 25.0 MiB/s that had to go are covered by newer bundles",
    )


def test_what_a_strategy_keeps_of_a_broker_replaces_what_it_kept_and_nothing_else() -> None:
    before = Memory(
        {"a:1": BrokerMemory(ewma=0.5, history=(1,)), "b:1": BrokerMemory(history=(2,))}
    )

    after = with_histories(before, {"c:1": ({"bundle": 3},)})
    assert kept_of(after, lambda one: one.history) == {"c:1": ({"bundle": 3},)}
    assert kept_of(after, lambda one: one.ewma) == {"a:1": 0.5}
    assert "b:1" not in after.brokers
    assert NO_MEMORY.history is None


def test_bundles_that_a_report_does_not_list_are_counted() -> None:
    listed = broker("b1", 90.0, 100.0, bundles(30))
    figures = replace(listed.figures, bundle_count=3)

    assert ordinary_bundles(listed) == 1
    assert ordinary_bundles(replace(listed, figures=figures)) == 3
