"""The plain loop over records: the reference for the decisions of all other engines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sinks.plain_loop import PlainLoop
from sinks.topics.readable import Placed
from sinks.wire.output_rows import OutputRow
from sinks.wire.size_limits import WireLimits
from strategies.fold.engine import EngineSettings


def decide(
    records: Iterable[Placed], engine: EngineSettings, limits: WireLimits
) -> Iterator[list[OutputRow]]:
    """Yields the rows of each record as soon as it is read."""
    loop = PlainLoop(engine, limits)
    for position, value in records:
        yield loop.feed(position, value)
