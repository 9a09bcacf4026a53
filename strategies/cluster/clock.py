"""The time of a cluster: the largest believed timestamp of its log, so that one wrong clock can
neither stop the time nor advance it.

A record further than `jump_ms` from the cluster's time is not believed. When only such records
arrive, in ascending order and spanning `recovery_ms`, the log has really moved (an outage, a
repaired clock) and the cluster adopts their time. A record that leads by more than `tolerance_ms`
is used, but the cluster's time follows it only when most producers agree (`producer_votes`), or
when no other producer has sent a record for `silence_ms`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from strategies.settings import RoundSettings

#: Producers other than brokers, under names that no broker has.
COLLECTOR, EXECUTOR = "collector", "executor"
ClockVerdict = Literal["believed", "leads", "ahead", "behind", "moved-on", "moved-back"]
#: Minimum number of records from one producer alone that show that no other producer sends any.
_ALONE = 5


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


def judge_clock(
    clock: Clock,
    ts: int,
    jump_ms: int,
    recovery_ms: int,
    *,
    tolerance_ms: int | None = None,
    silence_ms: int = 0,
) -> tuple[Clock, ClockVerdict]:
    """The clock after a record stamped `ts`, and the verdict on that record; "moved-…" means
    believed after a long run.

    "leads": believed, but the clock does not follow. `tolerance_ms`: None = `jump_ms`, so that no
    record leads.
    """
    lead = ts - clock.now_ms
    if -jump_ms <= lead <= (jump_ms if tolerance_ms is None else tolerance_ms):
        return Clock(max(clock.now_ms, ts)), "believed"
    run_from, run_to = clock.run_from_ms, clock.run_to_ms
    continues = run_from is not None and run_to is not None and run_to <= ts <= run_to + jump_ms
    started = run_from if continues and run_from is not None else ts
    count = clock.run + 1 if continues else 1
    leads = 0 < lead <= jump_ms
    began_near = 0 < started - clock.now_ms <= jump_ms
    if ts - started >= (silence_ms if began_near else recovery_ms) and (
        count >= _ALONE or not began_near
    ):
        return Clock(ts), "moved-on" if lead > 0 else "moved-back"
    waiting = replace(clock, run_from_ms=started, run_to_ms=ts, run=count)
    return waiting, "leads" if leads else "ahead" if lead > 0 else "behind"
