"""Destinations of a round: what Java does bundle by bundle, and what counts in fixed mode."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from strategies.cluster.model import BrokerLoad, Decision, Skip
from strategies.cluster.strategy_memory import ClusterMemory, Memory
from strategies.filters.filter_input_and_result import Allowed
from strategies.filters.filter_order_and_settings import Filters, FilterSettings
from strategies.filters.policies import BrokerFacts, PoliciesView
from strategies.placement.contract import UNKNOWN, DestinationRules, nowhere_at_all
from strategies.placement.destinations import Destinations
from strategies.placement.expected_load_ledger import CountedMove, Ledger
from strategies.placement.registry import placer
from strategies.settings import DestinationSettings, Mode
from strategies.states_and_advice_of_codes import Refusal
from tests.world.brokers import WEIGHTS, Load, broker, bundles, loads, ns, view
from tests.world.placement import policies


def leave(bundle: str, source: str = "b1:1", destination: str | None = None) -> Decision:
    return Decision(bundle, source, destination, "too-full", "it is too full")


def destinations(
    *brokers: BrokerLoad,
    placement: str = "least_resource_usage",
    mode: Mode = "fixed",
    known: PoliciesView = PoliciesView(),
    memory: Memory = Memory(),
    on_the_way: Sequence[CountedMove] = (),
    settings: FilterSettings = FilterSettings(distribute_evenly=False),
) -> Destinations:
    """Even distribution does not count unless `settings` says so."""
    filters = Filters(settings, mode)
    rules = DestinationRules(placer(placement, None, mode), filters, DestinationSettings(), WEIGHTS)
    return Destinations(
        view(*brokers), 7, rules, policies=known, memory=memory, on_the_way=on_the_way
    )


def draining(name: str) -> PoliciesView:
    return policies(brokers={name: BrokerFacts(draining=True)})


def named(round_: Destinations, *decisions: Decision) -> list[str]:
    """Where the bundles go, or the code of the reason why they stay."""
    return [
        one.code if isinstance(one, Skip) else str(one.destination)
        for one in map(round_.name, decisions)
    ]


def hot(count: int = 4, mib: float = 10.0) -> BrokerLoad:
    """A broker at 80 % with bundles ns(0), ns(1), … of equal weight."""
    owned = {ns(k): Load(mib=mib, rate=100.0) for k in range(count)}
    return broker("b1", 80.0, mib * count, owned, rate=100.0 * count)


def cool(name: str, percent: float, owned: Mapping[str, Load] | None = None) -> BrokerLoad:
    return broker(
        name, percent, 1.0, owned or {f"t/of-{name}/0x0_0x1": Load(mib=1.0, rate=10.0)}, rate=10.0
    )


class TestAsInJava:
    def test_a_bundle_that_would_be_placed_where_it_is_stays(self) -> None:
        brokers = broker("b1", 10.0, owned={ns(0): Load()}), cool("b2", 80)
        round_ = destinations(*brokers, placement="least_long_term_rate", mode="parity")
        answer = round_.name(leave(ns(0)))
        assert isinstance(answer, Skip)
        assert (answer.code, answer.text) == (
            "placed-on-source",
            "it would be placed where it is: b1:1 has the lowest long-term message rate, 0 msg/s",
        )

    def test_an_overloaded_first_choice_drops_every_filter_but_isolation(self) -> None:
        """Only b2 has few enough bundles, and it is overloaded: all are candidates again."""
        crowded = {ns(k): Load(mib=1.0, rate=10.0) for k in (8, 9)}
        brokers = [hot(2), cool("b2", 95), cool("b3", 10, crowded)]
        round_ = destinations(
            *brokers, placement="least_long_term_rate", mode="parity", settings=FilterSettings()
        )
        assert named(round_, leave(ns(0))) == ["b3:1"]

    def test_the_extensible_load_manager_keeps_its_choice_or_the_bundle(self) -> None:
        rules = FilterSettings(load_manager="extensible")
        brokers = hot(), cool("b2", 10), cool("b3", 10)
        round_ = destinations(*brokers, mode="parity", known=draining("b3:1"), settings=rules)
        chosen = leave(ns(0), destination="b2:1"), leave(ns(1), destination="b3:1"), leave(ns(2))
        assert named(round_, *chosen) == ["b2:1", "draining", "None"]
        assert named(round_, leave(ns(0), destination="b9:1")) == ["not-there"]


class TestEveryMoveCounts:
    def test_a_round_does_not_send_everything_to_one_broker(self) -> None:
        round_ = destinations(hot(), cool("b2", 10), cool("b3", 20), placement="avg")
        leaving = [leave(ns(k)) for k in range(3)]
        assert named(round_, *leaving) == ["b2:1", "b3:1", "no-relief"]

    def test_a_destination_that_shedding_named_is_kept_unless_it_may_not_take_the_bundle(
        self,
    ) -> None:
        brokers, leaves = (hot(), cool("b2", 10), cool("b3", 40)), leave(ns(0), destination="b3:1")
        assert named(destinations(*brokers), leaves) == ["b3:1"]
        answer = destinations(*brokers, known=draining("b3:1")).name(leaves)
        assert isinstance(answer, Decision)
        assert answer.destination == "b2:1"
        assert (
            "; b3:1 is being drained, but b2:1 is at 10.0 % with all moves counted" in answer.text
        )

    def test_a_broker_that_the_bundle_would_overload_is_passed_over_or_the_bundle_stays(
        self,
    ) -> None:
        first = Memory(cluster=ClusterMemory(rotation=("b1:1",)))
        brokers = hot(2), cool("b2", 70), cool("b3", 30)
        round_ = destinations(*brokers, placement="round_robin", memory=first)
        assert named(round_, leave(ns(0))) == ["b3:1"]
        nobody = destinations(hot(2), cool("b2", 70), cool("b3", 75))
        assert named(nobody, leave(ns(0))) == ["no-relief"]

    def test_nobody_may_take_it(self) -> None:
        answer = destinations(hot(), cool("b2", 10), known=draining("b2:1")).name(leave(ns(0)))
        assert isinstance(answer, Skip)
        text = "it may go to no broker: 1 draining, 1 source"
        assert (answer.code, answer.text) == ("no-destination", text)

    def test_one_reason_of_all_brokers_is_the_reason_of_the_bundle(self) -> None:
        full = Refusal("full", "has no room")
        refused = {"b1:1": Refusal("source", "is the source"), "b2:1": full, "b3:1": full}
        assert nowhere_at_all(Allowed((), refused, ())) == Refusal(
            "full", "may go to no broker: b2:1 has no room"
        )
        several = {**refused, "b3:1": Refusal("uneven", "has more of them")}
        assert nowhere_at_all(Allowed((), several, ())).code == "no-destination"

    def test_a_bundle_stays_evenly_spread_as_the_round_goes_on(self) -> None:
        """b2 is used less, even with the first bundle, but b3 has none of the namespace yet."""
        owned = {ns(0): Load(mib=10.0), ns(1): Load(mib=10.0), "t/other/0x0_0x1": Load(mib=20.0)}
        brokers = broker("b1", 80.0, 40.0, owned), cool("b2", 1), cool("b3", 25)
        round_ = destinations(*brokers, placement="avg", settings=FilterSettings())
        assert named(round_, leave(ns(0)), leave(ns(1))) == ["b2:1", "b3:1"]

    @pytest.mark.parametrize(("destination", "code"), [("b2:1", "draining"), ("b9:1", "not-there")])
    def test_why_a_broker_may_not_take_a_bundle(self, destination: str, code: str) -> None:
        brokers, leaves = (hot(), cool("b2", 10)), leave(ns(0))
        refusal = destinations(*brokers, known=draining("b2:1")).refusal(leaves, destination)
        assert refusal is not None
        assert refusal.code == code
        assert destinations(*brokers).refusal(leaves, "b2:1") is None


def test_what_a_bundle_brings_counts_wherever_a_broker_is_asked_about() -> None:
    """b2 has room for a bundle without topics, not for one of five."""
    owned, few = bundles(10, 10), FilterSettings(distribute_evenly=False, max_topics=4)
    table = replace(loads(owned), topics=np.array([5, 0]))
    full = replace(broker("b1", 80.0, 20.0, owned), load_bundles=lambda: table)
    round_ = destinations(full, cool("b2", 10), settings=few)
    refusal = round_.refusal(leave(ns(0)), "b2:1")
    assert refusal is not None
    assert refusal.code == "too-many-topics"
    assert round_.refusal(leave(ns(1)), "b2:1") is None
    assert [round_.takers(one, "b1:1") for one in owned] == [(), ("b2:1",)]
    assert [round_.may_be_relieved(one, "b1:1") for one in owned] == [False, True]


def test_a_ledger_moves_figures_bundles_and_topics() -> None:
    ledger = Ledger([hot(2), cool("b2", 10)], WEIGHTS)
    ledger.count(CountedMove(ns(0), "b1:1", "b2:1", ledger.averages(ns(0), "b1:1")))
    source, destination = ledger.candidate("b1:1"), ledger.candidate("b2:1")
    assert source is not None
    assert destination is not None
    assert [source.usage, source.expected] == pytest.approx([0.8, 0.4])
    assert [destination.usage, destination.expected] == pytest.approx([0.1, 0.5])
    assert ledger.served("b1:1") == {"t/ns": 1}
    assert ledger.served("b2:1") == {"t/of-b2": 1, "t/ns": 1}
    assert (source.expected_rate, destination.expected_rate) == (100.0, 110.0)


def test_topics_on_their_way_are_counted_once_per_bundle() -> None:
    ledger = Ledger([hot(2), cool("b2", 10)], WEIGHTS)
    assert ledger.arriving_topics("b2:1") == 0
    three, five = replace(UNKNOWN, topics=3), replace(UNKNOWN, topics=5)
    ledger.count(CountedMove(ns(0), "b1:1", "b2:1", three))
    ledger.count(CountedMove(ns(1), "b1:1", "b2:1", three))
    ledger.count(CountedMove(ns(0), "b1:1", "b2:1", five))
    assert [ledger.of_first(moves).arriving_topics("b2:1") for moves in range(4)] == [0, 3, 6, 8]
    assert ledger.arriving_topics("b2:1") == 8
    assert ledger.arriving_topics("b1:1") == 0
