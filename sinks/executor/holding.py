"""Holding: commands wait in the journal for a decision on their plan, and are worked off after it
in waves.
"""

from __future__ import annotations

from collections.abc import Callable
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


class Holding:
    """One thread asks. All methods raise SinkError."""

    def __init__(
        self,
        config: ExecutorConfig,
        journal: Journal,
        approvals: ApprovalJournal,
        clock_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._journal = journal
        self._approvals = approvals
        self._clock_ms = clock_ms

    def next_wave(self) -> list[DueCommand]:
        """The next held commands to work on, as many as may be worked on at once, none of them
        about a bundle that another one is about.
        """
        wave: list[DueCommand] = []
        bundles: set[str] = set()
        for held in self._approvals.held():
            if len(wave) == self._config.at_once:
                break
            due = self._due(held)
            if due is not None and held.bundle not in bundles:
                wave.append(due)
                bundles.add(held.bundle)
        return wave

    def _due(self, held: HeldCommand) -> DueCommand | None:
        if not self._config.approval_required:
            return DueCommand(held, None)
        newest = self._journal.newest_epoch(self._config.cluster)
        ruling = ruling_on(held.waiting, self._clock_ms(), newest)
        if ruling == "waits":
            return None
        return DueCommand(held, None if ruling == "approved" else ruling)
