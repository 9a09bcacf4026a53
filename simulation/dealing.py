"""Who serves what when a scenario begins."""

from __future__ import annotations

import numpy as np

from simulation.fleet import Fleet
from simulation.noise import Stream
from simulation.scenarios.form import Start
from strategies.bundle_loads import Floats, Ints


def deal(start: Start, traffic: Floats, fleet: Fleet, stream: Stream) -> Ints:
    """int64[bundles]: the broker of each; `traffic`: float64[4 or more, bundles]. Only brokers that are there at minute 0 get any."""
    there = np.flatnonzero(fleet.joins_s == 0)
    count = traffic.shape[1]
    if start.deal == "random":
        return np.asarray(there[(stream.uniform(count) * len(there)).astype(np.int64)], dtype=np.int64)
    if start.deal == "even":
        order = np.argsort(stream.uniform(count), kind="stable")
        owner = np.empty(count, dtype=np.int64)
        owner[order] = there[np.arange(count) % len(there)]
        return owner
    return _as_told(start, traffic, fleet, there)


def _as_told(start: Start, traffic: Floats, fleet: Fleet, there: Ints) -> Ints:
    """The largest bundle first, always to the broker that is furthest below what it should carry."""
    shares = np.array(start.shares, dtype=np.float64)
    messages, data = traffic[0] + traffic[1], traffic[2] + traffic[3]
    if start.deal == "traffic":
        size, wanted = data, shares / shares.sum() * data.sum()
    else:
        message, byte = fleet.per_message[there], fleet.per_byte[there]
        size = messages * message.mean() + data * byte.mean()
        # What each should carry over its idle usage, in the currency of an average broker, scaled so that all traffic finds a place.
        carried = np.maximum(shares - fleet.idle[there], 0.0) * (message.mean() + byte.mean()) / (message + byte)
        wanted = carried / carried.sum() * size.sum()
    missing = wanted.copy()
    owner = np.empty(len(size), dtype=np.int64)
    for row in np.argsort(-size, kind="stable").tolist():
        target = int(missing.argmax())
        missing[target] -= size[row]
        owner[row] = there[target]
    return owner
