"""One pass over all brokers of a cluster: the load reports that arrived in time, and the reason for
each missing one. For brokers whose reports do not contain their bundles, the owner of each bundle.

A slow broker delays others at most by its own deadline: brokers are asked concurrently, those that
failed last time come last, and one that keeps failing is skipped in more and more passes.

Pulsar has one call that lists a broker's bundles. It can freeze a modular broker
(docs/PULSAR_FAULTS.md), and the brokers at an address can change their load manager between two
passes, so owners are found with one call per bundle.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import msgspec

from sinks.pulsar_api.admin import PulsarAdmin
from strategies.errors import AdminError, BrokerUnavailable, CallFailed, NotFound, Unauthorized

#: Reason codes of failed calls; any other error is `refused`.
_CODES: Mapping[type[Exception], str] = {
    BrokerUnavailable: "broker-unavailable",
    NotFound: "not-found",
    Unauthorized: "unauthorized",
}

Kind = Literal["load-report", "broker-load-data", "top-bundles-load-data"]


@dataclass(frozen=True, slots=True)
class Report:
    """A broker's report as one line of JSON, with its time (ms since the epoch, by the collector's
    clock).
    """

    broker: str
    ts: int
    body: bytes
    kind: Kind = "load-report"


@dataclass(frozen=True, slots=True)
class Pass:
    """Result of one pass. `answered`: brokers with figures; `missing`: broker → reason; `ts`: end
    of the pass.

    `owned`: bundles of each broker where they changed; only if reports do not contain them.
    `missing_codes`: broker → stable code of the reason; `answering`: the missing brokers that
    answered, but have no figures at present.
    """

    number: int
    ts: int
    reports: tuple[Report, ...]
    answered: tuple[str, ...]
    missing: Mapping[str, str]
    owned: tuple[Report, ...] = ()
    missing_codes: Mapping[str, str] = field(default_factory=dict)
    answering: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MissingReport:
    """Why a broker has no report: a stable code, and a sentence."""

    code: str
    text: str


#: Runs one pass over these brokers. Raises SinkError if their topics cannot be read.
Poll = Callable[[Sequence[str]], Pass]


@dataclass(slots=True)
class _Failures:
    """Failures of a broker: the last reason, how many in a row, and after how many passes it is
    asked again.
    """

    reason: MissingReport
    count: int = 0
    due: int = 0


@dataclass
class BrokerPoll:
    """Requests the load reports of all brokers, pass after pass, and tracks failures. `ask` must
    not retry by itself.
    """

    ask: Callable[[str], bytes]
    at_once: int
    most_passes_off: int
    clock_ms: Callable[[], int]
    _failures: dict[str, _Failures] = field(default_factory=dict)
    _passes: int = 0

    def run(self, brokers: Sequence[str]) -> Pass:
        """Runs one pass over these brokers."""
        self._failures = {
            broker: failures for broker, failures in self._failures.items() if broker in brokers
        }
        asked = sorted(
            (
                broker
                for broker in brokers
                if broker not in self._failures or self._failures[broker].due <= self._passes
            ),
            key=lambda broker: broker in self._failures,
        )
        with ThreadPoolExecutor(
            max(1, min(self.at_once, len(asked))), thread_name_prefix="collect"
        ) as pool:
            answers = dict(zip(asked, pool.map(self._ask, asked), strict=True))
        self._passes += 1
        for broker, answer in answers.items():
            self._remember(broker, answer)
        missing = {
            broker: self._failures[broker].reason for broker in brokers if broker in self._failures
        }
        reports = tuple(
            report for broker in brokers if isinstance(report := answers.get(broker), Report)
        )
        return Pass(
            self._passes,
            self.clock_ms(),
            reports,
            tuple(report.broker for report in reports),
            {broker: reason.text for broker, reason in missing.items()},
            missing_codes={broker: reason.code for broker, reason in missing.items()},
        )

    def _ask(self, broker: str) -> Report | MissingReport:
        """The report, or the reason why there is none."""
        try:
            body = msgspec.json.format(self.ask(broker), indent=-1)
        except AdminError as error:
            if "UnsupportedOperationException" in str(error):
                return MissingReport(
                    "other-load-manager",
                    f"{broker} runs the extensible load manager, which has no load report; set "
                    "pulsar.load_manager to extensible",
                )
            codes = (code for kind, code in _CODES.items() if isinstance(error, kind))
            return MissingReport(next(codes, "refused"), str(error))
        except (ValueError, RecursionError) as error:
            return MissingReport(
                "not-json",
                f"{broker} sent an answer that is not JSON ({error}); check that the address is a "
                "broker's",
            )
        return Report(broker, self.clock_ms(), body)

    def _remember(self, broker: str, answer: Report | MissingReport) -> None:
        if isinstance(answer, Report):
            self._failures.pop(broker, None)
            return
        failures = self._failures.setdefault(broker, _Failures(answer))
        # The first failure may be an accident: the next pass asks again.
        skipped = min(self.most_passes_off, 2 ** min(failures.count, 30) - 1)
        failures.due = self._passes + skipped
        failures.count += 1
        failures.reason = answer


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
