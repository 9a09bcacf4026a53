"""What came of a command: what the judge objects to, or what Pulsar did with it."""

from __future__ import annotations

from dataclasses import dataclass

from strategies.admission import Objection
from strategies.model import OutcomeStatus


@dataclass(frozen=True, slots=True)
class Effect:
    """`reason` is None when the effect is just as commanded; `owner_after`: who owns the bundle
    then.
    """

    status: OutcomeStatus
    reason: str | None
    owner_after: str | None


def refusal(objection: Objection, owner: str | None) -> Effect:
    """The effect of an objection; nothing was called."""
    return Effect(objection.status, str(objection), owner)
