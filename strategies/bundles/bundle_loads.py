"""The bundles of one broker as columns of numbers: the input of strategies that pick bundles to
shed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: Column order of every four-column traffic table.
RATE_IN, RATE_OUT, THROUGHPUT_IN, THROUGHPUT_OUT = range(4)


@dataclass(frozen=True, slots=True, eq=False)
class BundleLoads:
    """The bundles of one broker as columns; row i of every array belongs to `names[i]`.

    `short`, `long`: float64[n, 4], averages over at most 10 and 1000 samples (columns RATE_IN …
    THROUGHPUT_OUT); `short_samples`, `long_samples`, `topics`, `sessions` (consumers + producers):
    int64[n]; `current`: float64[n, 4], newest figures.
    """

    names: tuple[str, ...]
    short: Floats
    long: Floats
    short_samples: Ints
    long_samples: Ints
    topics: Ints
    sessions: Ints
    current: Floats
    _rows: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def row(self, bundle: str) -> int | None:
        """The row of a bundle; None if it is not in the table."""
        if not self._rows and self.names:
            self._rows.update(zip(self.names, range(len(self.names)), strict=True))
        return self._rows.get(bundle)

    def throughput_of(self, bundle: str) -> float:
        """One figure of `msg_throughput`; 0 for a bundle that is not in the table."""
        row = self.row(bundle)
        if row is None:
            return 0.0
        return float(self.short[row, THROUGHPUT_IN] + self.short[row, THROUGHPUT_OUT])

    @property
    def msg_rate(self) -> Floats:
        """float64[n]: short-term messages/s in + out."""
        return self.short[:, RATE_IN] + self.short[:, RATE_OUT]

    @property
    def msg_throughput(self) -> Floats:
        """float64[n]: short-term bytes/s in + out."""
        return self.short[:, THROUGHPUT_IN] + self.short[:, THROUGHPUT_OUT]


@dataclass(frozen=True, slots=True)
class TableSummary:
    """Seven totals and maxima of a bundle table, for rounds that do not unpack the table: of the
    long-term averages with the newest figures as their last sample; all zero for a table without
    rows.

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


def no_bundles() -> BundleLoads:
    """A table without rows."""
    four, one = np.empty((0, 4)), np.empty(0, dtype=np.int64)
    return BundleLoads((), four, four, one, one, one, one, four)
