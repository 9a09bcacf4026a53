"""TransferShedder's round with its known defects repaired: brokers that cannot be judged are left out, the others go on.

Source of the rule: `org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder` of Pulsar 4.2.4; what is repaired, and
why, is in docs/decisions. What it remembers: how many rounds in a row the condition held. The rule to the letter is in `transfer_parity`.
"""

from __future__ import annotations

from math import isfinite

from strategies.shedding.transfer.loop import Loop
from strategies.shedding.transfer.settings import Reason, Statistics, Stores, TransferSettings, Verdict, statistics


def judge(stores: Stores, settings: TransferSettings, hits: int, *, fresh: bool = True) -> Verdict:
    """One round, after `hits` rounds in which the condition held. Without a fresh figure the condition is not counted again."""
    left_out = {name: why for name in sorted(stores.brokers) if (why := _unjudged(name, stores, settings)) is not None}
    names = [name for name in sorted(stores.brokers) if name not in left_out]
    over = frozenset(name for name in names if name in stores.unloaded_at_ms)
    if len(names) < 2:
        reasons = list(left_out.values())
        return Verdict((), reasons[0] if reasons else "NoBrokers", hits, Statistics(), None, over, left_out)
    found = statistics([stores.brokers[name].usage for name in names], "fixed")
    ranked = sorted(names, key=lambda name: (stores.brokers[name].usage, stores.brokers[name].throughput, name))
    loop = Loop(stores, settings, "fixed", ranked, found)
    hits = 0 if loop.reason() is None else hits + fresh
    published = (found.average, found.std)
    if hits <= settings.hit_count:
        return Verdict((), "HitCount", hits, found, published, over, left_out)
    loop.run()
    return Verdict(tuple(loop.moves), loop.skipped(), 0 if loop.moves else hits, loop.statistics, published, over, left_out)


def _unjudged(name: str, stores: Stores, settings: TransferSettings) -> Reason | None:
    entry = stores.brokers[name]
    if not isfinite(entry.usage) or not isfinite(entry.throughput) or not isfinite(entry.throughput_average):
        return "NoLoadData"
    if name not in stores.available:
        return "NoBrokers"
    if stores.now_ms - entry.updated_at_ms > settings.ttl_s * 1000:
        return "OutDatedData"
    unloaded_at_ms = stores.unloaded_at_ms.get(name)
    if unloaded_at_ms is not None and entry.updated_at_ms - unloaded_at_ms < settings.delay_s * 1000:
        return "CoolDown"
    return None
