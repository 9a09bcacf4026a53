"""The time of a cluster: the largest believable timestamp of its log, so that one bad clock can neither freeze nor rush it.

A record further than `jump_ms` from the cluster's time is not believed. When nothing but such records arrives, in ascending order and
spanning `recovery_ms`, the log really has moved on (an outage, a repaired clock) and their time is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Verdict = Literal["believed", "ahead", "behind", "moved-on", "moved-back"]


@dataclass(frozen=True, slots=True)
class Clock:
    """`now_ms`: largest believed timestamp. `run_from_ms`, `run_to_ms`: the unbroken run of records not believed so far, or None."""

    now_ms: int
    run_from_ms: int | None = None
    run_to_ms: int | None = None


def judge(clock: Clock, ts: int, jump_ms: int, recovery_ms: int) -> tuple[Clock, Verdict]:
    """The clock after a record stamped `ts`, and whether that record is believed; "moved-…" means believed after a long run."""
    if abs(ts - clock.now_ms) <= jump_ms:
        return Clock(max(clock.now_ms, ts)), "believed"
    run_from, run_to = clock.run_from_ms, clock.run_to_ms
    continues = run_from is not None and run_to is not None and run_to <= ts <= run_to + jump_ms
    started = run_from if continues and run_from is not None else ts
    ahead = ts > clock.now_ms
    if ts - started >= recovery_ms:
        return Clock(ts), "moved-on" if ahead else "moved-back"
    return replace(clock, run_from_ms=started, run_to_ms=ts), "ahead" if ahead else "behind"
