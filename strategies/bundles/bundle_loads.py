"""The bundles of one broker as columns of numbers: the input of strategies that pick bundles to
shed.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    @property
    def msg_rate(self) -> Floats:
        """float64[n]: short-term messages/s in + out."""
        return self.short[:, RATE_IN] + self.short[:, RATE_OUT]

    @property
    def msg_throughput(self) -> Floats:
        """float64[n]: short-term bytes/s in + out."""
        return self.short[:, THROUGHPUT_IN] + self.short[:, THROUGHPUT_OUT]


def no_bundles() -> BundleLoads:
    """A table without rows."""
    four, one = np.empty((0, 4)), np.empty(0, dtype=np.int64)
    return BundleLoads((), four, four, one, one, one, one, four)
