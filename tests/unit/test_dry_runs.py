"""A dry run frees its bundles for the next round, and nothing of it counts."""

import pytest

from strategies.cluster.cluster_state import ClusterState, InMemoryStore
from strategies.cluster.model import Command, Event, OutcomeStatus, Round, TelemetryRecord
from strategies.filters.filter_order_and_settings import FilterSettings
from strategies.fold.engine import Engine, EngineSettings
from strategies.settings import LimitSettings, Mode
from strategies.shedding.overload.settings import OverloadSettings
from strategies.splitting.bundle_limits import SplitSettings
from tests.unit.test_round_stories import with_topics
from tests.world.telemetry import bundle, fold_all, outcome, report, sweep

HEAVY = {bundle(0): 200.0, bundle(1): 190.0, bundle(2): 150.0}


class Cluster:
    """A hot broker and a cold one, an engine, and what it has published."""

    def __init__(
        self, mode: Mode = "fixed", limits: LimitSettings = LimitSettings(), splits: bool = False
    ) -> None:
        settings = EngineSettings(
            "overload",
            mode,
            OverloadSettings(threshold_percent=99.0 if splits else 85.0),
            filters=FilterSettings(distribute_evenly=False),
            limits=limits,
            splitting=SplitSettings(enabled=splits),
        )
        self.engine, self.store, self.events = Engine(settings), InMemoryStore(), list[Event]()
        self.minute, self.topics = -1, 5000 if splits else 1

    def round(
        self, hot: dict[str, float] | None = None, cold: dict[str, float] | None = None
    ) -> list[Command]:
        """The next pass a minute later; the commands of the round that it closes."""
        self.minute += 1
        start, jitter = self.minute * 60, self.minute / 100
        seen: list[TelemetryRecord] = [
            report("hot:1", start + 1, 90.0 + jitter, HEAVY if hot is None else hot),
            report("cold:1", start + 2, 10.0 + jitter, cold or {bundle(4, "t/of-cold"): 1.0}),
            sweep(start + 4, "hot:1", "cold:1"),
        ]
        return self.fold(*with_topics(self.topics, seen))

    def answer(self, command: Command, *statuses: OutcomeStatus) -> None:
        """A few seconds after the last pass."""
        seconds, owner = self.minute * 60 + 10, command.destination
        self.fold(*(outcome(command.id, command.bundle, seconds, it, owner) for it in statuses))

    def rehearse(self, commands: list[Command]) -> None:
        for command in commands:
            self.answer(command, "dry-run")

    def fold(self, *records: TelemetryRecord) -> list[Command]:
        events = fold_all(self.engine, records, self.store)
        self.events += events
        return [
            event for event in events if isinstance(event, Command) and event.action != "throttle"
        ]

    @property
    def state(self) -> ClusterState:
        return self.store.get_cluster()

    @property
    def last(self) -> Round:
        return [event for event in self.events if isinstance(event, Round)][-1]


def names(commands: list[Command]) -> list[str]:
    return [one.bundle for one in commands]


@pytest.mark.parametrize(("mode", "splits"), [("fixed", False), ("parity", False), ("fixed", True)])
def test_the_next_round_commands_the_same_bundles_again_round_after_round(
    mode: Mode, splits: bool
) -> None:
    cluster = Cluster(mode, splits=splits)
    first = cluster.round()
    assert {one.action == "split" for one in first} == {splits}
    for _ in range(4):
        cluster.rehearse(first)
        again = cluster.round()
        assert names(again) == names(first) != []
        assert {one.id for one in again}.isdisjoint(one.id for one in first)
        first = again


def test_it_does_not_count_as_done_and_the_figures_are_those_of_the_reports() -> None:
    cluster = Cluster()
    cluster.rehearse(cluster.round())
    cluster.round()
    assert cluster.last.usage["hot:1"] == pytest.approx(0.9001)
    assert all(one.judged_after_ms <= one.sampled_at_ms for one in cluster.store.brokers())


def test_only_the_answered_part_of_a_rounds_budget_is_given_back() -> None:
    cluster = Cluster()
    small = {bundle(index): 2.0 + index / 100 for index in range(60)}
    first, second, *_ = given = cluster.round(small)
    before = cluster.state.spent[0]
    cluster.answer(first, "dry-run")
    cluster.answer(second, "applied")
    (after,) = cluster.state.spent
    assert (before.bundles, after.bundles) == (len(given), len(given) - 1)
    assert before.throughput - after.throughput == pytest.approx(small[first.bundle] * 2**20)


@pytest.mark.parametrize("verdict", ["applied", "already-done"])
def test_beside_an_executor_that_acts_its_word_counts_whichever_comes_first(
    verdict: OutcomeStatus,
) -> None:
    alone = Cluster()
    dry: OutcomeStatus = "dry-run"
    for cluster, statuses in (
        (alone, [verdict]),
        (Cluster(), [dry, verdict]),
        (Cluster(), [verdict, dry, dry]),
    ):
        for command in cluster.round():
            cluster.answer(command, *statuses)
        state, expected = cluster.state, alone.state
        assert (state.cooling, state.in_flight) == (expected.cooling, expected.in_flight)
        assert sum(one.bundles for one in state.spent) == len(state.cooling) > 0
        if cluster is not alone:
            assert set(expected.cooling).isdisjoint(names(cluster.round()))
    assert set(alone.state.cooling).isdisjoint(names(alone.round()))


def test_a_slow_executor_that_acted_after_the_next_round_keeps_the_bundle_at_rest() -> None:
    """The newer command is refused, which must not free what has just moved."""
    cluster = Cluster()
    (first,) = cluster.round()
    cluster.answer(first, "dry-run")
    (second,) = cluster.round()
    cluster.answer(first, "applied")
    cluster.answer(second, "refused", "dry-run")
    assert first.bundle in cluster.state.cooling
    stays = {bundle: mib for bundle, mib in HEAVY.items() if bundle != first.bundle}
    cluster.round(stays, {first.bundle: HEAVY[first.bundle]})
    assert first.bundle in cluster.state.cooling
    assert first.bundle not in cluster.state.in_flight


def test_a_bundle_that_reports_show_elsewhere_was_moved_whatever_a_late_dry_run_says() -> None:
    cluster = Cluster()
    (first,) = cluster.round()
    cluster.round({bundle(1): 190.0, bundle(2): 150.0}, {bundle(0): 200.0})
    cluster.answer(first, "dry-run")
    assert first.bundle in cluster.state.cooling


@pytest.mark.parametrize("seconds", [90, 250, 600])
def test_a_late_one_frees_its_bundle_as_well(seconds: float) -> None:
    cluster = Cluster()
    (first,) = cluster.round()
    while cluster.minute * 60 < seconds:
        others = cluster.round()
        assert first.bundle not in names(others)
        cluster.rehearse(others)
    cluster.answer(first, "dry-run")
    assert first.bundle not in cluster.state.cooling
    assert first.bundle in names(cluster.round())


def test_what_a_dry_run_answered_is_forgotten_when_no_executor_can_act_on_it_any_more() -> None:
    cluster = Cluster()
    for _ in range(40):
        cluster.rehearse(cluster.round())
    assert 0 < len(cluster.state.rehearsed) <= 11
    for _ in range(12):
        cluster.round({}, None)
    assert cluster.state.rehearsed == {}
