"""TransferShedder's round exactly as Pulsar 4.2.4 runs it: one broker without data, or that shed
recently, stops the whole round.

Source of the rule: `TransferShedder.LoadStats` and `findBundlesForUnloading`. Memory: the number of
rounds in a row in which the condition held. Outdated brokers and brokers that are gone stay among
the candidates. The repaired rule is in `fixed`.
"""

import numpy as np

from strategies.cluster.model import BrokerLoad, ClusterView, Skip
from strategies.figures.usage import weighted_usages
from strategies.java.hash_order import concurrent_hash_map_order, double_keys
from strategies.settings import Weights
from strategies.shedding.candidates import java_candidates
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
from strategies.shedding.transfer.topk import java_top_bundles
from strategies.shedding.transfer.transfer_round import TransferShedder


def parity_transfer_shedder(settings: TransferSettings, weights: Weights) -> TransferShedder:
    """The rule exactly as in Java, brokers in order of first appearance; with averages per round
    where reports carry none.
    """
    return TransferShedder(
        settings,
        weights,
        _take_part,
        _average,
        judge_as_java,
        java_top_bundles,
        java_candidates,
        limits_clock=False,
    )


def _take_part(
    view: ClusterView, weights: Weights
) -> tuple[list[tuple[BrokerLoad, float]], list[Skip]]:
    usages = weighted_usages([broker.figures for broker in view.brokers], weights)
    return list(zip(view.brokers, usages.tolist(), strict=True)), []


def _average(old: float | None, value: float, weight: float, fresh: bool) -> float:
    """The average, advanced by every round."""
    return value if old is None else weight * old + (1 - weight) * value


def judge_as_java(
    stores: Stores, settings: TransferSettings, hits: int, fresh: bool = True
) -> TransferVerdict:
    """Judges one round, after `hits` rounds in a row in which the condition held. `fresh` is
    ignored, as in Java.
    """
    names = list(stores.brokers)
    walk = [names[index] for index in concurrent_hash_map_order(names).tolist()]
    found, skipped, over = _measure(walk, stores, settings)
    if skipped is not None:
        return TransferVerdict((), skipped, hits, Statistics(), None, over)
    keys = double_keys(np.array([stores.brokers[name].usage for name in walk], dtype=np.float64))
    ranked = [walk[index] for index in np.argsort(keys, kind="stable").tolist()]
    rules = LoopRules(
        repaired=False,
        since_3_3=settings.pulsar_version >= "3.3",
        counts_swaps=settings.debug,
        excludes_namespaces=settings.pulsar_version >= "4.0",
    )
    loop = Loop(stores, settings, rules, ranked, found)
    hits = hits + 1 if loop.reason() is not None else 0
    published = (found.average, found.std)
    if hits <= settings.hit_count:
        return TransferVerdict((), "HitCount", hits, found, published, over)
    loop.run()
    # Java keeps decisions in a set, so a bundle that is listed twice is decided once.
    moves = tuple(
        {
            (move.source, move.bundle, move.destination, move.reason): move for move in loop.moves
        }.values()
    )
    return TransferVerdict(
        moves, loop.skipped(), 0 if moves else hits, loop.statistics, published, over
    )


def _measure(
    walk: list[str], stores: Stores, settings: TransferSettings
) -> tuple[Statistics, TransferReason | None, frozenset[str]]:
    """Statistics of the usable entries, or why there are none; and the brokers that shed long
    enough ago.
    """
    usages: list[float] = []
    over: set[str] = set()
    outdated = False
    for name in walk:
        entry = stores.brokers[name]
        if stores.now_ms - entry.updated_at_ms > settings.ttl_s * 1000:
            outdated = True
            continue
        if name in stores.unloaded_at_ms:
            if entry.updated_at_ms - stores.unloaded_at_ms[name] < settings.delay_s * 1000:
                return Statistics(), "CoolDown", frozenset(over)
            over.add(name)
        usages.append(entry.usage)
    if not usages:
        return Statistics(), "OutDatedData" if outdated else "NoBrokers", frozenset(over)
    if not stores.brokers.keys() >= set(stores.available):
        return Statistics(), "NoLoadData", frozenset(over)
    return statistics(usages), None, frozenset(over)
