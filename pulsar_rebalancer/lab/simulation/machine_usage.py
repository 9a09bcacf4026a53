"""The brokers of a drawn cluster as columns: capacity of their machines, what traffic uses of it,
the ceiling of CPU, presence.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pulsar_rebalancer.lab.simulation.dispatch_limits.limiters import BrokerRates, DispatchRate
from pulsar_rebalancer.lab.simulation.noise import Stream
from pulsar_rebalancer.lab.simulation.scenarios.schema import Brokers, Machine, Scenario
from pulsar_rebalancer.lab.simulation.scenarios.wave_noise_limit_schema import Rate
from strategies.bundles import Floats
from strategies.cluster.model import Figures, Resource, Traffic

MIB = 1024.0 * 1024.0
BITS_PER_KBIT = 1000.0
#: Percent of a machine; the columns of a fleet are in percent of the whole machine.
FULL = 100.0
_PORT = 8080


@dataclass(frozen=True, eq=False)
class Fleet:
    """All brokers of a scenario; float64[brokers] each. `idle`: percent of the machine; `joins_s`:
    time at which they join.

    `per_message`, `per_byte`: percent of the machine for a message/s or byte/s in or out.
    `dispatch`: the rates of their broker.conf. `ceiling`: percent of CPU at which a broker sends
    less than its consumers request.
    """

    names: tuple[str, ...]
    cores: Floats
    idle: Floats
    per_message: Floats
    per_byte: Floats
    network_kbit: Floats
    direct_limit: Floats
    direct_idle: Floats
    direct_per_byte: Floats
    dispatch: tuple[BrokerRates, ...]
    joins_s: Floats
    ceiling: float = FULL

    def cpu(self, messages: Floats, data: Floats) -> Floats:
        """float64[brokers]: percent of the machine, without the ceiling of 100."""
        return self.idle + self.per_message * messages + self.per_byte * data

    def sent(self, carried: Floats, foreign: Floats) -> Floats:
        """float64[brokers]: the part of its traffic (float64[4, brokers]) that a broker sends, less
        than 1 at its ceiling. `foreign`: percent of CPU that something else uses.
        """
        room = np.maximum(self.ceiling - foreign, 1.0)
        demand = self.cpu(carried[0] + carried[1], carried[2] + carried[3])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.minimum(1.0, np.where(demand > room, room / demand, 1.0))

    def usage(self, totals: Floats, costly: Floats) -> Floats:
        """float64[brokers]: the largest of CPU and network as a fraction, for totals float64[4,
        brokers]. `costly`: the traffic that CPU is used for.
        """
        cpu = np.minimum(self.cpu(costly[0] + costly[1], costly[2] + costly[3]), 100.0) / 100.0
        network = np.maximum(totals[2], totals[3]) * 8 / BITS_PER_KBIT / self.network_kbit
        return np.asarray(np.maximum(cpu, np.minimum(network, 1.0)), dtype=np.float64)

    def figures(self, row: int, cpu_percent: float, totals: Floats, bundles: int) -> Figures:
        """The figures that broker `row` reports; `totals`: float64[4]."""
        traffic = Traffic(*totals.tolist())
        cores = float(self.cores[row])
        network, direct = float(self.network_kbit[row]), float(self.direct_limit[row])
        used = (
            float(self.direct_idle[row]) + float(self.direct_per_byte[row]) * traffic.msg_throughput
        )
        return Figures(
            cpu=Resource(min(FULL, max(0.0, cpu_percent)) * cores, FULL * cores),
            memory=Resource(1400.0, 4096.0),
            direct_memory=Resource(min(direct, used), direct),
            bandwidth_in=Resource(
                min(network, traffic.msg_throughput_in * 8 / BITS_PER_KBIT), network
            ),
            bandwidth_out=Resource(
                min(network, traffic.msg_throughput_out * 8 / BITS_PER_KBIT), network
            ),
            traffic=traffic,
            bundle_count=bundles,
        )


def fleet_of(scenario: Scenario, stream: Stream) -> Fleet:
    """The brokers of a scenario; lasting differences between brokers of one kind are drawn from
    `stream`.
    """
    machines: list[Machine] = []
    joins: list[float] = []
    dispatch: list[BrokerRates] = []
    for group in scenario.brokers:
        count = len(group.names) or group.count
        machines += [scenario.machines[group.machine]] * count
        joins += [60.0 * (group.joins or 0.0)] * count
        dispatch += [_rates_of(group)] * count
    names = [f"{name}:{_PORT}" for name in scenario.broker_names]
    return fleet_from(
        names,
        machines,
        bias=1.0 + scenario.noise.cpu_bias * stream.normal(len(machines)),
        dispatch=dispatch,
        joins_s=np.array(joins, dtype=np.float64),
    )


def fleet_from(
    names: Sequence[str],
    machines: Sequence[Machine],
    *,
    bias: Floats | float = 1.0,
    dispatch: Sequence[BrokerRates] = (),
    joins_s: Floats | None = None,
    ceiling: float = FULL,
) -> Fleet:
    """One broker per machine. `bias`: factor by which traffic costs more on it than on its kind of
    machine.
    """

    def column(name: str, scale: float = 1.0) -> Floats:
        return np.array([getattr(machine, name) * scale for machine in machines], dtype=np.float64)

    cores = column("cores")
    return Fleet(
        names=tuple(names),
        cores=cores,
        idle=column("cpu_idle"),
        per_message=column("cpu_per_kmsg", 1e-3) / cores * bias,
        per_byte=column("cpu_per_mib", 1 / MIB) / cores * bias,
        network_kbit=column("network_gbit", 1e6),
        direct_limit=column("direct_memory_mib"),
        direct_idle=column("direct_memory_idle"),
        direct_per_byte=column("direct_memory_per_mib", 1 / MIB),
        dispatch=tuple(dispatch),
        joins_s=np.zeros(len(machines)) if joins_s is None else joins_s,
        ceiling=ceiling,
    )


def rate_of(rate: Rate | None) -> DispatchRate:
    """A limit of a scenario as Pulsar's DispatchRate; no limit is 0."""
    return (
        DispatchRate()
        if rate is None
        else DispatchRate(
            rate.messages or 0, int((rate.mib or 0) * MIB), rate.period_s, rate.relative
        )
    )


def _rates_of(group: Brokers) -> BrokerRates:
    stated = group.dispatch
    broker, topic, subscription = (
        rate_of(stated.broker),
        rate_of(stated.topic),
        rate_of(stated.subscription),
    )
    return BrokerRates(
        messages=broker.messages,
        bytes=broker.bytes if group.dispatch_mib is None else int(group.dispatch_mib * MIB),
        topic_messages=topic.messages,
        topic_bytes=topic.bytes,
        subscription_messages=subscription.messages,
        subscription_bytes=subscription.bytes,
    )
