"""What SteadyShedder remembers of moves that no executor carried out: nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from strategies.cluster.model import BrokerLoad, ClusterView
from strategies.cluster.strategy_memory import Memory
from strategies.shedding.steady.load_samples import counted, uncounted
from strategies.shedding.steady.memory_format import (
    Episode,
    LoadSample,
    RecentMove,
    histories_of,
    moves_of,
)
from strategies.shedding.steady.settings import SteadySettings
from strategies.shedding.steady.steady_round import SteadyShedder
from tests.unit.test_steady_samples import sampled
from tests.world.brokers import MIB, WEIGHTS, Load, broker, ns, view
from tests.world.steady import history_of, levels_of

MINUTE_MS = 60_000
#: Minutes in which a command may be carried out, and after which each list of bundles shows it.
LIFETIME, SHOWN = 5, 7


@dataclass
class Cluster:
    """A hot broker with twelve bundles of 4 points and a cold one with three. Commands wait: their
    bundles rest, and their executor carries them out at the minute `done_at`, or never. The
    destination reports them this number of minutes later; `gone`: bundles that no broker reports;
    `counts_moves`: usages are estimates with the moves counted as done.
    """

    done_at: int | None = None
    minute: int = -1
    memory: Memory = field(default_factory=Memory)
    first: tuple[str, ...] = ()
    useless: set[int] = field(default_factory=set)
    destination_later: int = 0
    counts_moves: bool = False
    gone: set[str] = field(default_factory=set)

    def pass_minutes(self, count: int) -> None:
        """Further rounds; the moves of the first plan are the only ones that are commanded."""
        rule = SteadyShedder(SteadySettings(), WEIGHTS)
        for _ in range(count):
            self.minute += 1
            shedding = rule.shed(self._view(), self.memory)
            self.memory = shedding.memory
            assert shedding.forecast is not None
            self.useless.add(shedding.forecast.useless_rounds)
            self.first = self.first or tuple(one.bundle for one in shedding.decisions)

    @property
    def moves(self) -> Sequence[RecentMove]:
        """Those of the first plan that are remembered."""
        return [one for one in moves_of(self.memory.cluster) if one.bundle in self.first]

    @property
    def episode(self) -> Episode:
        return Episode(*self.memory.cluster.episode)

    def usages(self, name: str) -> list[float]:
        """The samples of a broker, in points."""
        history = histories_of(self.memory, [f"{name}:1"])[f"{name}:1"]
        return [round(100 * one.usage, 6) for one in history.samples]

    def _view(self) -> ClusterView:
        since = -1 if self.done_at is None else self.minute - self.done_at - 1
        moved = set(self.first)
        hot = {ns(at) for at in range(12)} - (moved if since >= 0 else set())
        arrived = moved if since >= self.destination_later else set[str]()
        cold = {ns(at) for at in range(12, 15)} | arrived
        ordered = moved if self.counts_moves else set[str]()
        carried = len(hot - ordered), len(cold | ordered)
        full = self._broker("hot", hot - self.gone, carried[0])
        empty = self._broker("cold", cold - self.gone, carried[1])
        seen = view(full, empty, cooling=self.first)
        return replace(seen, now_ms=MINUTE_MS * self.minute, command_ttl_ms=LIFETIME * MINUTE_MS)

    def _broker(self, name: str, owned: set[str], carried: int) -> BrokerLoad:
        table = {bundle: Load(mib=4.0) for bundle in sorted(owned)}
        load = broker(name, 10 + 4.0 * carried, 4.0 * carried, table)
        return replace(load, reported_at_ms=MINUTE_MS * self.minute)


def decided(done_at: int | None = None) -> Cluster:
    """The cluster in the round that plans moves."""
    cluster = Cluster(done_at)
    while not cluster.first:
        cluster.pass_minutes(1)
    return cluster


def test_while_its_command_may_still_be_carried_out_a_move_counts_as_done() -> None:
    cluster = decided()
    before = cluster.usages("hot")[-1]
    cluster.pass_minutes(1)
    assert cluster.usages("hot")[0] < before
    assert [one.shown for one in cluster.moves] == [False] * len(cluster.first)


def test_a_move_that_no_report_shows_in_time_is_forgotten_with_all_that_counted_it_in() -> None:
    cluster = decided()
    before = {name: cluster.usages(name) for name in ("hot", "cold")}
    cluster.pass_minutes(SHOWN)
    assert cluster.moves == []
    for name, usages in before.items():
        assert cluster.usages(name)[: len(usages)] == usages
        assert set(cluster.usages(name)) == set(usages)


@pytest.mark.heavy
def test_moves_that_were_never_carried_out_were_not_useless() -> None:
    cluster = decided()
    cluster.pass_minutes(60)
    assert cluster.useless == {0}
    assert cluster.episode.caution == 1.0


@pytest.mark.parametrize("late", [0, 2, 4])
def test_a_move_that_was_carried_out_is_remembered_however_late(late: int) -> None:
    cluster = decided()
    cluster.done_at = cluster.minute + late
    cluster.pass_minutes(late + 1)
    assert all(one.shown for one in cluster.moves)
    cluster.pass_minutes(SHOWN)
    assert [one.bundle for one in cluster.moves] == list(cluster.first)


def test_moves_are_judged_only_once_reports_show_them() -> None:
    """Two samples after them exist before: they show a cluster in which nothing has moved yet."""
    cluster = decided()
    cluster.done_at = cluster.minute + 4
    cluster.pass_minutes(4)
    assert not cluster.episode.judged
    cluster.pass_minutes(4)
    assert cluster.episode.judged
    assert cluster.useless == {0}


@pytest.mark.parametrize("done_after", [0, 2, 4])
@pytest.mark.parametrize("destination_later", [0, 1])
def test_its_own_moves_are_not_those_of_something_else_however_late_they_are_carried_out(
    done_after: int, destination_later: int
) -> None:
    cluster = decided()
    cluster.destination_later, cluster.counts_moves = destination_later, True
    began_at_ms = cluster.episode.began_at_ms
    cluster.done_at = cluster.minute + done_after
    cluster.pass_minutes(done_after + 4)
    assert all(one.shown for one in cluster.moves)
    assert cluster.episode.began_at_ms == began_at_ms


@pytest.mark.parametrize("bundle", [ns(11), ns(12)])
def test_what_leaves_a_broker_once_its_moves_are_shown_was_moved_by_something_else(
    bundle: str,
) -> None:
    cluster = decided()
    cluster.done_at, cluster.counts_moves = cluster.minute, True
    cluster.pass_minutes(4)
    cluster.gone = {bundle}
    cluster.pass_minutes(1)
    assert bundle not in cluster.first
    assert cluster.episode.began_at_ms == MINUTE_MS * cluster.minute


MOVE = RecentMove("t/ns/x", "a", "b", 120_000, 1e5, 1e2, source_loses=0.1, destination_gains=0.2)


def minutes(usages: Sequence[float]) -> Iterator[tuple[int, float]]:
    return ((60 * minute, usage) for minute, usage in enumerate(usages))


@pytest.mark.parametrize(("sign", "after"), [(-1, 40.0), (1, 70.0)])
def test_only_samples_that_a_move_was_counted_into_are_corrected(sign: int, after: float) -> None:
    """Estimates of the time in which it was under way go; what is measured later stays."""
    before = sampled(*minutes([50.0, 50.0, 50.0]))
    under_way = counted(before, MOVE, sign)
    last, late = under_way.samples[-1]._replace(at_ms=240_000), before.samples[-1]
    estimated = history_of([*under_way.samples, last], bundles=4)
    measured = history_of([*estimated.samples, late._replace(at_ms=480_000)], bundles=5)
    assert {round(100 * one.usage) for one in estimated.samples} == {after}

    corrected = uncounted(measured, MOVE, sign, 420_000, 5)

    assert [one.at_ms for one in corrected.samples] == [0, 60_000, 120_000, 480_000]
    assert [round(100 * one.usage, 9) for one in corrected.samples] == [50.0] * 4


def test_what_traffic_costs_is_not_learned_from_estimates() -> None:
    rule, memory = SteadyShedder(SteadySettings(), WEIGHTS), Memory()
    for minute, estimated in enumerate([False, False, True, True]):
        load = broker("b", 10.0 + 20 * estimated, 40.0 * (1 + estimated), {ns(0): Load(mib=4.0)})
        load = replace(load, estimated=estimated, reported_at_ms=MINUTE_MS * minute)
        seen = replace(view(load, replace(load, broker="c:1")), now_ms=MINUTE_MS * minute)
        memory = rule.shed(seen, memory).memory
    history = histories_of(memory, ["b:1"])["b:1"]
    assert [one.throughput / MIB for one in levels_of(history)] == [40.0]
    assert [round(100 * one.usage) for one in history.samples] == [10, 10, 30, 30]


def test_no_sample_counts_twice_where_commands_expire_at_once() -> None:
    history = history_of([LoadSample(MINUTE_MS * at, 0.5, 1e6, 1e3) for at in range(20)])
    move = MOVE._replace(at_ms=5 * MINUTE_MS)
    assert len(uncounted(history, move, 1, move.at_ms, 5).samples) == 20
