"""How large a record may be, and how much of one that is too large is kept for the rejected topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Limits of the wire format; readers cut a record beyond `max_record_bytes` down to `kept_bytes` and pass on its true size."""

    max_record_bytes: Annotated[
        int, Setting("A record larger than this is not decoded but put on the rejected topic", "bytes", ge=1024, le=2**30)
    ] = 8 * 2**20
    kept_bytes: Annotated[int, Setting("How much of a record that is too large is kept on the rejected topic", "bytes", ge=0, le=2**20)] = (
        64 * 2**10
    )


DEFAULT_LIMITS = WireLimits()


def clip(value: bytes, limits: WireLimits) -> bytes:
    """The value itself, or the beginning of it when it is too large."""
    return value if len(value) <= limits.max_record_bytes else value[: limits.kept_bytes]
