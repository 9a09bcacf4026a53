"""The largest size of a round's record: one that is too large for a topic names fewer brokers and
bundles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from sinks.wire.record_encoding import encode_round
from strategies.cluster.model import Round, Skip

#: Bytes. Below the defaults of Pulsar (5 MiB) and of `topics create` on Kafka (8 MiB). A round of
#: 5,000 brokers has 1 MB.
LARGEST_ROUND = 4 * 2**20

T = TypeVar("T")


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
