"""Seven totals and maxima of a bundle table, so that a round that needs only these does not unpack
the table.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableSummary:
    """Summary of the long-term averages with the newest figures as their last sample; all zero for
    a table without rows.

    `rate_in`, `rate_out`: messages/s of all bundles, added one by one in the order of the table,
    because the order decides the last bits; `topics`: of all bundles. `most_topics`,
    `most_sessions`, `most_rate` (messages/s in + out), `most_throughput` (bytes/s in + out): the
    largest value of any bundle, NaN ignored.
    """

    rate_in: float = 0.0
    rate_out: float = 0.0
    topics: int = 0
    most_topics: int = 0
    most_sessions: int = 0
    most_rate: float = 0.0
    most_throughput: float = 0.0
