"""Encodes and decodes intents of operators, records of the TELEMETRY topic."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType

from sinks.wire.approvals import check_person
from sinks.wire.contracts.telemetry import IntentRecord
from sinks.wire.names import check_broker, quoted
from strategies.cluster.intent_contract import Intent
from strategies.errors import WireError

_ID = re.compile("[0-9a-f]{32}")
_ENCODER = msgspec.json.Encoder()
#: Field → the actions that need it, and those that may have it too.
_FIELDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "broker": (frozenset({"drain", "undrain", "restarting", "restarted"}), frozenset()),
    "brokers": (frozenset({"roll"}), frozenset()),
    "roll": (
        frozenset({"restarting", "restarted", "halt", "resume", "end"}),
        frozenset({"drain", "undrain"}),
    ),
    "until_ms": (frozenset(), frozenset({"drain"})),
    "together": (frozenset(), frozenset({"drain"})),
    "max_unavailable": (frozenset(), frozenset({"roll"})),
}


def encode_intent(intent: Intent) -> bytes:
    """Encodes a record of the TELEMETRY topic, without a signature."""
    rolls = intent.action == "roll"
    return _ENCODER.encode(
        IntentRecord(
            v=1,
            cluster=intent.cluster,
            ts=intent.ts,
            id=intent.id,
            action=intent.action,
            by=intent.by,
            reason=intent.reason,
            broker=UNSET if intent.broker is None else intent.broker,
            brokers=list(intent.brokers) if rolls else UNSET,
            roll=UNSET if intent.roll is None else intent.roll,
            until_ms=UNSET if intent.until_ms is None else intent.until_ms,
            together=True if intent.together else UNSET,
            max_unavailable=intent.max_unavailable if rolls else UNSET,
        )
    )


def to_intent(record: IntentRecord, origin: bytes) -> Intent:
    """The inverse of `encode_intent`; checks what a schema cannot express, but no signature. Raises
    WireError.
    """
    check_person(record.by, record.reason)
    _check_fields(record)
    for name, value in (("id", record.id), ("roll", record.roll)):
        if value is not UNSET and _ID.fullmatch(value) is None:
            raise WireError(
                "intent-id",
                f"$.{name} is {quoted(value)}, no id of an intent; write 32 lower-case hex digits.",
            )
    brokers = () if record.brokers is UNSET else tuple(record.brokers)
    _check_brokers(record.broker, brokers)
    return Intent(
        record.cluster,
        record.ts,
        record.id,
        record.action,
        record.by,
        record.reason,
        None if record.broker is UNSET else record.broker,
        brokers,
        None if record.roll is UNSET else record.roll,
        None if record.until_ms is UNSET else record.until_ms,
        record.together is True,
        1 if record.max_unavailable is UNSET else record.max_unavailable,
        origin,
    )


def _check_fields(record: IntentRecord) -> None:
    for name, (needed, allowed) in _FIELDS.items():
        value = getattr(record, name)
        there = value is not UNSET and value != []
        if record.action in needed and not there:
            raise WireError(
                "intent-field-missing",
                f"$.{name} is not there in an intent to {record.action}; it needs one.",
            )
        if there and record.action not in needed | allowed:
            raise WireError(
                "intent-field-unexpected",
                f"$.{name} is there in an intent to {record.action}, which has none; leave it out.",
            )


def _check_brokers(broker: str | UnsetType, brokers: tuple[str, ...]) -> None:
    if broker is not UNSET:
        check_broker(broker, "$.broker")
    for index, name in enumerate(brokers):
        check_broker(name, f"$.brokers[{index}]")
    if len({*brokers}) < len(brokers):
        twice = next(name for name in brokers if brokers.count(name) > 1)
        raise WireError(
            "broker-listed-twice", f"$.brokers lists {quoted(twice)} twice; list each broker once."
        )
