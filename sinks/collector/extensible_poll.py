"""One pass over brokers with the extensible load manager: reports published since the last pass,
and older ones that are still valid. Reads the two topics on which these brokers publish their load.

The topics are not persistent: a late subscriber has missed earlier messages. Key = broker, value =
JSON; an empty value withdraws the previous message (Pulsar 4.2.4, `TableViewLoadDataStoreImpl`).

These brokers publish when their load changes, at the latest after 15 minutes. They use each other's
newest report until it is withdrawn or older than `loadBalancerBrokerLoadDataTTLInSeconds`. A pass
does the same: it ends with the newest figures of every broker that answers.

Their reports do not list all bundles. Pulsar has one call that lists a broker's bundles. It can
freeze a modular broker (docs/PULSAR_FAULTS.md), and the brokers at an address can change their load
manager between two passes, so owners are found with one call per bundle.
"""

import json
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

import msgspec

from sinks.collector.broker_poll import BrokerPoll, Kind, MissingReport, Pass, Report
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.pulsar.client import open_client, pulsar_errors
from sinks.wire.names_and_times import is_broker
from strategies.errors import CallFailed, NotFound, SinkError

if TYPE_CHECKING:
    import pulsar

WITHDRAWN = b"null"
TOPICS: Mapping[Kind, str] = {
    "broker-load-data": "non-persistent://pulsar/system/loadbalancer-broker-load-data",
    "top-bundles-load-data": "non-persistent://pulsar/system/loadbalancer-top-bundles-load-data",
}
#: The broker drops messages beyond this queue: room for 1,000 brokers that report twice within a
#: second.
_QUEUE = 10_000


