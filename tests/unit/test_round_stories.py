"""Whole stories of the live round: policies, limits, placements, splits and advice."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pulsar_rebalancer.decisions.explain.explanation_lines import explain
from pulsar_rebalancer.decisions.explain.subject import locate
from pulsar_rebalancer.decisions.log import DecisionLog
from sinks.wire.record_decoding import decode_command
from sinks.wire.record_encoding import encode_command
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Event, LoadReport, Policies, TelemetryRecord
from strategies.dispatch_limits.throttle_advice import AdviceSettings
from strategies.errors import SettingsError
from strategies.filters.filter_order_and_settings import FilterSettings
from strategies.fold.engine import Engine, EngineSettings, rules_of
from strategies.settings import LimitSettings, Mode
from strategies.shedding.overload.settings import OverloadSettings
from strategies.splitting.bundle_limits import SplitSettings
from tests.world.placement import policy
from tests.world.telemetry import T0, bundle, commands, fold_all, report, rounds, sweep

HEAVY = {bundle(0): 200.0, bundle(1): 190.0, bundle(2): 150.0}
NAMES = ("hot:1", "cool:1", "cold:1")


def engine(mode: Mode = "fixed", strategy: str = "overload", **parts: Any) -> Engine:
    """OverloadShedder, which acts at once; a broker may have several bundles of a namespace."""
    parts = {"filters": FilterSettings(distribute_evenly=False), **parts}
    return Engine(EngineSettings(strategy, mode, **parts))


def a_pass(
    minute: int = 0, hot: float = 90.0, heavy: dict[str, float] | None = None
) -> list[TelemetryRecord]:
    """Three brokers, the first of them hot."""
    start = minute * 60
    return [
        report("hot:1", start + 1, hot + minute / 10, HEAVY if heavy is None else heavy),
        report("cool:1", start + 2, 20.0 + minute / 10, {bundle(3, "t/of-cool"): 2.0}),
        report("cold:1", start + 3, 10.0 + minute / 10, {bundle(4, "t/of-cold"): 1.0}),
        sweep(start + 4, *NAMES),
    ]


def policies(**snapshot: Any) -> Policies:
    return Policies("c", T0, json.dumps(snapshot))


#: Only the hot broker may take bundles.
NOBODY = policies(brokers={name: {"draining": True} for name in ("cool:1", "cold:1")})


def moved(events: list[Event]) -> list[tuple[str, str | None]]:
    return [(one.bundle, one.destination) for one in commands(events) if one.is_move]


def stays(events: list[Event]) -> dict[str, str]:
    return {name: skip.code for one in rounds(events) for skip in one.skips for name in skip.names}


def with_topics(topics: int, records: list[TelemetryRecord]) -> list[TelemetryRecord]:
    return [large(one, topics) if isinstance(one, LoadReport) else one for one in records]


def large(record: LoadReport, topics: int) -> LoadReport:
    assert record.bundles is not None
    counts = np.full(len(record.bundles.names), topics, dtype=np.int64)
    return replace(record, bundles=replace(record.bundles, topics=counts))


def with_splits(*minutes: int, store: InMemoryStore | None = None) -> list[Event]:
    """Of a broker with very many topics, which is not overloaded."""
    passes = [record for minute in minutes for record in a_pass(minute, hot=30.0)]
    splitting = SplitSettings(enabled=True)
    return fold_all(engine(splitting=splitting), with_topics(5000, passes), store)


def hopeless(minute: int = 0) -> list[TelemetryRecord]:
    """The only bundle of an overloaded broker: all others would be overloaded, too."""
    start = minute * 60
    return [
        report("hot:1", start + 1, 95.0 + minute / 100, {bundle(0): 300.0}),
        report("cool:1", start + 2, 80.0 + minute / 100, {bundle(3, "t/of-cool"): 1.0}),
        sweep(start + 3, "hot:1", "cool:1"),
    ]


class TestPoliciesOfTheLog:
    def test_isolation_is_kept(self) -> None:
        gold = policies(isolation=[policy("gold", ["t/ns"], ["hot", "cool"])])
        assert moved(fold_all(engine(), [gold, *a_pass()])) == [(bundle(0), "cool:1")]

    def test_the_newest_snapshot_counts_in_later_rounds_too(self) -> None:
        all_again = replace(policies(), ts=T0 + 30_000)
        events = fold_all(engine(), [NOBODY, *a_pass(0), all_again, *a_pass(1)])
        assert [one.round for one in commands(events) if one.action == "transfer"] == [2]
        assert stays(events)[bundle(0)] == "no-destination"

    @pytest.mark.parametrize("snapshot", ["{", '["isolation"]', '{"isolation": {"gold": 7}}'])
    def test_what_cannot_be_read_is_told_and_stops_nothing(self, snapshot: str) -> None:
        events = fold_all(engine(), [Policies("c", T0, snapshot), *a_pass()])
        assert stays(events)["c"] == "unreadable-policies"

    @pytest.mark.parametrize(("max_topics", "second"), [(30, "cold:1"), (25, "cool:1")])
    def test_moves_under_way_count_for_the_limit_of_topics(
        self, max_topics: int, second: str
    ) -> None:
        """Cold serves ten topics, and ten are on their way that no report shows."""
        heavy, busy = {**HEAVY, bundle(5): 50.0}, {bundle(3, "t/of-cool"): 500.0}
        passes = [*a_pass(0, 61.0, heavy), *a_pass(1, 99.0, heavy)]
        passes[1], passes[5] = (report("cool:1", at, 20.0, busy) for at in (2, 62))
        rule = engine(
            filters=FilterSettings(distribute_evenly=False, max_topics=max_topics),
            shedding=OverloadSettings(threshold_percent=60.0),
        )
        events = fold_all(rule, with_topics(10, passes))
        assert moved(events) == [(bundle(0), "cold:1"), (bundle(5), second)]


class TestPlacement:
    def test_auto_is_the_one_beside_the_strategy(self) -> None:
        (command,) = commands(fold_all(engine(), a_pass()))
        assert (command.action, command.evidence["placement"]) == ("transfer", "least-rate")

    def test_none_leaves_it_to_pulsar(self) -> None:
        (command,) = commands(fold_all(engine(placement="none"), a_pass()))
        assert (command.action, command.destination) == ("unload", None)
        assert "placement" not in command.evidence

    def test_none_still_heeds_policies(self) -> None:
        events = fold_all(engine(placement="none"), [NOBODY, *a_pass()])
        assert stays(events)[bundle(0)] == "no-destination"

    def test_another_one_by_name(self) -> None:
        (command,) = commands(fold_all(engine(placement="round_robin"), a_pass()))
        assert command.evidence["placement"] == "its-turn"

    def test_a_name_nobody_knows(self) -> None:
        told = r"placement\.strategy: 'best' is not known; choose one of"
        with pytest.raises(SettingsError, match=told):
            rules_of(EngineSettings(placement="best"))


class TestLimits:
    def test_excluded_brokers_neither_give_nor_take(self) -> None:
        events = fold_all(engine(limits=LimitSettings(excluded_brokers="cold:*")), a_pass())
        assert moved(events) == [(bundle(0), "cool:1")]
        assert stays(events)["cold:1"] == "excluded-broker"
        events = fold_all(engine(limits=LimitSettings(excluded_brokers="hot:1")), a_pass())
        assert stays(events)["cool:1"] == "not-overloaded"

    def test_the_budget_of_an_hour_is_kept_over_rounds(self) -> None:
        store = InMemoryStore()
        busy = engine(
            limits=LimitSettings(moves_per_hour=2),
            shedding=OverloadSettings(threshold_percent=50.0),
        )
        minutes = [fold_all(busy, a_pass(minute), store) for minute in range(80)]
        given = [len(moved(events)) for events in minutes]
        assert given[0] > 0
        assert sum(given[:60]) == 2
        assert sum(given[60:]) > 0
        assert "budget" in stays([event for events in minutes for event in events]).values()


class TestSplits:
    def test_the_modular_manager_at_once_and_then_the_bundle_rests(self) -> None:
        events = with_splits(0, 1)
        assert {(one.round, one.action) for one in commands(events)} == {(1, "split")}
        assert stays(events)[bundle(0)] == "cooling-down"

    def test_the_extensible_manager_after_enough_rounds(self) -> None:
        passes = [record for minute in range(5) for record in a_pass(minute, 30.0)]
        rule = engine(strategy="transfer", splitting=SplitSettings(enabled=True, max_splits=1))
        given = commands(fold_all(rule, with_topics(5000, passes)))
        split = [one for one in given if (one.action, one.source) == ("split", "hot:1")]
        assert [one.round for one in split] == [4, 5]
        assert len({one.bundle for one in split}) == 2

    def test_they_are_no_moves(self) -> None:
        store = InMemoryStore()
        with_splits(0, store=store)
        state = store.get_cluster()
        assert (dict(state.in_flight), state.spent) == ({}, ())
        assert bundle(0) in state.cooling


class TestAdvice:
    def advice(self, rule: Engine, minute: int = 0, store: InMemoryStore | None = None) -> int:
        given = commands(fold_all(rule, hopeless(minute), store))
        return sum(one.action == "throttle" for one in given)

    def test_a_hot_topic_that_nobody_can_take(self) -> None:
        (one,) = commands(fold_all(engine(), hopeless()))
        ends = (one.source, one.destination)
        assert (one.action, one.bundle, ends) == ("throttle", bundle(0), ("hot:1", None))
        assert one.code == "hot-bundle"
        assert one.expected.source_before == one.expected.source_after

    def test_it_is_not_repeated_for_a_while_and_no_bundle_rests_for_it(self) -> None:
        store, rule = InMemoryStore(), engine(throttling=AdviceSettings(repeat_ms=120_000))
        assert [self.advice(rule, minute, store) for minute in range(4)] == [1, 0, 1, 0]
        assert store.get_cluster().cooling == {}

    def test_not_in_parity_mode_nor_when_switched_off(self) -> None:
        assert self.advice(engine("parity")) == 0
        assert self.advice(engine(throttling=AdviceSettings(advise=False))) == 0


def test_on_the_topic_a_split_names_its_algorithm_and_advice_its_limits() -> None:
    given = commands(with_splits(0))[0], commands(fold_all(engine(), hopeless()))[0]
    assert [decode_command(encode_command(one)) for one in given] == [*given]
    split, advice = (json.loads(encode_command(one)) for one in given)
    assert (split["action"], split["algorithm"]) == ("split", "range_equally_divide")
    assert split["destination"] is None
    assert "limits" not in split
    assert advice["limits"]["level"] == "topic"
    assert "algorithm" not in advice


class TestExplained:
    """Splits, advice and brokers that are left out, as `rebalancer explain` tells them."""

    def explained(self, word: str, events: list[Event]) -> str:
        history = DecisionLog(tuple(rounds(events)), tuple(commands(events)))
        return "\n".join(explain(locate(word, history).subject, history, 3))

    def test_a_split_goes_nowhere(self) -> None:
        events = with_splits(0)
        why = "because it holds 5000 topics, more than 1000"
        line = f"split {bundle(0)} of hot:1 by range_equally_divide, {why}"
        for word in ("1", "hot:1", bundle(0)):
            assert line in self.explained(word, events)
        assert "a broker that Pulsar chooses" not in self.explained("1", events)
        assert "expected" not in self.explained(commands(events)[0].id, events)

    def test_advice_names_its_limits(self) -> None:
        events = fold_all(engine(), hopeless())
        told = self.explained(commands(events)[0].id, events)
        assert f"what: advice to throttle {bundle(0)} of hot:1" in told
        limits = "InMsg = 121263, dispatchThrottlingRateInByte = 124173473"
        assert f"limits: level = topic, dispatchThrottlingRate{limits}" in told

    def test_a_broker_that_the_operator_leaves_out(self) -> None:
        events = fold_all(engine(limits=LimitSettings(excluded_brokers="cold:1")), a_pass())
        assert "was left out: limits.excluded_brokers names it" in self.explained("cold:1", events)
