"""The `averaging` suite: averages of bundles, sums of brokers, percentages, the smoothed load, and
which of two bundles is heavier.

The live round needs neither the sums of a broker (`TimeAverageBrokerData.reset` of Pulsar 4.2.4)
nor the order by averages (`BundleData.compareTo`, whose steps are truncated), so both are here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from rebalancer.conformance.broker_conf import settings_of, weights_of
from rebalancer.conformance.data_maps import BrokerData, BundleData, TrafficData, averages_of
from rebalancer.conformance.smoothed_load import SmoothedLoad, SmoothingSettings
from rebalancer.conformance.vectors import Case, Played
from strategies.averages.bundle_averages import LONG_SAMPLES, SHORT_SAMPLES, advance
from strategies.averages.bundle_order import (
    BYTES_PER_STEP,
    MESSAGES_PER_STEP,
    newest_order,
    truncated,
)
from strategies.bundles.bundle_loads import (
    RATE_IN,
    RATE_OUT,
    THROUGHPUT_IN,
    THROUGHPUT_OUT,
    Floats,
    Ints,
)
from strategies.usage import percent, unweighted_usage, weighted_usage

#: Messages/s and bytes/s that Pulsar assumes of a bundle without figures (columns as in every
#: traffic table).
DEFAULT_TRAFFIC = (50.0, 50.0, 50_000.0, 50_000.0)


class StatsData(TrafficData, frozen=True, rename="camel"):
    """Newest figures of a bundle."""

    topics: int = 0
    consumer_count: int = 0
    producer_count: int = 0
    cache_size: int = 0


class _Bundle(msgspec.Struct, frozen=True, rename="camel"):
    samples: list[StatsData]
    short_samples: int = SHORT_SAMPLES
    long_samples: int = LONG_SAMPLES
    default: TrafficData = TrafficData()


class _SummedBroker(msgspec.Struct, frozen=True, rename="camel"):
    bundles: list[str]
    bundle_data: dict[str, BundleData]
    default: TrafficData


class _Usage(msgspec.Struct, frozen=True):
    brokers: list[BrokerData]


class _Sample(BrokerData, frozen=True, rename="camel"):
    clear: bool = False


class _Samples(msgspec.Struct, frozen=True):
    samples: list[_Sample]


class _Pairs(msgspec.Struct, frozen=True):
    pairs: list[tuple[StatsData, StatsData]]


def averaged(answer: Callable[[Case], dict[str, Any]], case: Case) -> Played:
    """Feeds one data class. `answer` turns a case into what the class says. Raises SettingsError
    for a case of another form.
    """
    with np.errstate(all="ignore"):
        yield case.envelope.expect, answer(case)


def bundle_averages(case: Case) -> dict[str, Any]:
    """The averages of a bundle after each sample."""
    given = case.read(_Bundle)
    caps = np.array([given.short_samples, given.long_samples])
    averages, counts = np.array([given.default.columns()] * 2), np.zeros(2, dtype=np.int64)
    states = []
    for sample in given.samples:
        averages, counts = advance(averages, counts, caps, np.array(sample.columns()))
        states.append(
            {
                "shortTerm": _average(averages[0], counts[0]),
                "longTerm": _average(averages[1], counts[1]),
                "topics": sample.topics,
            }
        )
    long = averages[1]
    return {
        "states": states,
        "totalMsgRate": float(long[RATE_IN] + long[RATE_OUT]),
        "totalMsgThroughput": float(long[THROUGHPUT_IN] + long[THROUGHPUT_OUT]),
    }


def broker_sums(case: Case) -> dict[str, Any]:
    """What the bundles of a broker carry together."""
    given = case.read(_SummedBroker)
    rows = {name: averages_of(data) for name, data in given.bundle_data.items()}
    averages = {name: np.array([*row.short, *row.long]) for name, row in rows.items()}
    sums = summed_averages(given.bundles, averages, given.default.columns()).tolist()
    return {
        f"{term}{figure}": sums[4 * offset + column]
        for offset, term in enumerate(("shortTerm", "longTerm"))
        for figure, column in (
            ("MsgThroughputIn", THROUGHPUT_IN),
            ("MsgThroughputOut", THROUGHPUT_OUT),
            ("MsgRateIn", RATE_IN),
            ("MsgRateOut", RATE_OUT),
        )
    }


def usages(case: Case) -> dict[str, Any]:
    """Percentages and both maxima of brokers."""
    weights, answers = weights_of(case.envelope.conf), []
    for broker in case.read(_Usage).brokers:
        figures = broker.figures()
        answers.append(
            {
                "cpu": percent(figures.cpu),
                "memory": percent(figures.memory),
                "directMemory": percent(figures.direct_memory),
                "bandwidthIn": percent(figures.bandwidth_in),
                "bandwidthOut": percent(figures.bandwidth_out),
                "maxResourceUsage": unweighted_usage(figures),
                "maxResourceUsageWithWeight": weighted_usage(figures, weights),
            }
        )
    return {"brokers": answers}


def smoothed_load(case: Case) -> dict[str, Any]:
    """The extensible manager's averages after each sample."""
    conf, load, states = case.envelope.conf, SmoothedLoad(), []
    weights, settings = weights_of(conf), settings_of(SmoothingSettings, conf)
    for sample in case.read(_Samples).samples:
        load = (
            SmoothedLoad()
            if sample.clear
            else load.after(sample.figures(), weights, settings, "parity")
        )
        states.append(
            {
                "maxResourceUsage": float(load.maximum),
                "weightedMaxEMA": float(load.weighted),
                "msgThroughputEMA": float(load.throughput),
            }
        )
    return {"states": states}


