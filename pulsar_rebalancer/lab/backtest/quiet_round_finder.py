"""Finds rounds without a decision: on whole columns if the strategy has a screen for it, otherwise
by running the strategy.

The strategy runs without the tables of bundles, because building them takes nearly all of the time.
A decision names a bundle, and only tables contain the names, so a round that reads no table decides
nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sinks.recordings.columnar import KINDS
from sinks.recordings.columnar_reading import Block, figures_of
from strategies.bundles import Bools, Floats, Ints
from strategies.cluster.cluster_state import BrokerState, ClusterState
from strategies.cluster.model import Skip, Sweep
from strategies.cluster.strategy_memory import NO_MEMORY, Memory
from strategies.figures.usage import usages_of
from strategies.fold.engine import EngineSettings, placement_of, rules_of
from strategies.placement.registry import PLACERS
from strategies.round.compared_resources import RESOURCES
from strategies.round.round import assess_cluster
from strategies.round.round_input_and_digest import RoundInput
from strategies.settings import Weights
from strategies.shedding.contract import RoundColumns

#: Columns of usage and limit of CPU, direct memory, bandwidth in and out among the figures.
_USED, _LIMIT = [0, 4, 6, 8], [1, 5, 7, 9]
#: Columns of traffic in and out, and of the number of bundles.
_MSG_RATE, _THROUGHPUT, _BUNDLES = [10, 11], [12, 13], 14


@dataclass(frozen=True)
class SettledCluster:
    """A cluster right after a round, with nothing in progress. `brokers`: by name; `sampled_…`: the
    newest sample of each.
    """

    cluster: str
    state: ClusterState
    brokers: tuple[BrokerState, ...]
    memory: Memory
    sampled_at: Ints
    sampled_round: Ints


@dataclass(frozen=True)
class Rounds:
    """Consecutive rounds. `figures`: float64[rounds, brokers, 18]; `ts`: of the reports; `fresh`:
    whether each is a new sample.
    """

    now_ms: Ints
    ts: Ints
    figures: Floats
    fresh: Bools


@dataclass(frozen=True)
class QuietRounds:
    """The first `count` rounds decide nothing; their usage float64[rounds, brokers], skips (none
    from the screens of some strategies), and memory after them.
    """

    count: int
    usage: Floats
    skips: tuple[tuple[Skip, ...], ...]
    memory: Memory


class _TableWanted(Exception):
    """The strategy reads a table, so the round may decide something."""


class QuietRoundFinder:
    """Finds the rounds of a cluster that decide nothing. Has no state except settings."""

    def __init__(self, settings: EngineSettings) -> None:
        """Raises SettingsError for invalid settings."""
        self._settings, self._rules = settings, rules_of(settings)
        self._shedder, placement = settings.shedder(), PLACERS.get(placement_of(settings)[0])
        on_columns = settings.mode == "fixed" and not (placement and placement.remembers)
        quiet = settings.entry.quiet if on_columns else None
        self._screen = quiet(settings.chosen) if quiet is not None else None
        #: For a broker above this usage, a round advises on its hottest bundle, which only the
        #: engine can do.
        self._advised = (
            settings.throttling.above_percent / 100
            if settings.throttling.advise and self._rules.by_mode.advises
            else np.inf
        )
        #: Splits read every table, and columns do not show brokers that are left out.
        self.possible = not (settings.splitting.enabled or settings.limits.excluded_brokers)

    def find(self, before: SettledCluster, rounds: Rounds) -> QuietRounds:
        """Finds the longest start of the rounds that decides nothing."""
        used, limit = rounds.figures[..., _USED], rounds.figures[..., _LIMIT]
        same = np.ones(len(used), dtype=bool)
        if self._rules.by_mode.compares_measured:
            same, limit = self._compared(before, used, limit)
        usage = usages_of(used, limit, self._settings.weights)
        good = (np.isfinite(usage) & (usage <= self._advised)).all(axis=1)
        count = leading(np.asarray(good & same))
        if self._screen is None:
            return self._by_running(before, rounds, usage[:count])
        skips, memory = self._screen(
            _columns(before, rounds, usage[:count], limit[..., 0]), before.memory
        )
        return QuietRounds(len(skips), usage[: len(skips)], tuple(skips), memory)

    def _compared(
        self, before: SettledCluster, used: Floats, limit: Floats
    ) -> tuple[Bools, Floats]:
        """Whether each round compares its brokers by the resources of the rounds before, and the
        limits that it compares by.
        """
        names, known = [one.broker for one in before.brokers], before.memory.cluster
        limit = self._rules.capacities.limits(names, used, limit)
        same, limit = _same_resources(known.left_out, limit, self._settings.weights)
        return same & (not known.others_measured), limit

    def _by_running(self, before: SettledCluster, rounds: Rounds, usage: Floats) -> QuietRounds:
        states, skips = _States(before), list[tuple[Skip, ...]]()
        for number in range(len(usage)):
            state = ClusterState(
                round=before.state.round + number,
                cooling=before.state.cooling,
                memory=states.memory.cluster,
                policies=before.state.policies,
            )
            given = RoundInput(
                before.cluster,
                state,
                int(rounds.now_ms[number]),
                "sweep",
                states.after(rounds, number),
                _no_table,
            )
            try:
                shedding = assess_cluster(given, self._shedder, self._rules).shedding
            except _TableWanted:
                break
            assert not shedding.decisions
            states.memory = Memory(
                shedding.memory.brokers, replace(shedding.memory.cluster, split_hits={})
            )
            skips.append(shedding.skips)
        return QuietRounds(len(skips), usage[: len(skips)], tuple(skips), states.memory)


def _columns(
    before: SettledCluster, rounds: Rounds, usage: Floats, cpu_limit: Floats
) -> RoundColumns:
    """The rounds of which `usage` holds the usages, as input of a strategy's screen."""
    part = slice(0, len(usage))
    ts, fresh, figures = rounds.ts[part], rounds.fresh[part], rounds.figures[part]
    sampled_at = np.maximum.accumulate(np.where(fresh, ts, before.sampled_at))
    return RoundColumns(
        before.cluster,
        [one.broker for one in before.brokers],
        rounds.now_ms[part],
        ts,
        usage,
        figures[..., _THROUGHPUT].sum(axis=2),
        figures[..., _MSG_RATE].sum(axis=2),
        figures[..., _BUNDLES],
        fresh,
        sampled_at <= np.array([one.judged_after_ms for one in before.brokers]),
        cpu_limit[part],
    )


