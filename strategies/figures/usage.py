"""The usage of a broker: Pulsar's figures, including its 32-bit intermediate results.

Source of the rule: `ResourceUsage.percentUsage` and `LocalBrokerData.getMaxResourceUsageWithWeight`
of Pulsar 4.2.4. A percentage is computed in float32 (30 of 100 reads as 30.000002), the weighted
maximum in float64. A limit of 0 or below reads as 0 % used, and NaN never wins the maximum.
"""

from collections.abc import Sequence
from ctypes import c_float
from math import inf, isnan, nan

import numpy as np
import numpy.typing as npt

from strategies.bundles import Floats
from strategies.cluster.model import BrokerLoad, Figures, Resource
from strategies.settings import Weights


def percent(resource: Resource) -> float:
    """Percent used, 0–100 and above, exactly as in Java's float arithmetic; 0 without a limit."""
    if not resource.limit > 0:
        return 0.0
    # Dividing two float32 in double and rounding to float32 gives the exact float32 quotient,
    # because 53 bits are more than twice 24.
    return c_float(
        c_float(_divide(c_float(resource.usage).value, c_float(resource.limit).value)).value * 100.0
    ).value


def weighted_usage(figures: Figures, weights: Weights) -> float:
    """Largest weighted resource of a broker as a fraction (1.0 = 100 %); −∞ when every weighted
    figure is NaN.
    """
    highest = -inf
    for value in (
        percent(figures.cpu) * weights.cpu,
        percent(figures.direct_memory) * weights.direct_memory,
        percent(figures.bandwidth_in) * weights.bandwidth_in,
        percent(figures.bandwidth_out) * weights.bandwidth_out,
    ):
        highest = max(highest, value)
    return highest / 100


def unweighted_usage(figures: Figures) -> float:
    """Largest resource of a broker as a fraction, the maximum and the division in float32 (90 % is
    0.8999999761581421).
    """
    highest = -inf
    for value in map(
        percent, (figures.cpu, figures.direct_memory, figures.bandwidth_in, figures.bandwidth_out)
    ):
        highest = max(highest, value)
    return c_float(highest / 100).value


def weighted_usages(figures: Sequence[Figures], weights: Weights) -> Floats:
    """float64[n]: `weighted_usage` of many brokers at once, the same bits."""
    cells = (
        cell
        for f in figures
        for cell in (
            f.cpu.usage,
            f.direct_memory.usage,
            f.bandwidth_in.usage,
            f.bandwidth_out.usage,
            f.cpu.limit,
            f.direct_memory.limit,
            f.bandwidth_in.limit,
            f.bandwidth_out.limit,
        )
    )
    # Directly into one array: for thousands of brokers, intermediate tuples and lists would take
    # longer than the arithmetic.
    used, limit = np.fromiter(cells, np.float64, 8 * len(figures)).reshape(-1, 2, 4).swapaxes(0, 1)
    return usages_of(used, limit, weights)


def usages_of(used: Floats, limit: Floats, weights: Weights) -> Floats:
    """`weighted_usages` of arrays float64[…, 4]: CPU, direct memory, bandwidth in and out."""
    factors = np.array(
        [weights.cpu, weights.direct_memory, weights.bandwidth_in, weights.bandwidth_out],
        dtype=np.float64,
    )
    highest = np.full(used.shape[:-1], -inf)
    with np.errstate(all="ignore"):
        weighted = _percents(used, limit).astype(np.float64) * factors
        for column in np.moveaxis(weighted, -1, 0):
            highest = np.where(column > highest, column, highest)
        return highest / 100


def usages_by_name(
    brokers: Sequence[BrokerLoad], weights: Weights
) -> tuple[list[BrokerLoad], Floats]:
    """The brokers by name, and float64[n]: `weighted_usage` of each.

    Figures are read in the given order, which most likely is their order in memory; reading
    thousands by name would be slower.
    """
    names = [broker.broker for broker in brokers]
    order = sorted(range(len(names)), key=names.__getitem__)
    usages = weighted_usages([broker.figures for broker in brokers], weights)
    return [brokers[index] for index in order], usages[order]


def _percents(used: Floats, limit: Floats) -> npt.NDArray[np.float32]:
    share = used.astype(np.float32) / limit.astype(np.float32)
    return np.where(limit > 0, share, np.float32(0)) * np.float32(100)


def _divide(dividend: float, divisor: float) -> float:
    """IEEE division; the divisor is positive or a positive number that float32 rounded to zero."""
    if divisor:
        return dividend / divisor
    return nan if isnan(dividend) or dividend == 0 else dividend * inf