def signs(case: Case) -> dict[str, Any]:
    """Which of two bundles is heavier by newest figures, and which by averages that hold the same
    figures.
    """
    compared = []
    for pair in case.read(_Pairs).pairs:
        traffic, clients, cache = stats_columns(pair)
        newest, averages = newest_order(traffic, clients, cache), averages_order(traffic, traffic)
        compared.append([sign(newest[0], newest[1]), sign(averages[0], averages[1])])
    return {"signs": compared}


def summed_averages(
    bundles: Sequence[str],
    averages: Mapping[str, Floats],
    default: Sequence[float] = DEFAULT_TRAFFIC,
) -> Floats:
    """float64[8]: short-term, then long-term messages/s and bytes/s of all `bundles` together.

    `averages` maps a bundle to float64[8], short before long. Bundles are added one by one in the
    given order, which decides the last bits.
    """
    unknown = np.array([*default, *default], dtype=np.float64)
    rows = [np.zeros(8), *(averages.get(bundle, unknown) for bundle in bundles)]
    with np.errstate(all="ignore"):
        running: Floats = np.array(rows).cumsum(axis=0)
    total: Floats = running[-1]
    return total


def averages_order(short: Floats, long: Floats) -> Ints:
    """int64[n, 6] for the short and long averages of bundles, float64[n, 4] each."""
    return np.hstack((_average_order(short), _average_order(long)))


def sign(first: Ints, second: Ints) -> int:
    """−1, 0 or 1: how the first row of keys compares with the second."""
    one, other = tuple(map(int, first)), tuple(map(int, second))
    return (one > other) - (one < other)


def stats_columns(stats: tuple[StatsData, ...]) -> tuple[Floats, Ints, Ints]:
    """float64[n, 4] traffic, int64[n] topics + consumers + producers, int64[n] cached bytes."""
    return (
        np.array([row.columns() for row in stats], dtype=np.float64).reshape(-1, 4),
        np.array(
            [row.topics + row.consumer_count + row.producer_count for row in stats], dtype=np.int64
        ),
        np.array([row.cache_size for row in stats], dtype=np.int64),
    )


def _average(columns: Floats, samples: np.int64) -> dict[str, Any]:
    return {
        "numSamples": int(samples),
        "msgThroughputIn": float(columns[THROUGHPUT_IN]),
        "msgThroughputOut": float(columns[THROUGHPUT_OUT]),
        "msgRateIn": float(columns[RATE_IN]),
        "msgRateOut": float(columns[RATE_OUT]),
    }


def _average_order(average: Floats) -> Ints:
    with np.errstate(all="ignore"):
        columns = (
            truncated(average[:, THROUGHPUT_IN] / BYTES_PER_STEP),
            truncated(average[:, THROUGHPUT_OUT] / BYTES_PER_STEP),
            truncated((average[:, RATE_IN] + average[:, RATE_OUT]) / MESSAGES_PER_STEP),
        )
    return np.stack(columns, axis=1)
