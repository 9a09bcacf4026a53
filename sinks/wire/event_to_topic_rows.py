"""Rows for the three output topics: commands and rounds of the engine, and rejected records, which
hold the original bytes and the reason. A round that is too large for a topic names fewer brokers
and bundles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import msgspec

from sinks.wire.contracts.job_output import RejectedRecord
from sinks.wire.record_decoding import (
    LARGEST_ORIGINAL,
    Origin,
    Position,
    pack_origin,
    unpack_origin,
)
from sinks.wire.record_encoding import encode_command, encode_round
from sinks.wire.signing_keys import SigningKey
from strategies.cluster.model import Command, Event, Round, Skip
from strategies.cluster.quota import OVER_QUOTA, OverQuota
from strategies.errors import WireError

_ENCODER = msgspec.json.Encoder()
#: Bytes. Below the defaults of Pulsar (5 MiB) and of `topics create` on Kafka (8 MiB). A round of
#: 5,000 brokers has 1 MB.
LARGEST_ROUND = 4 * 2**20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One record for the topic that `kind` names. `key`: the cluster, empty if unknown."""

    kind: Literal["commands", "rounds", "rejected"]
    key: str
    value: bytes


def event_row(event: Event, key: SigningKey | None = None) -> OutputRow:
    """The row of a command or a round (signed if there is a key), or of a record that the engine
    could not use.
    """
    if isinstance(event, Command):
        record = encode_command(event)
        return OutputRow("commands", event.cluster, record if key is None else key.sign(record))
    if isinstance(event, Round):
        record = encode_fitting(event)
        return OutputRow("rounds", event.cluster, record if key is None else key.sign(record))
    return rejected_row(
        WireError(event.code, event.text), event.record.origin, event.record.cluster
    )


def over_quota_row(aside: OverQuota, cluster: str) -> OutputRow:
    """The row of all records that a quota set aside, at the position of the first one."""
    origin = pack_origin(Position(*aside.first), b"", aside.size)
    return rejected_row(WireError(OVER_QUOTA, aside.text), origin, cluster)


def rejected_row(error: WireError, origin: bytes, cluster: str) -> OutputRow:
    """The row of a record that could not be decoded. `origin`: from `pack_origin`; `cluster`: empty
    if unknown.
    """
    return OutputRow("rejected", cluster, encode_rejected(error, unpack_origin(origin), cluster))


def encode_rejected(error: WireError, origin: Origin, cluster: str) -> bytes:
    """Encodes a record of the REJECTED topic; `cluster` is empty if unknown."""
    topic, partition, offset = origin.position
    record = RejectedRecord(
        v=1,
        topic=topic,
        partition=partition,
        offset=offset,
        cluster=cluster or None,
        code=error.code,
        text=error.text,
        original=origin.value[:LARGEST_ORIGINAL],
        size=origin.size,
        truncated=origin.truncated or len(origin.value) > LARGEST_ORIGINAL,
    )
    # `encode` returns bytes with up to half as much memory again; a job holds all rejected records
    # of a micro-batch.
    text = bytearray()
    _ENCODER.encode_into(record, text)
    return bytes(text)


def encode_fitting(done: Round, most: int = LARGEST_ROUND) -> bytes:
    """Encodes a round in at most `most` bytes, unless the record without any names is larger."""
    value = encode_round(done)
    names = max(
        len(some)
        for some in (
            done.brokers,
            done.stale,
            done.commands,
            done.skips,
            done.intents,
            *(skip.names for skip in done.skips),
        )
    )
    while len(value) > most and names:
        names //= 2
        value = encode_round(_with_fewer(done, names))
    return value


def _with_fewer(done: Round, names: int) -> Round:
    """The round with at most `names` entries per list, and with figures of the brokers that
    remain.
    """
    brokers = done.brokers[:names]
    text = (
        f"the record is too large for a topic: its lists are cut to {names} entries "
        f"({len(brokers)} of {len(done.brokers)} brokers)"
    )
    shortened = Skip(
        "cluster",
        (done.cluster,),
        "round-shortened",
        text,
        None,
        {"brokers": len(done.brokers), "stale": len(done.stale)},
    )
    return replace(
        done,
        brokers=brokers,
        stale=dict(list(done.stale.items())[:names]),
        usage=_only(done.usage, brokers),
        usage_after=_only(done.usage_after, brokers),
        measured=_only(done.measured, brokers),
        commands=done.commands[:names],
        intents=done.intents[:names],
        skips=(
            shortened,
            *(replace(skip, names=skip.names[:names]) for skip in done.skips[:names]),
        ),
    )


def _only(some: Mapping[str, T], brokers: Sequence[str]) -> Mapping[str, T]:
    return {broker: some[broker] for broker in brokers if broker in some}
