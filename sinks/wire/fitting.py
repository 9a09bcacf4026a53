"""A round's record that every topic takes: where it is too large, it names fewer brokers and bundles and says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from sinks.wire.encoding import encode_round
from strategies.model import Round, Skip

#: Below what Pulsar takes by default (5 MiB) and what `topics create` allows on Kafka (8 MiB). 5,000 brokers make 1 MB.
LARGEST_ROUND = 4 * 2**20

T = TypeVar("T")


def encode_fitting(done: Round, most: int = LARGEST_ROUND) -> bytes:
    """The record of a round with at most `most` bytes, unless even what is left without any names is larger."""
    value = encode_round(done)
    names = max(len(some) for some in (done.brokers, done.stale, done.commands, done.skips, *(skip.names for skip in done.skips)))
    while len(value) > most and names:
        names //= 2
        value = encode_round(_with_fewer(done, names))
    return value


def _with_fewer(done: Round, names: int) -> Round:
    """Lists with so many entries at most; figures of the brokers that are still named."""
    brokers = done.brokers[:names]
    text = f"the record would be too large for a topic: it names {len(brokers)} of {len(done.brokers)} brokers, and of the rest as many"
    shortened = Skip("cluster", (done.cluster,), "round-shortened", text, None, {"brokers": len(done.brokers), "stale": len(done.stale)})
    return replace(
        done,
        brokers=brokers,
        stale=_first(done.stale, names),
        usage=_only(done.usage, brokers),
        usage_after=_only(done.usage_after, brokers),
        commands=done.commands[:names],
        skips=(shortened, *(replace(skip, names=skip.names[:names]) for skip in done.skips[:names])),
    )


def _first(some: Mapping[str, T], names: int) -> Mapping[str, T]:
    return dict(list(some.items())[:names])


def _only(some: Mapping[str, T], brokers: Sequence[str]) -> Mapping[str, T]:
    return {broker: some[broker] for broker in brokers if broker in some}
