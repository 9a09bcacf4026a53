"""What all filters use: the brokers that are left, and the namespace of a bundle."""

from __future__ import annotations

from collections.abc import Iterable

from strategies.reason_codes import Refusals


def remaining(brokers: Iterable[str], refused: Refusals) -> tuple[str, ...]:
    """The brokers that are not refused, in the given order."""
    return (
        tuple(broker for broker in brokers if broker not in refused) if refused else tuple(brokers)
    )


def namespace_of(bundle: str) -> str:
    """`tenant/namespace` of `tenant/namespace/0x…_0x…`."""
    return bundle.rpartition("/")[0]
