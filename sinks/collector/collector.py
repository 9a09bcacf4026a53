"""The collector: publishes load reports of a cluster's brokers, and less often its policies, to the
telemetry topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sinks.collector.broker_poll import Pass, Poll
from sinks.collector.cluster_policies import (
    asked_facts,
    collect_policies,
    reported_facts,
    text_of,
    unread_policies,
)
from sinks.collector.encoding_telemetry import (
    encode_owned,
    encode_policies,
    encode_report,
    encode_sweep,
)
from sinks.collector.leader import NO_FACTS, LeaderPoll
from sinks.collector.settings import CollectorSettings
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.modular_or_extensible import LoadManager
from sinks.topics.access import Publisher
from strategies.errors import AdminError, Unauthorized

#: Policies are read after this number of passes at the latest.
_POLICIES_PASSES = 15


@dataclass(frozen=True, slots=True)
class StepResult:
    """Result of one step. `done`: the pass, None if the cluster's brokers could not be listed;
    `complaints`: what went wrong.
    """

    done: Pass | None
    policies: bool
    complaints: tuple[str, ...]


class Collector:
    """Collects from one cluster. Call `step` once per interval."""

    def __init__(
        self,
        cluster: str,
        settings: CollectorSettings,
        *,
        manager: LoadManager,
        admin: PulsarAdmin,
        poll: Poll,
        telemetry: Publisher,
        leader: LeaderPoll | None = None,
    ) -> None:
        """`poll`: from `load_source.open_poll` for `manager`. `leader`: None = sweeps do not name
        the leader.
        """
        self._cluster = cluster
        self._settings = settings
        self._manager = manager
        self._admin = admin
        self._poll = poll
        self._telemetry = telemetry
        self._leader = leader
        self._policies, self._were_read = "", False
        self._policies_due_ms = self._repeat_due_ms = 0

    def step(self) -> StepResult:
        """Runs one pass and publishes it when it is complete. Raises Unauthorized, SinkError."""
        try:
            brokers = self._admin.brokers()
        except Unauthorized:
            raise
        except AdminError as error:
            return StepResult(None, False, (str(error),))
        done = self._poll.run(brokers)
        for report in done.reports:
            self._telemetry.publish(self._cluster, encode_report(self._cluster, report))
        for owned in done.owned:
            self._telemetry.publish(self._cluster, encode_owned(self._cluster, owned))
        changed, complaints = self._look_at_policies(brokers, done)
        facts = NO_FACTS if self._leader is None else self._leader.run()
        # Last, so that the round it closes has all the other records.
        self._telemetry.publish(self._cluster, encode_sweep(self._cluster, done, facts))
        self._telemetry.flush()
        return StepResult(done, changed, complaints)

    def _look_at_policies(self, brokers: Sequence[str], done: Pass) -> tuple[bool, tuple[str, ...]]:
        """Publishes the policies if they have changed or are due again, and says whether they have
        changed; after a failed read the published ones stay valid, and before the first one all
        bundles are protected.
        """
        if done.ts < self._policies_due_ms:
            return False, ()
        self._policies_due_ms = done.ts + min(
            self._settings.policies_interval_ms, _POLICIES_PASSES * self._settings.pass_interval_ms
        )
        at_once = min(self._settings.max_concurrent, 16)
        facts = (
            reported_facts(done.reports)
            if self._manager == "modular"
            else asked_facts(self._admin, brokers, at_once)
        )
        complaints: tuple[str, ...] = ()
        try:
            snapshot = collect_policies(self._admin, facts, at_once)
            self._were_read = True
        except Unauthorized:
            raise
        except AdminError as error:
            self._policies_due_ms = 0
            if self._were_read:
                return False, (f"The policies could not be read and stay as they were: {error}",)
            snapshot = unread_policies(error, facts)
            complaints = (f"No policies could be read; until they are, nothing moves: {error}",)
        text = text_of(snapshot)
        changed, self._policies = text != self._policies, text
        if changed or done.ts >= self._repeat_due_ms:
            value = encode_policies(self._cluster, done.ts, snapshot)
            self._telemetry.publish(self._cluster, value)
            self._repeat_due_ms = done.ts + self._settings.policies_repeat_ms
        return changed, complaints
