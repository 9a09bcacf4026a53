"""Holding: commands wait in the journal for a decision on their plan, and are worked off after it
in waves.
"""

from __future__ import annotations

from typing import NamedTuple

from sinks.executor.approval_journal import ApprovalJournal, HeldCommand
from sinks.executor.journal import Journal
from sinks.executor.settings import ExecutorConfig
from strategies.executor.admission import Objection
from strategies.executor.approvals import ruling_on


class DueCommand(NamedTuple):
    """A held command whose time has come; `objection`: None if it is approved, and judged like any
    other.
    """

    held: HeldCommand
    objection: Objection | None


def next_held(
    config: ExecutorConfig, journal: Journal, approvals: ApprovalJournal, now_ms: int
) -> list[DueCommand]:
    """The next held commands to work on, as many as may be worked on at once, none of them about a
    bundle that another one is about. Raises SinkError.
    """
    wave: list[DueCommand] = []
    bundles: set[str] = set()
    waiting = approvals.held()
    newest = journal.newest_epoch(config.cluster) if waiting and config.approval_required else 0
    for held in waiting:
        ruling = ruling_on(held.waiting, now_ms, newest) if config.approval_required else "approved"
        if ruling == "waits" or held.bundle in bundles:
            continue
        wave.append(DueCommand(held, None if ruling == "approved" else ruling))
        bundles.add(held.bundle)
        if len(wave) == config.at_once:
            break
    return wave
