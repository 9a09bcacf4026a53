"""Brokers are compared by what all of them measure: one that does not know the speed of its network
card looks empty to Pulsar, and is not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Event, LoadReport, Resource, Round, Skip
from strategies.fold.engine import Engine, EngineSettings
from strategies.round.round_input_and_digest import CapacitySettings
from strategies.settings import Weights
from strategies.shedding.steady.memory_format import LoadHistory
from tests.world.telemetry import bundle, commands, report, sweep

#: kbit/s of a card with 10 Gbit/s, and what is used of it.
CARD, USED = 10_000_000.0, 5_600_000.0
NAMES = ("a:1", "b:1", "c:1", "d:1")
BUNDLES = {
    name: {bundle(20 * at + number): 35.0 for number in range(20)} for at, name in enumerate(NAMES)
}


def measuring(
    name: str, minute: int, limit: float = CARD, used: float = USED, **more: Any
) -> LoadReport:
    """A report with a little CPU, and traffic that uses this of its network card. Each minute is a
    new sample.
    """
    said = report(name, 60 * minute, 10 + minute % 2 / 10, BUNDLES[name])
    assert said.figures is not None
    card = Resource(used, limit)
    figures = replace(said.figures, bandwidth_in=card, bandwidth_out=card, **more)
    return replace(said, figures=figures)


def minutes(
    engine: Engine,
    store: InMemoryStore,
    limits: Mapping[str, float],
    count: int = 30,
    *,
    first: int = 1,
    used: float = USED,
    of: Callable[[str], dict[str, Any]] = lambda _: {},
) -> list[Event]:
    """Minutes in which these brokers report these limits of their cards, and the others 10 Gbit/s;
    nothing carries commands out. `of`: more figures of a broker.
    """
    events = list[Event]()
    for minute in range(first, first + count):
        for name in NAMES:
            said = measuring(name, minute, limits.get(name, CARD), used, **of(name))
            events += engine.fold(said, store)
        events += engine.fold(sweep(60 * minute + 5, *NAMES), store)
    return events


def played(
    limits: Mapping[str, float],
    settings: EngineSettings = EngineSettings(),
    of: Callable[[str], dict[str, Any]] = lambda _: {},
) -> list[Event]:
    return minutes(Engine(settings), InMemoryStore(), limits, of=of)


def last_round(events: Sequence[Event]) -> Round:
    return [event for event in events if isinstance(event, Round)][-1]


def skips(done: Round, code: str) -> list[Skip]:
    return [skip for skip in done.skips if skip.code == code]


@pytest.mark.parametrize("limit", [-1000.0, 0.0, -2000.0, -3000.0])
@pytest.mark.parametrize("strategy", ["steady", "threshold", "avg", "transfer", "overload"])
def test_nothing_moves_to_brokers_that_do_not_know_their_network(
    strategy: str, limit: float
) -> None:
    settings = EngineSettings(strategy, weights=Weights(bandwidth_in=1.7))  # above every threshold
    events = played({"c:1": limit, "d:1": limit}, settings)
    done = last_round(events)
    assert commands(events) == []
    assert [*done.usage.values()] == [pytest.approx(0.1, rel=0.02)] * 4
    (skip,) = skips(done, "resource-not-measured")
    assert skip.names == ("c:1", "d:1")
    assert skip.evidence["resources"] == "bandwidth_in, bandwidth_out"
    assert "loadBalancerOverrideBrokerNicSpeedGbps" in skip.text
    assert "capacities.nic_gbps" in skip.text


def test_parity_counts_them_as_empty_as_pulsar_does() -> None:
    done = last_round(played({"c:1": -1000.0}, EngineSettings("threshold", "parity")))
    assert done.usage["c:1"] < 0.2 < done.usage["a:1"]
    assert skips(done, "resource-not-measured") == []


@pytest.mark.parametrize(
    "speeds", ["c:1=10, d:1=10", "*=10", "d:*=10,c:*=10,*=1", "*:1 = 10", "c:1=10,d:1=10,c:1=1"]
)
def test_the_operator_says_how_fast_their_network_is(speeds: str) -> None:
    settings = EngineSettings(capacities=CapacitySettings(nic_gbps=speeds))
    done = last_round(played({"c:1": -1000.0, "d:1": -2000.0}, settings))
    assert done.usage["c:1"] == done.usage["d:1"] == pytest.approx(0.56)
    assert skips(done, "resource-not-measured") == []


def test_the_operators_word_counts_more_than_the_report() -> None:
    settings = EngineSettings(capacities=CapacitySettings(nic_gbps="a:1=25", cores="b:1=0.125"))
    done = last_round(played({}, settings))
    assert done.usage["a:1"] == pytest.approx(0.56 * 10 / 25)
    assert done.usage["b:1"] == pytest.approx(0.8, rel=0.02), "10 % of a core, of which it has 1/8"
    assert done.usage["c:1"] == pytest.approx(0.56)


def test_a_load_that_is_not_measured_stays_so() -> None:
    settings = EngineSettings(capacities=CapacitySettings(nic_gbps="*=10"))
    events = minutes(Engine(settings), InMemoryStore(), dict.fromkeys(NAMES, -1.0), 3, used=-1.0)
    assert last_round(events).usage["a:1"] == pytest.approx(0.1, rel=0.02)


def test_what_no_broker_measures_is_no_news_in_each_round() -> None:
    done = last_round(played(dict.fromkeys(NAMES, -1000.0)))
    assert skips(done, "resource-not-measured") == []
    assert done.usage["a:1"] == pytest.approx(0.1, rel=0.02)


def test_a_broker_that_measures_nothing_takes_no_part() -> None:
    nothing = {"cpu": Resource(10.0, 0.0)}
    done = last_round(played({"d:1": -1000.0}, of=lambda name: nothing if name == "d:1" else {}))
    assert done.brokers == NAMES[:3]
    assert "measures none of the resources that count: cpu (limit 0)" in done.stale["d:1"]
    (skip,) = skips(done, "nothing-measured")
    assert skip.names == ("d:1",)
    assert done.state is not None
    assert done.state.text.endswith("; 1 broker has no usable figures")
    assert done.usage["a:1"] == pytest.approx(0.56), "the others are compared by all they measure"


def test_where_no_broker_measures_anything_the_round_is_blind() -> None:
    blind, nothing = dict.fromkeys(NAMES, 0.0), {"cpu": Resource(10.0, -1000.0)}
    events = played(blind, of=lambda _: nothing)
    state = last_round(events).state
    assert state is not None
    assert (state.code, commands(events)) == ("blind", [])
    assert "0 of 4 have usable figures; a:1: it measures none" in state.text
    assert "[nothing-measured]" in state.text
    assert "capacities.cores" in state.text


def test_where_brokers_have_no_resource_in_common_the_round_is_blind() -> None:
    no_network, no_cpu = dict.fromkeys(NAMES[:2], -1000.0), {"cpu": Resource(10.0, 0.0)}
    events = played(no_network, of=lambda name: {} if name in no_network else no_cpu)
    done = last_round(events)
    assert done.state is not None
    assert (done.state.code, commands(events)) == ("blind", [])
    assert done.state.text.endswith("[nothing-in-common]")
    named = {skip.names for skip in skips(done, "resource-not-measured")}
    assert named == {NAMES[:2], NAMES[2:]}


def test_direct_memory_matters_only_where_it_has_a_weight() -> None:
    counts = EngineSettings(weights=Weights(direct_memory=1.0))
    done = last_round(played({}, counts))
    assert skips(done, "resource-not-measured") == [], "no broker measures it"
    known = {"direct_memory": Resource(50.0, 100.0)}
    done = last_round(played({}, counts, of=lambda name: known if name == "a:1" else {}))
    (skip,) = skips(done, "resource-not-measured")
    assert (skip.names, skip.evidence["resources"]) == (NAMES[1:], "direct_memory")
    assert "weights.direct_memory" in skip.text


def histories(store: InMemoryStore) -> dict[str, int]:
    """Broker → number of samples that SteadyShedder remembers."""
    known = {one.broker: one.memory.history for one in store.brokers()}
    return {name: len(LoadHistory(*one).samples) if one else 0 for name, one in known.items()}


def test_samples_of_other_resources_begin_again_when_a_blind_broker_joins() -> None:
    engine, store = Engine(EngineSettings()), InMemoryStore()
    minutes(engine, store, {}, 10)
    known = histories(store)
    first = last_round(minutes(engine, store, {"d:1": -1000.0}, 1, first=11))
    assert (histories(store), codes_of(first)) == (known, {"others-measured": "waiting"})
    minutes(engine, store, {"d:1": -1000.0}, 1, first=12)
    assert histories(store) == dict.fromkeys(NAMES, 1)


def averages(store: InMemoryStore) -> dict[str, float | None]:
    return {one.broker: one.memory.ewma for one in store.brokers()}


def test_one_report_without_a_figure_costs_no_memory() -> None:
    engine, store = Engine(EngineSettings("threshold")), InMemoryStore()
    minutes(engine, store, {}, 10)
    before = averages(store)
    minutes(engine, store, {"d:1": -1000.0}, 1, first=11)
    assert averages(store) == before
    done = last_round(minutes(engine, store, {}, 1, first=12))
    assert averages(store) == pytest.approx(before)
    assert codes_of(done) == {"below-threshold": "balanced"}


def codes_of(done: Round) -> dict[str, str]:
    """The codes of the skips that decide, and the state of the round."""
    assert done.state is not None
    return {
        skip.code: done.state.code for skip in done.skips if skip.code != "resource-not-measured"
    }


def test_rounds_without_fresh_figures_say_nothing_about_what_is_measured() -> None:
    engine, store = Engine(EngineSettings()), InMemoryStore()
    blind = {"d:1": -1000.0}
    minutes(engine, store, blind, 10)
    known = histories(store)
    for minute in range(11, 18):  # nobody reports
        engine.fold(sweep(60 * minute, *NAMES), store)
    done = last_round(minutes(engine, store, blind, 1, first=18))
    assert skips(done, "others-measured") == []
    assert all(histories(store)[name] >= known[name] for name in NAMES)


def test_the_brokers_own_averages_do_not_count_what_others_do_not_measure() -> None:
    """Those of the extensible load manager: Pulsar averages all that a broker measures."""
    blind, store = {"c:1": -1000.0, "d:1": -1000.0}, InMemoryStore()
    own = {name: {"usage_average": 0.1 if name in blind else 0.9} for name in NAMES}
    events = minutes(Engine(EngineSettings("transfer")), store, blind, of=own.__getitem__)
    assert commands(events) == []
    assert len({*averages(store).values()}) == 1
