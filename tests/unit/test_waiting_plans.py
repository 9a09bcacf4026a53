"""While a plan waits for a person, its moves count as done until they are denied or expire."""

import math
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from pulsar_rebalancer.settings.merge_sources import load
from sinks.wire.record_decoding import Position, decode_command, decode_round
from sinks.wire.record_encoding import encode_outcome_telemetry, encode_round
from strategies.cluster.model import Command, Outcome, OutcomeStatus, Round
from strategies.figures.usage_after_moves import reported_spread, reported_usage
from tests.replayed import replayed
from tests.telemetry_lines import T0, bundle, load_report, sweep
from tests.world.uneven_log import EAGER

pytestmark = pytest.mark.heavy
MINUTE_MS = 60_000
LIFETIME_MINUTES = 30
STRATEGIES = {"avg": EAGER, "steady": ("shedding.strategy=steady",)}


class Waiting:
    """A hot, an idle and a middling broker whose load nobody moves, and the plans about them."""

    def __init__(self, strategy: str) -> None:
        times = [
            f"round.command_ttl_ms={LIFETIME_MINUTES * MINUTE_MS}",
            f"round.cool_down_ms={2 * LIFETIME_MINUTES * MINUTE_MS}",
        ]
        self._loop = PlainLoop(load(flags=[*STRATEGIES[strategy], *times]).engine)
        self._records, self.minute = 0, -1
        self.rounds: list[Round] = []
        self.waiting: dict[str, Command] = {}

    def passes(self, minutes: int) -> Iterator[list[Command]]:
        """The commands of each of the next minutes; whatever is late expires first."""
        for _ in range(minutes):
            self.minute += 1
            self.ends("expired", lambda one: self.now_ms >= one.expires_at_ms)
            decided = self._feed(*self._reports())
            self.waiting |= {one.id: one for one in decided}
            yield decided

    @property
    def now_ms(self) -> int:
        return T0 + self.minute * MINUTE_MS

    def ends(
        self, status: OutcomeStatus, which: Callable[[Command], bool] = lambda _: True
    ) -> None:
        """The executor answers the commands that wait."""
        for one in list(self.waiting.values()):
            if which(one):
                del self.waiting[one.id]
                reason = "denied: bo: no" if status == "refused" else "not-approved: late"
                outcome = Outcome(
                    one.id, one.cluster, one.bundle, status, reason, None, None, 0, self.now_ms
                )
                self._feed(encode_outcome_telemetry(outcome))

    def _feed(self, *records: bytes) -> list[Command]:
        decided = []
        for record in records:
            self._records += 1
            for row in self._loop.feed(Position("t", 0, self._records), record):
                if row.kind == "commands":
                    decided.append(decode_command(row.value))
                elif row.kind == "rounds":
                    self.rounds.append(decode_round(row.value))
        return decided

    def _reports(self) -> list[bytes]:
        at = 60 * self.minute
        loads = {
            "hot:1": {bundle(n): self._load(n, 1e6 * (1 + 0.1 * n)) for n in range(8)},
            "mid:1": {bundle(n): self._load(n, 1.5e6) for n in range(10, 14)},
            "idle:1": {bundle(9): self._load(9, 2e6)},
        }
        reports = [
            load_report(name, at + 1, load, cpu=5 + sum(load.values()) / 1e7 * 70)
            for name, load in loads.items()
        ]
        return [*reports, sweep(at + 2, *loads)]

    def _load(self, number: int, base: float) -> float:
        return base * (1 + 0.02 * math.sin(1.7 * self.minute + number))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_while_a_plan_waits_no_bundle_is_in_a_second_one(strategy: str) -> None:
    cluster = Waiting(strategy)
    decided = [one.bundle for commands in cluster.passes(LIFETIME_MINUTES) for one in commands]
    assert decided
    assert len(set(decided)) == len(decided)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_after_a_plan_that_no_one_approved_the_next_rounds_decide_again(strategy: str) -> None:
    """SteadyShedder plans as many moves as before: it forgets what it counted as done."""
    cluster = Waiting(strategy)
    plans = [len(commands) for commands in cluster.passes(LIFETIME_MINUTES + 5)]
    assert any(plans[:5])
    assert not any(plans[5:LIFETIME_MINUTES])
    assert any(plans[LIFETIME_MINUTES:])
    if strategy == "steady":
        first, again = (one for one in plans if one)
        assert first == again


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_denied_plan_frees_its_bundles_for_the_next_rounds(strategy: str) -> None:
    cluster = Waiting(strategy)
    first = {one.bundle for commands in cluster.passes(5) for one in commands}
    cluster.ends("refused")
    again = {one.bundle for commands in cluster.passes(5) for one in commands}
    assert first & again


