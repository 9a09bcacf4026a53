"""The refusal of an intent's record, and the brokers by which records are accepted or refused."""

from collections.abc import Collection
from dataclasses import dataclass

from strategies.cluster.remembered_intents import Intents

#: Maximum number of brokers that a sentence names.
MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class IntentFleet:
    """The brokers by which a record is accepted or refused."""

    #: All brokers with reports.
    known: Collection[str]
    #: Brokers with fresh figures.
    live: Collection[str]
    #: Brokers that `limits.excluded_brokers` names.
    excluded: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class IntentRefusal:
    """The refusal of a record, which then changes no drain and no roll."""

    #: Stable, for programs.
    code: str
    #: A sentence without a full stop.
    text: str
    #: The person's next step, as a sentence.
    advice: str

    @property
    def line(self) -> str:
        """The refusal as a line: `n1:8080 has no fresh figures … [not-live]. Start the …`."""
        return f"{self.text} [{self.code}]. {self.advice}"


Answer = Intents | IntentRefusal


def refuse_unfit(broker: str, fleet: IntentFleet) -> IntentRefusal | None:
    """Returns the refusal of a record about a broker that takes no part in rounds."""
    if broker in fleet.excluded:
        return IntentRefusal(
            "excluded-broker",
            f"limits.excluded_brokers names {broker}: no round includes it",
            "Remove it from limits.excluded_brokers first.",
        )
    if broker not in fleet.known:
        names = ", ".join(sorted(fleet.known)[:MOST_NAMED]) or "none"
        return IntentRefusal(
            "unknown-broker",
            f"no broker {broker} has reported; known brokers: {names}",
            "Write the name as host:port of the broker's web service.",
        )
    if broker not in fleet.live:
        return IntentRefusal(
            "not-live",
            f"{broker} has no fresh figures: it is down, or its reports do not arrive",
            "Start the broker, or check with `rebalancer doctor` that its reports are collected.",
        )
    return None
