"""The time of a cluster: the largest believed timestamp of its log, so that one wrong clock can
neither stop the time nor advance it.

A record further than `jump_ms` from the cluster's time is not believed. When only such records
arrive, in ascending order and spanning `recovery_ms`, the log has really moved (an outage, a
repaired clock) and the cluster adopts their time. A record that leads by more than `tolerance_ms`
is used, but the cluster's time follows it only when most producers agree (`producer_votes`), or
when no other producer has sent a record for `silence_ms`.
"""

from __future__ import annotations

from dataclasses import dataclass

from strategies.errors import SettingsError
from strategies.settings import RoundSettings

#: Producers other than brokers, under names that no broker has.
COLLECTOR, EXECUTOR = "collector", "executor"


@dataclass(frozen=True, slots=True)
class Clock:
    """`now_ms`: largest believed timestamp. `run_from_ms`, `run_to_ms`: first and last time of the
    current run of records that the clock does not follow, None without one; `run`: number of these
    records.
    """

    now_ms: int
    run_from_ms: int | None = None
    run_to_ms: int | None = None
    run: int = 0


@dataclass(frozen=True, slots=True)
class Stray:
    """A producer whose clock is not believed. `ts`: time of its newest record; `lead_ms`: how far
    that time was ahead of the cluster's.

    `used`: whether the broker's newest figures, which a round may use, carry that clock; `news`:
    whether that record is newer than all earlier records of its producer, so that it counts as a
    vote.
    """

    ts: int
    lead_ms: int
    used: bool
    news: bool = True

    @property
    def heard_ms(self) -> int:
        """Arrival of its newest record, by the cluster's time."""
        return self.ts - self.lead_ms


def tolerance_of(settings: RoundSettings) -> int:
    """How far (ms) a producer may lead: another broker whose report is as old as this is then not
    stale because of the lead.
    """
    return min(settings.stale_after_ms // 2, settings.max_clock_jump_ms)


def check_clock(settings: RoundSettings) -> None:
    """Raises SettingsError if a pause too short to make a report stale would count as a wrong
    clock.
    """
    stale, jump = settings.stale_after_ms, settings.max_clock_jump_ms
    if stale > jump:
        text = (
            f"{stale} is more than round.max_clock_jump_ms ({jump}), so a pause that leaves no "
            "report stale would count as a wrong clock"
        )
        raise SettingsError(
            [f"round.stale_after_ms: {text}; lower it, or raise round.max_clock_jump_ms"]
        )
