"""The fixed parts of a modelled cluster: machines, bundles and their ordinary traffic, noise, the clock it starts at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rebalancer.simulation.chance import wobble
from strategies.bundles.bundle_loads import Floats, Ints
from strategies.model import Figures, Resource, Traffic

MIB = 1024.0 * 1024.0
BITS_PER_KBIT = 1000.0


@dataclass(frozen=True, slots=True)
class Hardware:
    """Capacity of one machine and what traffic costs on it.

    CPU in percent of one core (800 = eight cores), memory in MiB, network in kbit/s per direction. `cpu_per_message` is charged for
    every message/s in and out, `cpu_per_byte` for every byte/s in and out; `direct_memory_per_byte` is MiB per byte/s.
    The defaults are a round-figure machine that is busy at about 280 MB/s of 1 KiB messages in + out; they imitate no particular one.
    """

    cpu_limit: float = 800.0
    cpu_idle: float = 16.0
    cpu_per_message: float = 0.002
    cpu_per_byte: float = 5e-7
    memory_limit: float = 4096.0
    memory_used: float = 1400.0
    direct_memory_limit: float = 8192.0
    direct_memory_idle: float = 256.0
    direct_memory_per_byte: float = 4e-6
    network_limit: float = 10_000_000.0

    def cpu(self, messages: float, data: float) -> float:
        """Percent of one core that `messages`/s and `data` bytes/s cost; never more than the machine has."""
        return min(self.cpu_limit, self.cpu_idle + self.cpu_per_message * messages + self.cpu_per_byte * data)

    def figures(self, traffic: Traffic, bundle_count: int, cpu_factor: float = 1.0) -> Figures:
        """What a broker on this machine says about itself under `traffic`."""
        busy = self.cpu(traffic.msg_rate, traffic.msg_throughput) * cpu_factor
        direct = self.direct_memory_idle + self.direct_memory_per_byte * traffic.msg_throughput
        return Figures(
            cpu=Resource(min(self.cpu_limit, busy), self.cpu_limit),
            memory=Resource(self.memory_used, self.memory_limit),
            direct_memory=Resource(min(self.direct_memory_limit, direct), self.direct_memory_limit),
            bandwidth_in=Resource(self._kbit(traffic.msg_throughput_in), self.network_limit),
            bandwidth_out=Resource(self._kbit(traffic.msg_throughput_out), self.network_limit),
            traffic=traffic,
            bundle_count=bundle_count,
        )

    def _kbit(self, bytes_per_second: float) -> float:
        return min(self.network_limit, bytes_per_second * 8 / BITS_PER_KBIT)


@dataclass(frozen=True, slots=True)
class BrokerModel:
    """A broker (`host:port`) and the machine it runs on."""

    name: str
    hardware: Hardware = Hardware()


@dataclass(frozen=True, slots=True)
class BundleModel:
    """A bundle and its ordinary traffic: messages/s in, bytes per message, how often each message is read, who is connected."""

    name: str
    msg_rate_in: float
    message_bytes: float = 1024.0
    fan_out: float = 1.0
    topics: int = 4
    producers: int = 4
    consumers: int = 4

    def traffic(self) -> tuple[float, float, float, float]:
        """Messages/s in and out, bytes/s in and out."""
        rate_out = self.msg_rate_in * self.fan_out
        return self.msg_rate_in, rate_out, self.msg_rate_in * self.message_bytes, rate_out * self.message_bytes


@dataclass(frozen=True, slots=True)
class Noise:
    """How far measured figures wander around the truth, as a fraction in both directions."""

    traffic: float = 0.03
    cpu: float = 0.015


@dataclass(frozen=True)
class ClusterModel:
    """Everything about a cluster that a move does not change. `start_ms`: when its virtual clock starts."""

    cluster: str
    brokers: tuple[BrokerModel, ...]
    bundles: tuple[BundleModel, ...]
    seed: int = 1
    noise: Noise = Noise()
    start_ms: int = 1_767_225_600_000
    version: str = "4.2.4"

    def base_traffic(self) -> Floats:
        """float64[bundles, 4]: ordinary traffic, columns as in `strategies.model`."""
        return np.array([bundle.traffic() for bundle in self.bundles], dtype=np.float64).reshape(-1, 4)

    def traffic_at(self, base: Floats, period: int) -> Floats:
        """float64[bundles, 4]: traffic measured in statistics period `period`; in and out of a bundle wander together."""
        factors = wobble(len(self.bundles), self.noise.traffic, self.seed, 1, period)
        return np.round(base * factors[:, None], 3)

    def cpu_factors(self, period: int) -> Floats:
        """float64[brokers]: how far each broker's CPU figure of this period is from the truth."""
        return wobble(len(self.brokers), self.noise.cpu, self.seed, 2, period)

    def sessions(self) -> Ints:
        """int64[bundles]: consumers + producers."""
        return np.array([bundle.consumers + bundle.producers for bundle in self.bundles], dtype=np.int64)

    def topics(self) -> Ints:
        """int64[bundles]."""
        return np.array([bundle.topics for bundle in self.bundles], dtype=np.int64)