def test_waiting_is_not_judged_as_useless_moves() -> None:
    """SteadyShedder rests after moves that brought nothing; these were never made."""
    cluster = Waiting("steady")
    for _ in range(3):
        assert any(list(cluster.passes(LIFETIME_MINUTES)))
    for _ in range(10):
        assert any(list(cluster.passes(15)))
        cluster.ends("refused")
    forecasts = [one.forecast for one in cluster.rounds if one.forecast is not None]
    assert forecasts
    assert {one.useless_rounds for one in forecasts} == {0}


@pytest.mark.parametrize("minutes", [2, 5, 15])
def test_after_a_denial_steady_knows_that_nothing_moved(minutes: int) -> None:
    """Figures that it has seen while the plan waited contain the moves."""
    cluster = Waiting("steady")
    first = [len(commands) for commands in cluster.passes(minutes) if commands]
    cluster.ends("refused")
    again = [len(commands) for commands in cluster.passes(15) if commands]

    assert again[0] == first[0]
    assert all(one.forecast is None or (one.forecast.error or 0) < 0.05 for one in cluster.rounds)


ROUNDS = 18
ALL_STRATEGIES = {**STRATEGIES, "threshold": ("shedding.strategy=threshold",)}
Told = tuple[tuple[Round, ...], tuple[Command, ...]]


@cache
def nobody_approves(strategy: str, bundles: int, *more: str) -> Told:
    """The rounds and commands of a cluster whose reports stay as they are."""
    times = ["round.command_ttl_ms=3600000", "round.cool_down_ms=3600000"]
    chosen = [*ALL_STRATEGIES[strategy], *times, *more]
    records = list[bytes]()
    for minute in range(ROUNDS + 6):
        at = 60 * minute
        all_of_it = {bundle(n): 2e4 + 10.0 * n + minute for n in range(bundles)}
        records.append(load_report("hot:1", at, all_of_it, cpu=90.0 + minute % 2))
        records.append(load_report("idle:1", at + 1, {}, cpu=5.0 + minute % 2))
        records.append(sweep(at + 2, "hot:1", "idle:1"))
    published = replayed(records, load(flags=chosen).engine)
    rounds = [*map(decode_round, published["rounds"])]
    commands = map(decode_command, published["commands"])
    first = next(at for at, one in enumerate(rounds) if one.commands)
    return tuple(rounds[: first + ROUNDS + 1]), tuple(commands)


def after_the_first_plan(told: Told) -> tuple[Round, ...]:
    rounds, _ = told
    first = next(at for at, one in enumerate(rounds) if one.commands)
    return rounds[first + 1 :]


@pytest.mark.parametrize("strategy", ALL_STRATEGIES)
def test_each_round_has_what_reports_show_beside_what_is_planned(strategy: str) -> None:
    told = nobody_approves(strategy, 8)
    rounds, commands = told

    for one in after_the_first_plan(told):
        earlier = [given for given in commands if given.round < one.round]
        assert one.counted == len(earlier) > 0
        assert {*one.measured} == {"hot:1", "idle:1"}
        assert reported_usage(one)["hot:1"] >= 0.9 > one.usage["hot:1"]
        assert reported_usage(one)["idle:1"] < 0.1 < one.usage["idle:1"]
        assert reported_spread(one) == pytest.approx(0.85)
        assert one.spread.range < 0.4
        assert decode_round(encode_round(one)) == one
    before = next(one for one in rounds if one.commands)
    assert (before.counted, before.measured) == (0, {})
    assert b'"counted"' not in encode_round(before)
    assert reported_spread(before) == before.spread.range


def test_in_parity_mode_nothing_is_counted() -> None:
    rounds, commands = nobody_approves("threshold", 8, "shedding.mode=parity")

    assert commands
    assert {one.counted for one in rounds} == {0}
