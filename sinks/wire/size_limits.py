"""The largest accepted record, and how much of a larger one the rejected topic keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Limits of the wire format. Readers cut a record larger than `max_record_bytes` to
    `kept_bytes` and pass on its true size.
    """

    max_record_bytes: Annotated[
        int,
        Setting(
            "Largest record that is decoded; a larger one goes to the rejected topic",
            "bytes",
            ge=1024,
            le=2**30,
        ),
    ] = 8 * 2**20
    #: Part of a too large record that the rejected topic keeps.
    kept_bytes: int = 64 * 2**10


DEFAULT_LIMITS = WireLimits()


def clip(value: bytes, limits: WireLimits) -> bytes:
    """The value itself, or its beginning if it is too large."""
    return value if len(value) <= limits.max_record_bytes else value[: limits.kept_bytes]
