"""How measured figures wander around the truth: one stream of random bits for every purpose, drawn in the order of the samples.

Raw PCG64 bits, because numpy keeps those for ever; normal figures are sums of four uniform ones, because these need no logarithm.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from strategies.bundles.bundle_loads import Floats

#: Four uniform figures have a variance of 4/12.
_FOUR = sqrt(3.0)


class Stream:
    """A stream of random figures that depends on its seeds only."""

    def __init__(self, *seeds: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(seeds))

    def uniform(self, size: int) -> Floats:
        """float64[size] in [0, 1)."""
        return np.asarray((self._bits.random_raw(size) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)

    def normal(self, size: int) -> Floats:
        """float64[size] with mean 0 and standard deviation 1, never beyond ± 3.5."""
        four = self.uniform(4 * size).reshape(4, size)
        return np.asarray((four[0] + four[1] + four[2] + four[3] - 2.0) * _FOUR, dtype=np.float64)

    def between(self, drawn: float | tuple[float, float]) -> float:
        """The figure itself, or one between the two."""
        if not isinstance(drawn, tuple):
            return float(drawn)
        return float(drawn[0] + (drawn[1] - drawn[0]) * self.uniform(1)[0])

    def whole(self, drawn: int | tuple[int, int]) -> int:
        """The number itself, or one between the two, both included."""
        if not isinstance(drawn, tuple):
            return drawn
        return drawn[0] + int((drawn[1] - drawn[0] + 1) * self.uniform(1)[0])


class Wander:
    """Figures that forget where they were: every step keeps 1 − 1/`memory` of the last and adds chance; standard deviation `amount`."""

    def __init__(self, stream: Stream, size: int, amount: float, memory: float) -> None:
        self._stream, self._amount = stream, amount
        self._kept = max(0.0, 1.0 - 1.0 / memory)
        self._added = sqrt(1.0 - self._kept * self._kept)
        self.now = stream.normal(size) * amount if amount else np.zeros(size)

    def step(self) -> None:
        """One sample later."""
        if self._amount:
            self.now = self._kept * self.now + self._added * self._amount * self._stream.normal(len(self.now))

    def grow(self, rows: int) -> None:
        """More figures, which begin at 0."""
        self.now = np.concatenate([self.now, np.zeros(rows)])
