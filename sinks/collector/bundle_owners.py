"""Finds the owner of each bundle, one call per bundle, for brokers whose reports do not contain
their bundles.

Pulsar has one call that lists a broker's bundles. It can freeze a modular broker
(docs/PULSAR_FAULTS.md), and the brokers at an address can change their load manager between two
passes, so this module does not use it.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from sinks.collector.broker_poll import Report
from sinks.pulsar_api.admin import PulsarAdmin
from strategies.errors import CallFailed, NotFound


@dataclass
class OwnerPoll:
    """Checks all bundles of a cluster in turn; a pass ends after `budget_s`, and the next one
    continues there.

    `at_once`: number of concurrent calls; `clock_ms`: timestamps of reports.
    """

    admin: PulsarAdmin
    at_once: int
    budget_s: float
    clock_ms: Callable[[], int]
    clock: Callable[[], float] = time.monotonic
    _turn: Iterator[str] | None = None
    _owner: dict[str, str | None] = field(default_factory=dict)
    _published: dict[str, bytes] = field(default_factory=dict)

    def run(self, brokers: Sequence[str]) -> tuple[Report, ...]:
        """All bundles of each of these brokers where they changed: bundle → `{}`, sorted by name.
        Raises Unauthorized.
        """
        if not brokers:
            return ()
        until = self.clock() + self.budget_s
        with ThreadPoolExecutor(self.at_once, thread_name_prefix="owners") as pool:
            while bundles := self._next(until):
                owners = pool.map(partial(self._look, brokers), bundles)
                self._owner.update(zip(bundles, owners, strict=True))
                if self.clock() >= until:
                    break
        return self._changed(brokers)

    def _next(self, until: float) -> list[str]:
        """The next bundles; empty at the end of a turn, or if they cannot be listed. After that a
        new turn begins.
        """
        if self._turn is None:
            self._turn = self._bundles()
        bundles: list[str] = []
        try:
            for bundle in self._turn:
                bundles.append(bundle)
                if len(bundles) == self.at_once or self.clock() >= until:
                    return bundles
        except CallFailed:
            bundles = []
        if not bundles:
            self._turn = None
        return bundles

    def _bundles(self) -> Iterator[str]:
        """All bundles; at the end, forgets the others."""
        seen = set[str]()
        for tenant in self.admin.tenants():
            for namespace in names_of(self.admin.namespaces, tenant):
                for range_ in names_of(self.admin.ranges, namespace):
                    seen.add(bundle := f"{namespace}/{range_}")
                    yield bundle
        self._owner = {bundle: owner for bundle, owner in self._owner.items() if bundle in seen}

    def _look(self, brokers: Sequence[str], bundle: str) -> str | None:
        """The owner; the last known one while ownership changes or no broker answers."""
        known = self._owner.get(bundle)
        try:
            return self.admin.owner(bundle, [] if known is None else [known], brokers)
        except CallFailed:
            return known

    def _changed(self, brokers: Sequence[str]) -> tuple[Report, ...]:
        owned = defaultdict[str | None, dict[str, object]](dict)
        for bundle, owner in sorted(self._owner.items()):
            owned[owner][bundle] = {}
        reports = {broker: json.dumps(owned[broker]).encode() for broker in brokers}
        changed = tuple(
            Report(broker, self.clock_ms(), body)
            for broker, body in reports.items()
            if self._published.get(broker) != body
        )
        self._published = reports
        return changed


def names_of(ask: Callable[[str], Sequence[str]], name: str) -> Sequence[str]:
    """The names; empty for a tenant or namespace that was deleted meanwhile."""
    try:
        return ask(name)
    except NotFound:
        return ()
