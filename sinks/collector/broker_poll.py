"""One pass over all brokers of a cluster: every report that came in time, and who did not answer, with the reason.

No broker delays the others for longer than its own deadline: many are asked at a time, those that failed last time are asked last, and one
that keeps failing is left out of ever more passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal, Protocol

import msgspec

from strategies.errors import AdminError

Kind = Literal["load-report", "broker-load-data", "top-bundles-load-data"]


@dataclass(frozen=True, slots=True)
class Report:
    """What a broker said, as one line of JSON, and when (ms since the epoch, by the collector's clock)."""

    broker: str
    ts: int
    body: bytes
    kind: Kind = "load-report"


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass. `answered`: who has figures; `missing`: broker → why it has none; `ts`: when the pass ended.

    `owned`: what brokers own, as they answered, of those where it changed; only where reports do not tell.
    """

    number: int
    ts: int
    reports: tuple[Report, ...]
    answered: tuple[str, ...]
    missing: Mapping[str, str]
    owned: tuple[Report, ...] = ()


class Poll(Protocol):
    """Gets what the brokers of a cluster have to say."""

    def run(self, brokers: Sequence[str]) -> Pass:
        """One pass over these brokers. Raises SinkError when nothing can be followed."""
        ...

    def close(self) -> None:
        """Lets go of what it follows."""
        ...


@dataclass(slots=True)
class _Failures:
    """How often in a row a broker failed, in how many further passes it is not asked, and why it failed last."""

    count: int = 0
    off: int = 0
    reason: str = ""


@dataclass
class BrokerPoll:
    """Asks all brokers for their load reports, pass after pass; remembers who fails. `ask` must not repeat calls by itself."""

    ask: Callable[[str], bytes]
    at_once: int
    most_passes_off: int
    clock_ms: Callable[[], int]
    _failures: dict[str, _Failures] = field(default_factory=dict)
    _passes: int = 0

    def run(self, brokers: Sequence[str]) -> Pass:
        """One pass over these brokers."""
        self._failures = {broker: failures for broker, failures in self._failures.items() if broker in brokers}
        off = {broker for broker in brokers if self._is_off(broker)}
        asked = sorted((broker for broker in brokers if broker not in off), key=lambda broker: broker in self._failures)
        with ThreadPoolExecutor(max(1, min(self.at_once, len(asked))), thread_name_prefix="collect") as pool:
            answers = dict(zip(asked, pool.map(self._ask, asked), strict=True))
        self._passes += 1
        for broker, answer in answers.items():
            self._remember(broker, answer)
        missing = {broker: self._failures[broker].reason for broker in brokers if broker in self._failures}
        reports = tuple(told for broker in brokers if isinstance(told := answers.get(broker), Report))
        return Pass(self._passes, self.clock_ms(), reports, tuple(report.broker for report in reports), missing)

    def close(self) -> None:
        """Nothing to let go of."""

    def _is_off(self, broker: str) -> bool:
        failures = self._failures.get(broker)
        if failures is None or failures.off == 0:
            return False
        failures.off -= 1
        return True

    def _ask(self, broker: str) -> Report | str:
        """The report, or why there is none."""
        try:
            body = msgspec.json.format(self.ask(broker), indent=-1)
        except AdminError as error:
            if "UnsupportedOperationException" in str(error):
                return f"{broker} runs the extensible load manager, which has no load report; set pulsar.load_manager to extensible"
            return str(error)
        except (ValueError, RecursionError) as error:
            return f"{broker} answered something that is not JSON ({error}); is it a broker?"
        return Report(broker, self.clock_ms(), body)

    def _remember(self, broker: str, answer: Report | str) -> None:
        if isinstance(answer, Report):
            self._failures.pop(broker, None)
            return
        failures = self._failures.setdefault(broker, _Failures())
        # The first failure may be an accident, so the next pass asks again.
        failures.off = min(self.most_passes_off, 2**failures.count - 1) if failures.count < 30 else self.most_passes_off
        failures.count += 1
        failures.reason = answer
