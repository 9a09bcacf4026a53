"""The result of every filter: the brokers that must not take a bundle, each with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason why a broker must not take a bundle: a stable code, and a text that continues a
    sentence starting with the broker's name.
    """

    code: str
    text: str


Refusals = Mapping[str, Refusal]


def remaining(brokers: Iterable[str], refused: Refusals) -> tuple[str, ...]:
    """The brokers that are not refused, in the given order."""
    return (
        tuple(broker for broker in brokers if broker not in refused) if refused else tuple(brokers)
    )


def namespace_of(bundle: str) -> str:
    """`tenant/namespace` of `tenant/namespace/0x…_0x…`."""
    return bundle.rpartition("/")[0]