class LoadTopics:
    """Buffers reports, stamped with the collector's clock on arrival, until `take`."""

    def __init__(
        self, service_url: str, settings: PulsarSettings, clock_ms: Callable[[], int]
    ) -> None:
        """Subscribes at the present end. Raises SettingsError, SinkError."""
        import pulsar

        self._where = (f"the load topics of {settings.cluster}", service_url, settings)
        self._clock_ms = clock_ms
        self._arrived = deque[Report]()
        self._failed: SinkError | None = None
        self._ended = threading.Event()
        self._client = open_client(service_url, settings)
        try:
            with pulsar_errors(*self._where):
                readers = {
                    kind: self._client.create_reader(
                        topic,
                        pulsar.MessageId.latest,
                        receiver_queue_size=_QUEUE,
                        reader_name="pulsar-rebalancer",
                    )
                    for kind, topic in TOPICS.items()
                }
        except BaseException:
            self._client.close()
            raise
        self._threads = [
            threading.Thread(
                target=self._follow, args=(kind, reader), name=f"follow-{kind}", daemon=True
            )
            for kind, reader in readers.items()
        ]
        for thread in self._threads:
            thread.start()

    def take(self) -> list[Report]:
        """The reports since the last call, in order of arrival. Raises SinkError if the topics
        cannot be read any more.
        """
        found = []
        while self._arrived:
            found.append(self._arrived.popleft())
        if self._failed is not None and not found:
            raise self._failed
        return sorted(found, key=lambda report: report.ts)

    def close(self) -> None:
        """Closes the readers."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._client.close()

    def _follow(self, kind: Kind, reader: "pulsar.Reader") -> None:
        import pulsar

        try:
            with pulsar_errors(*self._where):
                while not self._ended.is_set():
                    with suppress(pulsar.Timeout):
                        message = reader.read_next(timeout_millis=500)
                        broker, ts = message.partition_key(), self._clock_ms()
                        if is_broker(broker):
                            self._arrived.append(Report(broker, ts, one_line(message.data()), kind))
        except SinkError as error:
            self._failed = error


def one_line(data: bytes) -> bytes:
    """A payload as one line of JSON, `null` if empty. Bytes that are not JSON become a string,
    which the job rejects.
    """
    if not data.strip():
        return WITHDRAWN
    try:
        return msgspec.json.format(data, indent=-1)
    except (ValueError, RecursionError):
        return msgspec.json.encode(data.decode("utf-8", errors="replace"))


FIGURES: Kind = "broker-load-data"


@dataclass(slots=True)
class _Known:
    """The newest report of a broker. `published_ms`: when it arrived; the timestamp of the report
    itself grows whenever a pass repeats it.
    """

    report: Report
    published_ms: int


@dataclass
class ExtensiblePoll:
    """`take`: the reports since the last call, in order of arrival (`LoadTopics.take`); `liveness`:
    asks each broker for something, and does not use the content of its
    answer; `owned`: the bundles of brokers, where they
    changed (`OwnerPoll.run`); `keep_ms`: how long a broker's report stays valid.
    """

    take: Callable[[], list[Report]]
    liveness: BrokerPoll
    owned: Callable[[Sequence[str]], tuple[Report, ...]]
    keep_ms: int
    clock_ms: Callable[[], int]
    _newest: dict[tuple[Kind, str], _Known] = field(default_factory=dict)

    def run(self, brokers: Sequence[str]) -> Pass:
        """Runs one pass; also passes on reports of brokers not listed any more: they may be their
        last. Raises SinkError.
        """
        arrived = [self._note(report) for report in self.take()]
        polled = self.liveness.run(brokers)
        owned = self.owned(polled.answered)
        arrived += [self._note(report) for report in self.take()]
        listed = set(brokers)
        self._newest = {key: known for key, known in self._newest.items() if key[1] in listed}
        fresh = {(report.kind, report.broker) for report in arrived}
        repeated = self._still_valid(fresh, polled.missing)
        found = {
            broker: why
            for broker in brokers
            if broker not in polled.missing and (why := self._missing_reason(broker))
        }
        missing = {**polled.missing, **{broker: why.text for broker, why in found.items()}}
        codes = {**polled.missing_codes, **{broker: why.code for broker, why in found.items()}}
        return Pass(
            polled.number,
            self.clock_ms(),
            (*arrived, *repeated),
            tuple(broker for broker in brokers if broker not in missing),
            missing,
            owned,
            codes,
            answering=tuple(found),
        )

    def _note(self, report: Report) -> Report:
        """Keeps the report. The next report of a broker gets a later timestamp, even within the
        same millisecond.
        """
        key, published_ms = (report.kind, report.broker), report.ts
        last = self._newest.get(key)
        if last is not None and report.ts <= last.report.ts:
            report = replace(report, ts=last.report.ts + 1)
        self._newest[key] = _Known(report, published_ms)
        return report

    def _still_valid(
        self, fresh: Collection[tuple[Kind, str]], silent: Collection[str]
    ) -> list[Report]:
        """Earlier reports that are still valid. Their equal content marks them as repeated samples
        in rounds. `silent`: brokers that do not answer; their figures have to age.
        """
        now, repeated = self.clock_ms(), list[Report]()
        for key, known in sorted(self._newest.items(), key=itemgetter(0)):
            valid = now - known.published_ms <= self.keep_ms and known.report.body != WITHDRAWN
            if valid and key not in fresh and key[1] not in silent:
                known.report = replace(known.report, ts=max(now, known.report.ts + 1))
                repeated.append(known.report)
        return repeated

    def _missing_reason(self, broker: str) -> MissingReport | None:
        """Why a live broker has no figures; None if it has."""
        known = self._newest.get((FIGURES, broker))
        if known is None:
            return MissingReport(
                "not-published",
                f"{broker} has not published its load since the collector started; it does so "
                "when its load changes, or after 15 minutes",
            )
        age_ms = self.clock_ms() - known.published_ms
        if age_ms > self.keep_ms:
            return MissingReport(
                "too-old",
                f"{broker} last published its load {age_ms / 1000:.0f} s ago, which is too old to "
                "use; check the broker",
            )
        if known.report.body != WITHDRAWN:
            return None
        return MissingReport(
            "withdrawn",
            f"{broker} withdrew its figures {age_ms / 1000:.0f} s ago, as brokers do when a bundle "
            "moves; new ones follow",
        )


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
