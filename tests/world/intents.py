"""Builders of intents: fresh ids, one line per record."""

from hashlib import blake2b
from typing import Any

from strategies.cluster.intent_records_and_states import Intent, IntentAction
from tests.world.telemetry import T0


def id_of(number: int) -> str:
    return blake2b(str(number).encode(), digest_size=16).hexdigest()


def intent(
    number: int, action: IntentAction, seconds: float, broker: str | None = None, **more: Any
) -> Intent:
    """Record `number`, `seconds` after T0."""
    ts = T0 + int(seconds * 1000)
    return Intent("c", ts, id_of(number), action, "Ann", "new disks", broker, **more)


def drain(number: int, seconds: float, broker: str, **more: Any) -> Intent:
    return intent(number, "drain", seconds, broker, **more)


def undrain(number: int, seconds: float, broker: str, **more: Any) -> Intent:
    return intent(number, "undrain", seconds, broker, **more)


def roll(number: int, seconds: float, *brokers: str, max_unavailable: int = 1) -> Intent:
    return intent(number, "roll", seconds, brokers=brokers, max_unavailable=max_unavailable)


def of_roll(
    number: int, action: IntentAction, seconds: float, begun: Intent, broker: str | None = None
) -> Intent:
    """A record that belongs to a roll."""
    return intent(number, action, seconds, broker, roll=begun.id)
