"""What the engine does while a plan waits for a person: its moves count as done until they are
denied or expire, and nothing of it is decided twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rebalancer.settings.load import load
from sinks.plain_loop import PlainLoop
from sinks.wire.codec import decode_command, decode_round, encode_outcome_telemetry
from sinks.wire.position import Position
from strategies.model import Command, Outcome, OutcomeStatus, Round
from tests.telemetry_lines import T0, bundle, load_report, sweep
from tests.unit.uneven_log import EAGER

MINUTE_MS = 60_000
LIFETIME_MINUTES = 30
STRATEGIES = {"avg": EAGER, "steady": ("shedding.strategy=steady",)}


class Waiting:
    """A hot, an idle and a middling broker whose load nobody moves, and the plans about them."""

    def __init__(self, strategy: str) -> None:
        lifetime = f"round.command_ttl_ms={LIFETIME_MINUTES * MINUTE_MS}"
        self._loop = PlainLoop(load(flags=[*STRATEGIES[strategy], lifetime]).engine)
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
                    one.id,
                    one.cluster,
                    one.bundle,
                    status,
                    reason,
                    None,
                    None,
                    0,
                    self.now_ms,
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
        at, jitter = 60 * self.minute, self.minute * 7 % 5 / 10
        hot = {bundle(n): 1e6 * (1 + 0.1 * n) + 1_000 * self.minute for n in range(8)}
        middle = {bundle(10 + n): 5e5 + 10 * self.minute for n in range(4)}
        return [
            load_report("hot:1", at, hot, cpu=80.0 + jitter),
            load_report("idle:1", at + 1, {bundle(9): 1e5 + 10 * self.minute}, cpu=20.0 + jitter),
            load_report("mid:1", at + 1, middle, cpu=50.0 + jitter),
            sweep(at + 2, "hot:1", "idle:1", "mid:1"),
        ]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_while_a_plan_waits_no_bundle_is_in_a_second_one(strategy: str) -> None:
    cluster = Waiting(strategy)
    decided = [one.bundle for commands in cluster.passes(LIFETIME_MINUTES) for one in commands]
    assert decided
    assert len(set(decided)) == len(decided)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_plan_that_no_one_approved_is_decided_again(strategy: str) -> None:
    cluster = Waiting(strategy)
    first = {one.bundle for commands in cluster.passes(LIFETIME_MINUTES) for one in commands}
    again = {one.bundle for commands in cluster.passes(5) for one in commands}
    assert first & again


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
        assert any(list(cluster.passes(5)))
        cluster.ends("refused")
    forecasts = [one.forecast for one in cluster.rounds if one.forecast is not None]
    assert forecasts
    assert {one.useless_rounds for one in forecasts} == {0}