class _States:
    """The brokers round by round, in order of first appearance, with the fields that a round reads
    without tables.
    """

    def __init__(self, before: SettledCluster) -> None:
        self.memory = before.memory
        self._brokers = sorted(enumerate(before.brokers), key=lambda one: one[1].order)
        self._round = before.state.round
        self._sampled_at, self._sampled_round = (
            before.sampled_at.tolist(),
            before.sampled_round.tolist(),
        )

    def after(self, rounds: Rounds, number: int) -> tuple[BrokerState, ...]:
        """The brokers after the reports of a round; call it in the order of rounds."""
        ts, round_ = rounds.ts[number].tolist(), self._round + number + 1
        for column in np.flatnonzero(rounds.fresh[number]).tolist():
            self._sampled_at[column], self._sampled_round[column] = ts[column], round_
        figures, remembered = figures_of(rounds.figures[number]), self.memory.brokers
        return tuple(
            BrokerState(
                one.broker,
                one.order,
                ts[column],
                round_,
                ts[column],
                self._sampled_at[column],
                self._sampled_round[column],
                one.judged_after_ms,
                "",
                "",
                figures[column],
                remembered.get(one.broker, NO_MEMORY),
            )
            for column, one in self._brokers
        )


def leading(good: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """Number of true values before the first false one."""
    return len(good) if good.all() else int(good.argmin())


def _no_table(broker: str) -> bytes:
    raise _TableWanted(broker)


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


def _same_resources(
    left_out: Sequence[str], limit: Floats, weights: Weights
) -> tuple[Bools, Floats]:
    """For columns float64[rounds, brokers, 4] (as in `usages_of`): bool[rounds], whether a round
    compares its brokers by all resources that count except `left_out`, and all of them; the limits
    without these.
    """
    counts = np.array([getattr(weights, name) > 0 for name in RESOURCES])
    measured = limit > 0
    missing = counts & ~measured.all(axis=1)
    expected = np.array([name in left_out for name in RESOURCES])
    same: Bools = np.all(np.equal(missing, expected), axis=1)
    if counts.any():
        some = np.any(measured[..., counts], axis=2)
        same &= np.any(counts & ~missing, axis=1) & np.all(some, axis=1)
    return same, np.where(missing[:, np.newaxis, :], 0.0, limit)
