"""TransferShedder's round with its known defects repaired: it leaves out brokers without valid
figures and balances the others.

Source of the rule: `org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder` of
Pulsar 4.2.4; what is repaired, and why, is in docs/decisions. Memory: the number of rounds in a row
in which the condition held. `parity` is the rule exactly as in Java.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite, sqrt

import numpy as np

from strategies.cluster.model import BrokerLoad, ClusterView, Skip
from strategies.figures.usage import usages_by_name
from strategies.ordered_sum import ordered_sum
from strategies.settings import Weights
from strategies.shedding.candidates import candidates
from strategies.shedding.reason_texts import comparable
from strategies.shedding.transfer.exchange_loop import (
    Loop,
    LoopRules,
    Statistics,
    Stores,
    TransferReason,
    TransferVerdict,
    statistics,
)
from strategies.shedding.transfer.settings import TransferSettings
from strategies.shedding.transfer.topk import top_bundles
from strategies.shedding.transfer.transfer_round import TransferShedder


def transfer_shedder(settings: TransferSettings, weights: Weights) -> TransferShedder:
    """The repaired rule. The order of brokers and bundles in the view does not matter."""
    return TransferShedder(
        settings,
        weights,
        _take_part,
        _average,
        judge_repaired,
        top_bundles,
        candidates,
        limits_clock=True,
    )


def _take_part(
    view: ClusterView, weights: Weights
) -> tuple[list[tuple[BrokerLoad, float]], list[Skip]]:
    brokers, usages = usages_by_name(view.brokers, weights)
    throughput = np.array([broker.figures.traffic.msg_throughput for broker in brokers])
    at, skips = comparable(brokers, np.where(np.isfinite(throughput), usages, np.nan))
    judged = [brokers[position] for position in at.tolist()]
    return list(zip(judged, usages[at].tolist(), strict=True)), skips


def _average(old: float | None, value: float, weight: float, fresh: bool) -> float:
    """The average, advanced by new samples only."""
    if old is None or not isfinite(old):
        return value
    return weight * old + (1 - weight) * value if fresh else old


def judge_repaired(
    stores: Stores, settings: TransferSettings, hits: int, fresh: bool = True
) -> TransferVerdict:
    """Judges one round, after `hits` rounds in which the condition held. Without a fresh figure,
    the condition is not counted again.
    """
    left_out = {
        name: why
        for name in sorted(stores.brokers)
        if (why := _unjudged(name, stores, settings)) is not None
    }
    names = [name for name in sorted(stores.brokers) if name not in left_out]
    over = frozenset(name for name in names if name in stores.unloaded_at_ms)
    if len(names) < 2:
        reasons = list(left_out.values())
        return TransferVerdict(
            (), reasons[0] if reasons else "NoBrokers", hits, Statistics(), None, over, left_out
        )
    found = _statistics([stores.brokers[name].usage for name in names])
    ranked = sorted(
        names, key=lambda name: (stores.brokers[name].usage, stores.brokers[name].throughput, name)
    )
    loop = Loop(stores, settings, LoopRules(), ranked, found)
    hits = 0 if loop.reason() is None else hits + fresh
    published = (found.average, found.std)
    if hits <= settings.hit_count:
        return TransferVerdict((), "HitCount", hits, found, published, over, left_out)
    loop.run()
    return TransferVerdict(
        tuple(loop.moves),
        loop.skipped(),
        0 if loop.moves else hits,
        loop.statistics,
        published,
        over,
        left_out,
    )


def _statistics(usages: Sequence[float]) -> Statistics:
    """Mean and deviation, computed without Java's difference of two large numbers, which loses
    digits.
    """
    found = statistics(usages)
    return replace(
        found,
        std=sqrt(
            ordered_sum((usage - found.average) * (usage - found.average) for usage in usages)
            / len(usages)
        ),
    )


def _unjudged(name: str, stores: Stores, settings: TransferSettings) -> TransferReason | None:
    entry = stores.brokers[name]
    if (
        not isfinite(entry.usage)
        or not isfinite(entry.throughput)
        or not isfinite(entry.throughput_average)
    ):
        return "NoLoadData"
    if stores.now_ms - entry.updated_at_ms > settings.ttl_s * 1000:
        return "OutDatedData"
    unloaded_at_ms = stores.unloaded_at_ms.get(name)
    if (
        unloaded_at_ms is not None
        and entry.updated_at_ms - unloaded_at_ms < settings.delay_s * 1000
    ):
        return "CoolDown"
    return None
