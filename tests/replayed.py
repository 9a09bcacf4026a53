"""What the plain loop publishes of a log: the reference for whatever else decides on the same
records.
"""

from collections.abc import Iterable, Mapping, Sequence

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from sinks.wire.record_decoding import Position
from strategies.fold.engine import EngineSettings
from streaming.outputs.counts_of_micro_batch import KINDS

Published = Mapping[str, Sequence[bytes]]


def replayed(lines: Iterable[bytes], engine: EngineSettings, first: int = 0) -> Published:
    """Values by kind of record, in order; only what follows from records from number `first` on."""
    loop = PlainLoop(engine)
    rows = [
        row
        for number, line in enumerate(lines)
        for row in loop.feed(Position("recording", 0, number), line)
        if number >= first
    ]
    return {kind: [row.value for row in rows if row.kind == kind] for kind in KINDS}
