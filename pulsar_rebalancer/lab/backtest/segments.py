"""Divides a block into the rounds of a collector: one report per broker, then the sweep that ends
the pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pulsar_rebalancer.lab.backtest.quiet_round_finder import leading
from sinks.recordings.columnar import KINDS
from sinks.recordings.columnar_reading import Block
from strategies.bundles.bundle_loads import Bools, Ints
from strategies.cluster.model import Sweep
from strategies.fold.engine import EngineSettings

REPORT, SWEEP = KINDS.index("report"), KINDS.index("sweep")


@dataclass(frozen=True)
class Known:
    """The fold's state of brokers right after a round, a column per broker by name; see
    `BrokerState`.
    """

    cluster: str
    names: tuple[str, ...]
    bundles: tuple[str, ...]
    now_ms: int
    sweep_at_ms: int
    reported_at: Ints
    digests: np.ndarray[tuple[int], np.dtype[np.uint64]]


@dataclass(frozen=True)
class Regular:
    """Consecutive rounds that change only figures. `rows`: int64[rounds, brokers], records of the
    block; `ends`: their sweeps.
    """

    rows: Ints
    ends: Ints
    sweeps_ms: Ints
    now_ms: Ints
    fresh: Bools

    def __len__(self) -> int:
        return len(self.ends)


def regular_rounds(
    block: Block, begin: int, most: int, known: Known, settings: EngineSettings
) -> Regular | None:
    """The regular rounds from record `begin` on, at most `most`; None if there are none.

    In a regular round, exactly the known brokers report, once each, newer than before, with the
    same bundles; the sweep lists all and misses none; no clock jumps, no broker is stale, and no
    round closes before its sweep. The engine folds all other rounds.
    """
    brokers = len(known.names)
    ends = begin + np.flatnonzero(block.kinds[begin:] == SWEEP)[:most]
    if not len(ends) or block.texts["cluster"] != (known.cluster,):
        return None
    starts = np.concatenate(([begin], ends[:-1] + 1)).astype(np.int64)
    count = leading(ends - starts == brokers)
    if count == 0:
        return None
    rows = starts[:count, None] + np.arange(brokers)
    place = {name: column for column, name in enumerate(known.names)}
    columns = np.array([place.get(name, -1) for name in block.texts["broker"]] + [-1])[
        block.brokers[rows]
    ]
    order = np.argsort(columns, axis=1, kind="stable")
    rows = np.take_along_axis(rows, order, axis=1)
    text = {bundles: code for code, bundles in enumerate(block.texts["bundles"])}
    same = (block.kinds[rows] == REPORT) & (
        np.take_along_axis(columns, order, axis=1) == np.arange(brokers)
    )
    same &= block.bundles[rows] == np.array([text.get(bundles, -2) for bundles in known.bundles])
    count = leading(same.all(axis=1) & ~np.isnan(block.figures[rows, 0]).any(axis=1))
    count, sweeps = _swept(block, ends[:count], known)
    return _timely(block, rows[:count], (ends[:count], sweeps), known, settings)


def _swept(block: Block, ends: Ints, known: Known) -> tuple[int, Ints]:
    """Number of rounds that end with a sweep of all brokers, and the times of these sweeps."""
    names, times = frozenset(known.names), list[int]()
    for end in ends.tolist():
        sweep = block.record(end)
        if not isinstance(sweep, Sweep) or sweep.missing or frozenset(sweep.brokers) != names:
            break
        times.append(sweep.ts)
    return len(times), np.array(times, dtype=np.int64)


def _timely(
    block: Block, rows: Ints, passes: tuple[Ints, Ints], known: Known, settings: EngineSettings
) -> Regular | None:
    if not len(rows):
        return None
    ends, sweeps = passes
    rule, ts = settings.round, block.ts[rows]
    newest = np.maximum.accumulate(np.maximum(ts.max(axis=1), known.now_ms))
    now = np.maximum.accumulate(np.maximum(newest, sweeps))
    before = np.concatenate(([known.now_ms], now[:-1]))
    swept_before = np.concatenate(([known.sweep_at_ms], sweeps[:-1]))
    reports = np.maximum(ts.max(axis=1), before)
    earlier = np.vstack((known.reported_at[None, :], ts[:-1]))
    good = (ts > earlier).all(axis=1) & (sweeps > swept_before)
    good &= (np.maximum(reports, sweeps) - before <= rule.max_clock_jump_ms) & (
        now - ts.min(axis=1) <= rule.max_clock_jump_ms
    )
    good &= now - sweeps <= rule.max_clock_jump_ms
    good &= (now - before) * 4 >= rule.interval_ms * 3
    good &= (reports - before < rule.interval_ms + rule.lateness_ms) & (
        reports - swept_before <= 2 * rule.interval_ms
    )
    good &= now - ts.min(axis=1) <= rule.stale_after_ms
    count = leading(good)
    if count == 0:
        return None
    digests = block.digests[rows[:count]]
    fresh = digests != np.vstack((known.digests[None, :], digests[:-1]))
    return Regular(rows[:count], ends[:count], sweeps[:count], now[:count], fresh)
