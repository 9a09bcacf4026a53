"""One pass over all brokers of a cluster: the load reports that arrived in time, and the reason for
each missing one.

A slow broker delays others at most by its own deadline: brokers are asked concurrently, those that
failed last time come last, and one that keeps failing is skipped in more and more passes.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from strategies.errors import AdminError, BrokerUnavailable, NotFound, Unauthorized

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
