"""The collector: publishes load reports of a cluster's brokers, and less often its policies, to the
telemetry topic: reports verbatim in their envelope, sweep markers, notes on bundle ownership.

Policies are a snapshot, each part as Pulsar's admin API returns it (format:
strategies/filters/policies.py). It contains no topic counts: a modular broker's load report has
them for every bundle.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from sinks.collector.broker_poll import Pass, Poll, Report
from sinks.collector.extensible_poll import names_of
from sinks.collector.hot_bundle_topics import HotBundleTopics
from sinks.collector.settings import CollectorSettings
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.broker_facts import LeaderFacts, LeaderPoll, LoadManager
from sinks.wire.contracts.execution import or_unset
from sinks.wire.contracts.telemetry import PoliciesRecord, SweepRecord
from sinks.wire.raw_broker_reports import encode_broker_record
from strategies.errors import CallFailed, NotFound

#: Longest time between two steps of a loop that works: this, and this number of pass intervals.
_STILL_MS, _STILL_INTERVALS = 120_000, 3


class _Facts(msgspec.Struct):
    brokerVersionString: str | None = None
    loadManagerClassName: str | None = None
    persistentTopicsEnabled: bool = True
    nonPersistentTopicsEnabled: bool = True


def collect_policies(
    admin: PulsarAdmin, brokers: Mapping[str, Any], at_once: int
) -> dict[str, Any]:
    """One snapshot; equal policies give equal snapshots. `brokers`: from `reported_facts` or
    `asked_facts`.

    Raises AdminError if a part cannot be read: an incomplete snapshot would lift protections.
    """
    return {
        "isolation": admin.isolation_policies(),
        "anti_affinity": dict(_groups(admin, at_once)),
        "failure_domains": admin.failure_domains(),
        "brokers": dict(brokers),
    }


def reported_facts(reports: Iterable[Report]) -> dict[str, Any]:
    """Facts of each broker from modular load reports: broker → facts."""
    found = {}
    for report in sorted(reports, key=lambda report: report.broker):
        # The job rejects a report that cannot be decoded, with a reason.
        with suppress(ValueError, RecursionError):
            found[report.broker] = _entry(msgspec.json.decode(report.body, type=_Facts))
    return found


def asked_facts(admin: PulsarAdmin, brokers: Sequence[str], at_once: int) -> dict[str, Any]:
    """The same facts, requested from each broker, for extensible ones; without brokers that do not
    answer. Raises Unauthorized.
    """
    with ThreadPoolExecutor(at_once, thread_name_prefix="facts") as pool:
        found = zip(brokers, pool.map(lambda broker: _ask(admin, broker), brokers), strict=True)
        return {broker: facts for broker, facts in found if facts is not None}


def _groups(admin: PulsarAdmin, at_once: int) -> Iterator[tuple[str, str]]:
    namespaces = sorted(
        namespace for tenant in admin.tenants() for namespace in names_of(admin.namespaces, tenant)
    )
    with ThreadPoolExecutor(at_once, thread_name_prefix="policies") as pool:
        for namespace, group in zip(
            namespaces, pool.map(lambda name: _group(admin, name), namespaces), strict=True
        ):
            if group:
                yield namespace, group


def _group(admin: PulsarAdmin, namespace: str) -> str | None:
    try:
        return admin.anti_affinity(namespace)
    except NotFound:
        # Pulsar also answers 404 where it could not read the policies of a namespace.
        if namespace in names_of(admin.namespaces, namespace.partition("/")[0]):
            raise
        return None


def _ask(admin: PulsarAdmin, broker: str) -> dict[str, Any] | None:
    try:
        given = admin.configuration(broker)
        version = admin.version(broker)
    except CallFailed:
        return None
    topics = (
        given.get(key) != "false" for key in ("enablePersistentTopics", "enableNonPersistentTopics")
    )
    return _entry(_Facts(version, given.get("loadManagerClassName"), *topics))


def _entry(facts: _Facts) -> dict[str, Any]:
    return {
        "version": facts.brokerVersionString,
        "load_manager": facts.loadManagerClassName,
        "persistent": facts.persistentTopicsEnabled,
        "non_persistent": facts.nonPersistentTopicsEnabled,
    }


#: Policies are read after this number of passes at the latest, topics of a hot bundle after this
#: one: about as often as brokers measure.
_POLICIES_PASSES, _TOPICS_PASSES = 15, 3


@dataclass(frozen=True, slots=True)
class StepResult:
    """Result of one step. `done`: the pass, None if the cluster's brokers could not be listed;
    `complaints`: what went wrong.
    """

    done: Pass | None
    policies: bool
    complaints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """One cluster: its brokers at opening time, its load manager, and the polls that read their
    load and who leads them.
    """

    cluster: str
    brokers: tuple[str, ...]
    manager: LoadManager
    settings: CollectorSettings
    admin: PulsarAdmin
    poll: Poll
    leader: LeaderPoll


#: Stores all records of a cluster's pass on the telemetry topic. Raises SinkError.
PublishPass = Callable[[str, Sequence[bytes]], None]


class Collector:
    """Collects from one cluster. Call `step` once per interval."""

    def __init__(self, source: Source, publish: PublishPass) -> None:
        self._source, self._publish = source, publish
        self._policies, self._were_read = "", False
        self._policies_due_ms = self._repeat_due_ms = 0
        # Of the client for single brokers, because a slow one must not hold the pass up.
        quick, given = source.leader, source.settings
        self._topics = HotBundleTopics(
            quick.admin,
            given.hot_bundle_mb,
            _TOPICS_PASSES * given.pass_interval_ms,
            quick.clock_ms,
        )

    def step(self) -> StepResult:
        """Runs one pass and publishes it when it is complete. Raises Unauthorized, SinkError."""
        cluster = self._source.cluster
        try:
            brokers = self._source.admin.brokers()
        except CallFailed as error:
            return StepResult(None, False, (str(error),))
        done = self._source.poll(brokers)
        records = [encode_report(cluster, report) for report in done.reports]
        records += [encode_note("owned-bundles", cluster, owned) for owned in done.owned]
        records += [
            encode_note("topics-of-bundle", cluster, one) for one in self._topics.run(done.reports)
        ]
        changed, complaints = self._look_at_policies(brokers, done, records)
        # Last, so that the round it closes has all the other records.
        records.append(encode_sweep(cluster, done, self._source.leader.run()))
        self._publish(cluster, records)
        return StepResult(done, changed, complaints)

    def _look_at_policies(
        self, brokers: Sequence[str], done: Pass, records: list[bytes]
    ) -> tuple[bool, tuple[str, ...]]:
        """Adds the policies to the records if they have changed or are due again, and says whether
        they have changed; after a failed read the published ones stay valid, and before the first
        one all bundles are protected.
        """
        settings, admin = self._source.settings, self._source.admin
        if done.ts < self._policies_due_ms:
            return False, ()
        self._policies_due_ms = done.ts + min(
            settings.policies_interval_ms, _POLICIES_PASSES * settings.pass_interval_ms
        )
        at_once = min(settings.max_concurrent, 16)
        facts = (
            reported_facts(done.reports)
            if self._source.manager == "modular"
            else asked_facts(admin, brokers, at_once)
        )
        complaints: tuple[str, ...] = ()
        try:
            snapshot = collect_policies(admin, facts, at_once)
            self._were_read = True
        except CallFailed as error:
            self._policies_due_ms = 0
            if self._were_read:
                return False, (f"The policies could not be read and stay as they were: {error}",)
            # Without any, rounds would know of no policy and move what policies protect.
            snapshot = {"isolation": f"could not be read: {error}", "brokers": dict(facts)}
            complaints = (f"No policies could be read; until they are, nothing moves: {error}",)
        # As text, because the order of isolation policies matters.
        text = json.dumps(snapshot)
        changed, self._policies = text != self._policies, text
        if changed or done.ts >= self._repeat_due_ms:
            record = PoliciesRecord(1, self._source.cluster, done.ts, snapshot)
            records.append(msgspec.json.encode(record))
            self._repeat_due_ms = done.ts + settings.policies_repeat_ms
        return changed, complaints


def longest_step_s(given: CollectorSettings) -> float:
    """Longest time (s) between two steps of a loop that works."""
    return (_STILL_MS + _STILL_INTERVALS * given.pass_interval_ms) / 1000


def encode_report(cluster: str, report: Report) -> bytes:
    """A broker's report."""
    return encode_broker_record(cluster, report.broker, report.ts, report.body, kind=report.kind)


def encode_note(note: str, cluster: str, report: Report) -> bytes:
    """A note about a broker, of this name. Rounds ignore notes."""
    return encode_broker_record(
        cluster, report.broker, report.ts, report.body, kind="note", note=note
    )


def encode_sweep(cluster: str, done: Pass, facts: LeaderFacts) -> bytes:
    """The sweep marker of a pass, with what is known about the leader."""
    return msgspec.json.encode(
        SweepRecord(
            1,
            cluster,
            done.ts,
            done.number,
            list(done.answered),
            dict(done.missing),
            answering=list(done.answering) or msgspec.UNSET,
            leader=or_unset(facts.leader),
            shedding=or_unset(facts.shedding),
        )
    )
