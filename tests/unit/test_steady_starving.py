"""SteadyShedder judges brokers whose bundles come and go all the time, too."""

from dataclasses import dataclass, field, replace
from random import Random

import pytest

from strategies.cluster.model import BrokerLoad
from strategies.cluster.strategy_memory import Memory
from strategies.shedding.contract import Shedding
from strategies.shedding.steady.load_samples import NO_SAMPLES, by_usage, continued
from strategies.shedding.steady.memory_format import LoadHistory, LoadSample
from strategies.shedding.steady.settings import SteadySettings
from strategies.shedding.steady.steady_round import SteadyShedder
from tests.world.brokers import WEIGHTS, broker, bundles, view

_MINUTE_MS = 60_000
#: Points of each bundle, and of a broker without any.
_EACH, _IDLE = 5.0, 8.0
#: A full broker at 83 %, and three at 38 %.
_SERVED = (15, 6, 6, 6)


@dataclass
class _Life:
    """Brokers that carry out all moves. Idle bundles come and go on `restless` brokers: a bundle
    more for `every` minutes, and then a bundle less. Traffic is `jitter` above and below its mean
    in turns, or at random.
    """

    every: int
    jitter: float
    restless: tuple[int, ...] = (0, 1, 2, 3)
    in_turns: bool = True
    owners: dict[str, int] = field(default_factory=dict)
    chance: Random = field(default_factory=lambda: Random(7))

    def play(self, minutes: int) -> list[Shedding]:
        rule, memory, played = SteadyShedder(SteadySettings(), WEIGHTS), Memory({}), []
        for at, count in enumerate(_SERVED):
            self.owners |= dict.fromkeys(bundles(*[_EACH] * count, first=20 * at), at)
        for minute in range(minutes):
            brokers = [self._broker(at, minute) for at in range(len(_SERVED))]
            played.append(rule.shed(replace(view(*brokers), now_ms=minute * _MINUTE_MS), memory))
            memory = played[-1].memory
            for one in played[-1].decisions:
                assert one.destination is not None
                self.owners[one.bundle] = int(one.destination[1])
        return played

    def _broker(self, at: int, minute: int) -> BrokerLoad:
        sign = (-1) ** minute if self.in_turns else self.chance.uniform(-1, 1)
        factor = 1 + self.jitter * sign
        mine = [name for name, owner in self.owners.items() if owner == at]
        load = _EACH * len(mine) * factor
        each = bundles(_EACH * factor)
        table = {name: next(iter(each.values())) for name in mine}
        more = (minute // self.every) % 2 if at in self.restless else 0
        made = broker(f"b{at}", _IDLE + load, load, table, unknown=more)
        return replace(made, reported_at_ms=minute * _MINUTE_MS)

    @property
    def spread(self) -> float:
        """In points, without jitter."""
        counts = [[*self.owners.values()].count(at) for at in range(len(_SERVED))]
        return _EACH * (max(counts) - min(counts))


@pytest.mark.parametrize("in_turns", [True, False], ids=["in-turns", "at-random"])
@pytest.mark.parametrize("restless", [(0, 1, 2, 3), (0,), (1, 2, 3)])
@pytest.mark.parametrize("jitter", [0.05, 0.1, 0.2, 0.3])
@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_full_broker_gives_bundles_while_bundles_come_and_go(
    every: int, jitter: float, restless: tuple[int, ...], in_turns: bool
) -> None:
    life = _Life(every, jitter, restless, in_turns)
    played = life.play(30)
    first = next(at for at, shedding in enumerate(played) if shedding.decisions)
    waits = [shedding for shedding in played if shedding.skips[0].code == "waiting-for-samples"]
    assert first <= 12
    assert len(waits) <= 10
    assert life.spread <= 15.0


def _history(*reports: tuple[float, int]) -> LoadHistory:
    """The history after a report a minute, each with traffic in MB/s and a number of bundles."""
    history = NO_SAMPLES
    for minute, (traffic, count) in enumerate(reports):
        sample = LoadSample(_MINUTE_MS * minute, traffic / 100, 1e6 * traffic, 1e3 * traffic)
        history = continued(history, sample, count, True, float(_MINUTE_MS))
    return history


_JITTER = [(45.0, 9), (55.0, 9), (45.0, 9), (55.0, 9)]


def test_a_changed_number_of_bundles_explains_no_usual_change_of_traffic() -> None:
    assert len(_history(*_JITTER, (45.0, 10)).samples) == 5


def test_bundles_that_bring_more_traffic_than_usual_begin_the_samples_again() -> None:
    assert _history(*_JITTER, (140.0, 20)).samples == []
    assert _history((50.0, 9), (50.0, 9), (50.0, 9), (58.0, 10)).samples == []


def test_a_broker_whose_samples_begin_again_and_again_is_judged_by_its_usage() -> None:
    changes = [(50.0, 9), (90.0, 10), (50.0, 9), (90.0, 10), (50.0, 9), (90.0, 10), (50.0, 9)]
    assert not by_usage(_history(*changes[:5]))
    starved = _history(*changes)
    assert by_usage(starved)
    assert [one.usage for one in starved.samples] == [0.5, 0.9, 0.5]


def test_a_broker_is_judged_by_samples_of_one_number_of_bundles_once_it_lasts() -> None:
    changes = [(50.0, 9), (90.0, 10)] * 4
    assert by_usage(_history(*changes, *[(90.0, 10)] * 2))
    calm = [*changes, *[(90.0, 10)] * 12]
    assert not by_usage(_history(*calm))
    assert _history(*calm, (150.0, 20)).samples == []


def test_the_first_new_sample_counts_where_the_number_of_bundles_stays_the_same() -> None:
    began = [(50.0, 9)] * 3

    assert [_history(*began, *[(90.0, 10)] * more).waited for more in (3, 4)] == [3.0, 0.0]
