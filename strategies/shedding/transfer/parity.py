"""TransferShedder's round exactly as Pulsar 4.2.4 runs it: one broker without data or that gave a short while ago stops all of them.

Source of the rule: `TransferShedder.LoadStats` and `findBundlesForUnloading`. What it remembers: how many rounds in a row the condition
held. Outdated brokers and those that are gone stay among the candidates. The repaired rule is in `transfer`.
"""

from __future__ import annotations

import numpy as np

from strategies.java.hash_order import concurrent_hash_map_order, double_keys
from strategies.shedding.transfer.loop import Loop
from strategies.shedding.transfer.settings import Reason, Statistics, Stores, TransferSettings, Verdict, statistics


def judge_as_java(stores: Stores, settings: TransferSettings, hits: int) -> Verdict:
    """One round, after `hits` rounds in a row in which the condition held."""
    names = list(stores.brokers)
    walk = [names[index] for index in concurrent_hash_map_order(names).tolist()]
    found, skipped, over = _measure(walk, stores, settings)
    if skipped is not None:
        return Verdict((), skipped, hits, Statistics(), None, over)
    keys = double_keys(np.array([stores.brokers[name].usage for name in walk], dtype=np.float64))
    ranked = [walk[index] for index in np.argsort(keys, kind="stable").tolist()]
    loop = Loop(stores, settings, "parity", ranked, found)
    hits = hits + 1 if loop.reason() is not None else 0
    published = (found.average, found.std)
    if hits <= settings.hit_count:
        return Verdict((), "HitCount", hits, found, published, over)
    loop.run()
    # Java keeps decisions in a set, so a bundle that is listed twice is decided once.
    moves = tuple({(move.source, move.bundle, move.destination, move.reason): move for move in loop.moves}.values())
    return Verdict(moves, loop.skipped(), 0 if moves else hits, loop.statistics, published, over)


def _measure(walk: list[str], stores: Stores, settings: TransferSettings) -> tuple[Statistics, Reason | None, frozenset[str]]:
    """Statistics of the usable entries, or why there are none; and the brokers whose unloading is long enough ago."""
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
    return statistics(usages, "parity"), None, frozenset(over)
