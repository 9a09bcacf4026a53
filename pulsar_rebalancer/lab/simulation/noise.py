"""Random values of a running cluster: the noise of measured figures, and the duration of moves.

Uses raw PCG64 bits, which are the same in all numpy versions. A normal value is the sum of four
uniform ones, which needs no logarithm.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from pulsar_rebalancer.lab.simulation.clock import PERIOD_S
from pulsar_rebalancer.lab.simulation.scenarios.wave_noise_limit_schema import Noise
from strategies.bundles import Floats

#: Duration of a transfer, between these bounds; on a small real cluster it took 150–175 ms.
TOOK_S = (0.12, 0.24)
#: Time from the transfer until a bundle's clients are served again: they back off, look up and
#: connect.
RECONNECT_S = (0.3, 2.0)
#: The sum of four uniform values has a variance of 4/12.
_FOUR = sqrt(3.0)


class Stream:
    """A stream of random values that depends on its seeds only."""

    def __init__(self, *seeds: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(seeds))

    def uniform(self, size: int) -> Floats:
        """float64[size] in [0, 1)."""
        return np.asarray(
            (self._bits.random_raw(size) >> np.uint64(11)) * 2.0**-53, dtype=np.float64
        )

    def normal(self, size: int) -> Floats:
        """float64[size] with mean 0 and standard deviation 1, within ± 3.5."""
        four = self.uniform(4 * size).reshape(4, size)
        return np.asarray((four[0] + four[1] + four[2] + four[3] - 2.0) * _FOUR, dtype=np.float64)

    def between(self, drawn: float | tuple[float, float]) -> float:
        """The given value, or a random one between the two."""
        if not isinstance(drawn, tuple):
            return float(drawn)
        return float(drawn[0] + (drawn[1] - drawn[0]) * self.uniform(1)[0])

    def whole(self, drawn: int | tuple[int, int]) -> int:
        """The given integer, or a random one between the two, inclusive."""
        if not isinstance(drawn, tuple):
            return drawn
        return drawn[0] + int((drawn[1] - drawn[0] + 1) * self.uniform(1)[0])


class Wander:
    """Values that drift and return to 0: each step keeps 1 − 1/`memory` of the last value and adds
    noise; standard deviation `amount`.
    """

    def __init__(self, stream: Stream, size: int, amount: float, memory: float) -> None:
        self._stream, self._amount = stream, amount
        self._kept = max(0.0, 1.0 - 1.0 / memory)
        self._added = sqrt(1.0 - self._kept * self._kept)
        self.now = stream.normal(size) * amount if amount else np.zeros(size)

    def step(self) -> None:
        """Advances all values by one sample."""
        if self._amount:
            self.now = self._kept * self.now + self._added * self._amount * self._stream.normal(
                len(self.now)
            )

    def grow(self, rows: int) -> None:
        """Adds values that start at 0."""
        self.now = np.concatenate([self.now, np.zeros(rows)])


class Drifting:
    """The noise of a scenario: figures drift for minutes, single samples deviate, CPU has spikes.
    `clients`: stream of move durations.
    """

    def __init__(
        self, noise: Noise, bundles: int, brokers: int, samples: Stream, clients: Stream
    ) -> None:
        self._noise, self._samples, self._clients = noise, samples, clients
        self._bundles = Wander(samples, bundles, noise.wander, noise.wander_minutes)
        self._brokers = Wander(samples, brokers, noise.cpu_wander_points, noise.wander_minutes)

    def traffic(self, bundles: int) -> Floats:
        self._bundles.step()
        factors = 1.0 + self._bundles.now
        white = self._noise.traffic
        return (
            np.maximum(factors + white * self._samples.normal(bundles), 0.0) if white else factors
        )

    def reported(self, traffic: Floats) -> Floats:
        return traffic

    def cpu(self, busy: Floats) -> Floats:
        noise, count = self._noise, len(busy)
        self._brokers.step()
        points = self._brokers.now + (
            noise.cpu_points * self._samples.normal(count) if noise.cpu_points else 0.0
        )
        if noise.spikes_a_day:
            hit = self._samples.uniform(count) < noise.spikes_a_day * PERIOD_S / 86_400.0
            points = points + hit * noise.spike_points
        return np.asarray(busy + points, dtype=np.float64)

    def took_s(self, number: int) -> float:
        return self._clients.between(TOOK_S)

    def reconnect_s(self) -> float:
        return self._clients.between(RECONNECT_S)

    def split(self) -> None:
        self._bundles.grow(1)


@dataclass(slots=True)
class Wobble:
    """Each sample deviates by its own factor, within 1 ± `traffic_part` and 1 ± `cpu_part`; clients
    find a moved bundle at once.

    A draw depends only on the seed and the sample, not on earlier draws.
    """

    seed: int = 1
    traffic_part: float = 0.03
    cpu_part: float = 0.015
    _sample: int = -1

    def traffic(self, bundles: int) -> Floats:
        self._sample += 1
        return self._factors(bundles, self.traffic_part, 1)

    def reported(self, traffic: Floats) -> Floats:
        return np.round(traffic, 3)

    def cpu(self, busy: Floats) -> Floats:
        return busy * self._factors(len(busy), self.cpu_part, 2)

    def took_s(self, number: int) -> float:
        return int(1000 * Stream(self.seed, 3, max(self._sample, 0), number).between(TOOK_S)) / 1000

    def reconnect_s(self) -> float:
        return 0.0

    def split(self) -> None:
        """Does nothing: draws do not depend on the number of bundles."""

    def _factors(self, size: int, part: float, purpose: int) -> Floats:
        return 1.0 + part * (2.0 * Stream(self.seed, purpose, self._sample).uniform(size) - 1.0)


#: What is left to chance in a cluster that is drawn, and in the one of the demo.
Chance = Drifting | Wobble
