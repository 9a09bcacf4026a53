"""Which bundles a round splits, by either load manager, and which stay whole for now."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from strategies.cluster.model import BrokerLoad, ClusterView
from strategies.filters.filter_order_and_settings import LoadManager
from strategies.settings import Mode
from strategies.splitting.bundle_limits import SplitSettings
from strategies.splitting.due import SPLITTERS, SplitRules, due_splits
from strategies.splitting.when_modular import Splits
from strategies.states_and_advice_of_codes import Refusal
from tests.world.brokers import ns
from tests.world.splits import broker

ON = SplitSettings(enabled=True)
HOT = (1001, 10, 10.0, 10.0)
HOTTER = (5000, 10, 10.0, 10.0)
COLD = (10, 10, 10.0, 10.0)


def due(
    *brokers: BrokerLoad,
    settings: SplitSettings = ON,
    manager: LoadManager = "modular",
    mode: Mode = "fixed",
    hits: Mapping[str, int] | None = None,
    leaving: Collection[str] = (),
    cooling: Collection[str] = (),
    excluded: Collection[str] = (),
    closed: Refusal | None = None,
) -> Splits:
    rules = SplitRules(settings, manager, SPLITTERS[mode], lambda _: 4, closed)
    cold = frozenset(cooling)
    seen = ClusterView("c", 0, brokers, cold, is_excluded=lambda bundle: bundle in excluded)
    return due_splits(seen, leaving, hits or {}, rules)


def split(found: Splits) -> list[str]:
    return [decision.bundle for decision in found.decisions]


def stays(found: Splits) -> dict[str, str]:
    return {name: skip.code for skip in found.skips for name in skip.names}


def test_nothing_is_split_or_counted_unless_it_is_switched_on() -> None:
    assert not SplitSettings().enabled
    assert due(broker("b1:1", {ns(0): HOT}), settings=SplitSettings(), hits={ns(0): 3}) == Splits()


def test_the_modular_manager_splits_what_is_too_big_hottest_first() -> None:
    found = due(broker("b1:1", {ns(0): HOT, ns(1): COLD}), broker("b2:1", {ns(2): HOTTER}))
    assert split(found) == [ns(2), ns(0)]
    decided = found.decisions[1]
    assert (decided.source, decided.destination, decided.code) == ("b1:1", None, "topics")
    assert decided.text == "it holds 1001 topics, more than 1000"
    assert found.hits == {}


class TestExtensibleManager:
    def test_a_bundle_is_split_when_it_was_too_big_for_long_enough(self) -> None:
        one, hits, answers = broker("b1:1", {ns(0): HOT}), dict[str, int](), []
        for _ in range(4):
            found = due(one, manager="extensible", hits=hits)
            hits = dict(found.hits)
            answers.append(split(found))
        assert (answers, hits) == ([[], [], [], [ns(0)]], {})

    def test_where_is_known_only_of_halves(self) -> None:
        one = broker("b1:1", {ns(2): HOT})
        (half,) = due(one, manager="extensible", hits={ns(2): 3}).decisions
        other = SplitSettings(enabled=True, algorithm="topic_count_equally_divide")
        (somewhere,) = due(one, manager="extensible", hits={ns(2): 3}, settings=other).decisions
        assert half.evidence["boundary"] == "0x28000000"
        assert "boundary" not in somewhere.evidence

    @pytest.mark.parametrize(("mode", "hits"), [("fixed", {ns(0): 4}), ("parity", {})])
    def test_a_bundle_that_was_due_still_is(self, mode: Mode, hits: dict[str, int]) -> None:
        one, cooling = broker("b1:1", {ns(0): HOT}), [ns(0)]
        found = due(one, manager="extensible", mode=mode, hits={ns(0): 3}, cooling=cooling)
        assert (split(found), stays(found), found.hits) == ([], {ns(0): "cooling-down"}, hits)

    def test_a_bundle_that_two_brokers_report_is_split_once(self) -> None:
        both = [broker(name, {ns(0): HOT}) for name in ("b1:1", "b2:1")]
        found = due(*both, manager="extensible", hits={ns(0): 3})
        assert [decision.source for decision in found.decisions] == ["b1:1"]
        assert stays(found) == {ns(0): "on-two-brokers"}


@pytest.mark.parametrize("manager", ["modular", "extensible"])
class TestWhatStaysWholeForNow:
    def test_with_its_reason(self, manager: LoadManager) -> None:
        found = due(
            broker("b1:1", {ns(k): HOT for k in range(4)}),
            manager=manager,
            hits={ns(k): 3 for k in range(4)},
            leaving=[ns(0)],
            cooling=[ns(1)],
            excluded=[ns(2)],
        )
        assert split(found) == [ns(3)]
        assert stays(found) == {
            ns(0): "already-leaving",
            ns(1): "cooling-down",
            ns(2): "excluded-namespace",
        }
        text = "it holds 1001 topics, more than 1000, but it leaves its broker in this round"
        assert found.skips[0].text == text

    def test_outside_of_windows_all(self, manager: LoadManager) -> None:
        closed = Refusal("outside-window", "this is not the time")
        found = due(broker("b1:1", {ns(0): HOT}), manager=manager, hits={ns(0): 3}, closed=closed)
        assert (split(found), stays(found)) == ([], {ns(0): "outside-window"})

    def test_a_namespace_with_enough_bundles(self, manager: LoadManager) -> None:
        full, hits = replace(ON, max_bundles=4), {ns(0): 3}
        found = due(broker("b1:1", {ns(0): HOT}), manager=manager, hits=hits, settings=full)
        assert stays(found) == {ns(0): "namespace-full"}
        text = "it is too hot, and its namespace already has splitting.max_bundles = 4 bundles"
        assert found.skips[0].text == text
