"""The `averaging` suite: averages of bundles, sums of brokers, percentages, the smoothed load, and
which of two bundles is heavier.

The live round needs none of the sums of a broker (`TimeAverageBrokerData.reset` of Pulsar 4.2.4),
the order by averages (`BundleData.compareTo`, whose steps are truncated) and the smoothed load of
the extensible load manager (`BrokerLoadData`), so all three are here. A broker that has not
measured itself yet looks completely full; its first sample counts alone, every later one with the
weight 1 − history. The smoothed load computes with doubles after the percentage; NaN never wins a
maximum; heap memory counts in the weighted one only.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np

from pulsar_rebalancer.lab.conformance.case_data import (
    BrokerData,
    BundleData,
    TrafficData,
    averages_of,
    settings_of,
    weights_of,
)
from pulsar_rebalancer.lab.conformance.vectors import Case, Played
from strategies.averages.bundle_averages import LONG_SAMPLES, SHORT_SAMPLES, advance
from strategies.bundles import (
    BYTES_PER_STEP,
    MESSAGES_PER_STEP,
    RATE_IN,
    RATE_OUT,
    THROUGHPUT_IN,
    THROUGHPUT_OUT,
    Floats,
    Ints,
    newest_order,
    truncated,
)
from strategies.cluster.model import Figures
from strategies.figures.usage import percent, unweighted_usage, weighted_usage
from strategies.settings import Setting, Weights


@dataclass(frozen=True, slots=True)
class SmoothingSettings:
    """How the extensible manager's averages follow the samples."""

    history: Annotated[
        float,
        Setting(
            "Weight of the past in a broker's smoothed load",
            pulsar="loadBalancerHistoryResourcePercentage",
            ge=0,
            le=1,
        ),
    ] = 0.9
    memory_weight: Annotated[
        float,
        Setting(
            "Weight of heap memory in a broker's load",
            pulsar="loadBalancerMemoryResourceWeight",
            ge=0,
            le=1000,
        ),
    ] = 0.0


_UNWEIGHTED = Weights(direct_memory=1.0)


@dataclass(frozen=True, slots=True)
class SmoothedLoad:
    """What is remembered. `maximum`: newest unweighted usage; `weighted`, `throughput`: averages
    (fraction, bytes/s in + out).
    """

    maximum: float = 1.0
    weighted: float = 1.0
    throughput: float = 0.0
    sampled: bool = False

    def after(
        self, figures: Figures, weights: Weights, settings: SmoothingSettings
    ) -> "SmoothedLoad":
        """The load after one more sample."""
        weighted, throughput = (
            extensible_weighted(figures, weights, settings.memory_weight),
            figures.traffic.msg_throughput,
        )
        # A double after the percentage: 90 % is 0.9, not 0.8999999761581421 as in the modular one.
        maximum = weighted_usage(figures, _UNWEIGHTED)
        if self.sampled:
            history = settings.history
            weighted = self.weighted * history + (1 - history) * weighted
            throughput = self.throughput * history + (1 - history) * throughput
        return SmoothedLoad(maximum, weighted, throughput, sampled=True)


def extensible_weighted(figures: Figures, weights: Weights, memory_weight: float) -> float:
    """Largest weighted resource as a fraction; unlike the modular manager's it has heap memory in
    it.
    """
    return max(weighted_usage(figures, weights), percent(figures.memory) * memory_weight / 100)


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
        load = SmoothedLoad() if sample.clear else load.after(sample.figures(), weights, settings)
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
    default: Sequence[float],
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
