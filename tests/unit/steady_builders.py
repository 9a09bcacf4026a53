"""Builders of what SteadyShedder remembers of a broker: samples, and levels of load."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from strategies.shedding.steady.load_history import (
    LoadHistory,
    LoadSample,
    columns,
    packed,
    packed_level,
)


class LoadLevel(NamedTuple):
    """A level, in the order of its packed form."""

    throughput: float
    msg_rate: float
    usage: float
    weight: float
    at_ms: float


def history_of(
    samples: Iterable[LoadSample] = (),
    levels: Iterable[LoadLevel] = (),
    *,
    changed_at_ms: int = -1,
    bundles: int = 0,
    doubted: bool = False,
) -> LoadHistory:
    """A history with these samples and levels, oldest first."""
    return LoadHistory(
        b"".join(packed(*one) for one in samples),
        b"".join(packed_level(*one) for one in levels),
        changed_at_ms,
        bundles,
        doubted,
    )


def levels_of(history: LoadHistory) -> list[LoadLevel]:
    """Newest last."""
    return [LoadLevel(*one) for one in columns(history.packed_levels, 5).tolist()]
