"""The fold over a columnar recording. Decides what the plain loop decides, but skips the single
reports of quiet rounds.

Consecutive rounds that change only figures, and in which the strategy certainly decides nothing,
are skipped together. The state after them is computed when the next other round needs it, and
equals the state of the engine bit for bit (tests/lab/test_columnar_fold.py).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from pulsar_rebalancer.lab.backtest.bulk_averages import BulkAverages
from pulsar_rebalancer.lab.backtest.calm_sweeps import is_calm, learn_calm_sweeps
from pulsar_rebalancer.lab.backtest.quiet_round_finder import (
    SWEEP,
    Known,
    QuietRoundFinder,
    Regular,
    Rounds,
    SettledCluster,
    regular_rounds,
)
from sinks.recordings.columnar_reading import Block, ReadTraffic, counts_of
from strategies.averages.bundle_averages import BundleHistory, unpack_history
from strategies.bundles import Floats, Ints
from strategies.cluster.cluster_state import BrokerState, Clock, ClusterState, InMemoryStore
from strategies.cluster.model import Event, Figures, Skip, Sweep
from strategies.cluster.remembered_intents import NO_INTENTS
from strategies.cluster.strategy_memory import NO_MEMORY, Memory
from strategies.fold.engine import Engine, EngineSettings

#: Maximum number of rounds that are examined together.
_FURTHEST = 4096


@dataclass(frozen=True)
class Quiet:
    """Rounds without a decision. `usage`: float64[rounds, brokers]; `traffic`: float64[rounds,
    brokers, 4].

    `skips`: those of the strategy per round, if it ran.
    """

    cluster: str
    times_ms: Ints
    brokers: tuple[str, ...]
    usage: Floats
    traffic: Floats
    skips: tuple[tuple[Skip, ...], ...]


@dataclass(frozen=True)
class _SkippedPart:
    """A skipped part of a block, with what the averages of its bundles need."""

    read_traffic: ReadTraffic
    rows: Ints
    fresh: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
    first_round: int


class ColumnarFold:
    """Folds blocks of any number of clusters; holds their state. Raises SettingsError for unknown
    settings.
    """

    def __init__(self, settings: EngineSettings, *, leap: bool = True) -> None:
        """`leap`: skip quiet rounds together. Without it, every record goes through the engine,
        with the same decisions.
        """
        self._settings, self._engine = settings, Engine(settings)
        self._stores: defaultdict[str, InMemoryStore] = defaultdict(InMemoryStore)
        finder = QuietRoundFinder(settings)
        self._finder = finder if leap and finder.possible else None
        self._ahead: _SkippedRounds | None = None
        #: Number of rounds that are examined together: it grows after quiet rounds, so that little
        #: work is wasted.
        self._reach = 1
        #: Rejected records of all blocks; number of records folded so far, of the current block.
        self.rejected = self.folded = 0

    def fold(self, blocks: Iterable[Block]) -> Iterator[list[Event] | Quiet]:
        """Yields, in order, events of the engine or skipped rounds."""
        for block in blocks:
            row = 0
            while row < len(block):
                passed = self._pass_over(block, row) if self._finder is not None else None
                if passed is not None:
                    row, quiet = passed
                    self.folded = row
                    yield quiet
                    continue
                end = _after_sweep(block, row)
                self.settle()
                events = [event for at in range(row, end) for event in self._record(block, at)]
                row = self.folded = end
                yield events

    def store(self, cluster: str) -> InMemoryStore:
        """The state of a cluster, equal to that of the engine."""
        self.settle()
        return self._stores[cluster]

    def _record(self, block: Block, row: int) -> list[Event]:
        record = block.record(row)
        if record is None:
            self.rejected += 1
            return []
        return self._engine.fold(record, self._stores[record.cluster])

    def _pass_over(self, block: Block, row: int) -> tuple[int, Quiet] | None:
        if len(self._stores) != 1:
            return None
        if self._ahead is None:
            ((cluster, store),) = self._stores.items()
            self._ahead = _SkippedRounds.start(cluster, store)
        if self._ahead is None or self._finder is None:
            return None
        regular = regular_rounds(block, row, self._reach, self._ahead.known, self._settings)
        if regular is None:
            return None
        rounds = Rounds(
            regular.now_ms,
            block.ts[regular.rows],
            np.asarray(block.figures[regular.rows]),
            regular.fresh,
        )
        found = self._finder.find(self._ahead.settled, rounds)
        self._reach = min(2 * self._reach, _FURTHEST) if found.count == len(regular) else 1
        if not found.count:
            return None
        self._ahead = self._ahead.after(block, regular, found.count, found.memory)
        known, part = self._ahead.known, slice(0, found.count)
        quiet = Quiet(
            known.cluster,
            regular.now_ms[part],
            known.names,
            found.usage,
            rounds.figures[part, :, 10:14],
            found.skips,
        )
        return int(regular.ends[found.count - 1]) + 1, quiet

    def absorb(self) -> None:
        """Computes the averages of skipped rounds, after which the caller may drop their blocks."""
        if self._ahead is not None:
            self._ahead = self._ahead.absorbed(self._stores[self._ahead.known.cluster])

    def settle(self) -> None:
        """Computes the state after skipped rounds; reads the bundles that this needs."""
        if self._ahead is not None:
            self._ahead.write(self._stores[self._ahead.known.cluster])
            self._ahead = None


@dataclass(frozen=True)
class _SkippedRounds:
    """Progress of skipped rounds, for a store that has the state before them."""

    known: Known
    settled: SettledCluster
    passed: tuple[_SkippedPart, ...] = ()
    averages: BulkAverages | None = None
    newest: tuple[Figures, ...] = ()
    counts: tuple[str, ...] = ()

    @classmethod
    def start(cls, cluster: str, store: InMemoryStore) -> "_SkippedRounds | None":
        """None unless a round has just closed, no command is open and every broker's newest report
        is complete.
        """
        state = store.get_cluster()
        brokers = tuple(sorted(store.brokers(), key=lambda one: one.broker))
        busy = (
            state.early is not None
            or state.in_flight
            or state.departed
            or state.intents != NO_INTENTS
            or not is_calm(state.rivals, state.round_at_ms)
            or state.gained
            or state.reported
            or state.clock is None
        )
        if (
            busy
            or len(brokers) < 2
            or state.clock is None
            or state.clock.run_from_ms is not None
            or state.sweep_at_ms < 0
        ):
            return None
        if any(not _whole(one) for one in brokers) or state.round_at_ms != state.clock.now_ms:
            return None
        tables = [store.get_table(one.broker) for one in brokers]
        if any(table is None for table in tables):
            return None
        known = Known(
            cluster,
            tuple(one.broker for one in brokers),
            tuple(
                "\n".join(unpack_history(table).newest.names)
                for table in tables
                if table is not None
            ),
            state.clock.now_ms,
            state.sweep_at_ms,
            np.array([one.reported_at_ms for one in brokers]),
            np.array([int(one.digest, 16) for one in brokers], dtype=np.uint64),
        )
        memory = Memory(
            {one.broker: one.memory for one in brokers if one.memory != NO_MEMORY}, state.memory
        )
        sampled = (
            np.array([one.sampled_at_ms for one in brokers]),
            np.array([one.sampled_round for one in brokers]),
        )
        return cls(known, SettledCluster(cluster, state, brokers, memory, *sampled))

    def after(self, block: Block, regular: Regular, count: int, memory: Memory) -> "_SkippedRounds":
        """The progress after `count` regular rounds of a block."""
        rows, fresh, ts = (
            regular.rows[:count],
            regular.fresh[:count],
            block.ts[regular.rows[:count]],
        )
        last = np.where(fresh.any(axis=0), count - 1 - fresh[::-1].argmax(axis=0), -1)
        old = self.settled
        sampled_at = np.where(last < 0, old.sampled_at, ts[last, np.arange(ts.shape[1])])
        sampled_round = np.where(last < 0, old.sampled_round, old.state.round + 1 + last)
        known = replace(
            self.known,
            now_ms=int(regular.now_ms[count - 1]),
            sweep_at_ms=int(regular.sweeps_ms[count - 1]),
            reported_at=ts[-1],
            digests=block.digests[rows[-1]],
        )
        # The newest *sample* of a table: a repeated report adds nothing, not even its topics.
        sampled_rows = [
            int(rows[at, column]) if at >= 0 else -1 for column, at in enumerate(last.tolist())
        ]
        texts = self.counts or ("",) * len(sampled_rows)
        counts = tuple(
            block.texts["bundle_counts"][block.counts[at]] if at >= 0 else text
            for at, text in zip(sampled_rows, texts, strict=True)
        )
        newest = tuple(block.figures_of(int(row)) for row in rows[-1])
        part = _SkippedPart(block.read_traffic, rows, fresh, old.state.round + 1)
        return replace(
            self,
            known=known,
            settled=replace(
                old,
                state=self._state_after(block, regular, count),
                memory=memory,
                sampled_at=sampled_at,
                sampled_round=sampled_round,
            ),
            passed=(*self.passed, part),
            newest=newest,
            counts=counts,
        )

    def _state_after(self, block: Block, regular: Regular, count: int) -> ClusterState:
        """The state of the cluster with what the sweeps of the rounds say about rivals."""
        state, last = self.settled.state, block.record(int(regular.ends[count - 1]))
        assert isinstance(last, Sweep)
        times = regular.sweeps_ms[:count].tolist()
        rivals = learn_calm_sweeps(state.rivals, self.known.sweep_at_ms, times, last)
        return replace(state, rivals=rivals, round=state.round + count)

    def absorbed(self, store: InMemoryStore) -> "_SkippedRounds":
        """The progress with up-to-date averages of bundles, which are built from the store's tables
        and advanced in place.
        """
        if not self.passed:
            return self
        averages = self.averages or BulkAverages(self._histories(store))
        for part, traffic, starts in _read_ahead(self.passed):
            _advance(averages, part, traffic, starts)
        return replace(self, averages=averages, passed=())

    def _histories(self, store: InMemoryStore) -> list[BundleHistory]:
        return [
            unpack_history(table)
            for one in self.settled.brokers
            if (table := store.get_table(one.broker)) is not None
        ]

    def write(self, store: InMemoryStore) -> None:
        """Writes the state after the skipped rounds to the store."""
        settled, averages = self.settled, self.absorbed(store).averages
        if averages is None:
            return
        histories = self._histories(store)
        names = [history.newest.names for history in histories]
        counts = [
            counts_of(text) if text else (history.newest.topics, history.newest.sessions)
            for text, history in zip(self.counts, histories, strict=True)
        ]
        for column, (one, history) in enumerate(
            zip(settled.brokers, averages.histories(names, counts), strict=True)
        ):
            store.put_table(one.broker, history.pack())
            digest = f"{int(self.known.digests[column]):016x}"
            at = int(self.known.reported_at[column])
            store.put_broker(
                replace(
                    one,
                    reported_at_ms=at,
                    reported_round=settled.state.round,
                    bundles_at_ms=at,
                    sampled_at_ms=int(settled.sampled_at[column]),
                    sampled_round=int(settled.sampled_round[column]),
                    digest=digest,
                    bundles_digest=digest,
                    figures=self.newest[column],
                    memory=settled.memory.brokers.get(one.broker, NO_MEMORY),
                    table=history.summary(),
                )
            )
        known = self.known
        store.put_cluster(
            replace(
                settled.state,
                clock=Clock(known.now_ms),
                round_at_ms=known.now_ms,
                sweep_at_ms=known.sweep_at_ms,
                missing={},
                live=len(known.names),
                reported=0,
                memory=settled.memory.cluster,
            )
        )


def _whole(one: BrokerState) -> bool:
    """Whether figures and bundles are from one report (modular load manager) and no open move may
    change them.
    """
    return (
        one.digest == one.bundles_digest
        and one.reported_at_ms == one.bundles_at_ms >= 0
        and one.sampled_at_ms > one.judged_after_ms
    )


def _advance(averages: BulkAverages, part: _SkippedPart, traffic: Floats, starts: Ints) -> None:
    for number, (rows, fresh) in enumerate(zip(part.rows, part.fresh, strict=True)):
        first, last = int(rows[0]), int(rows[-1])
        if last - first == len(rows) - 1 and bool((np.diff(rows) == 1).all()):
            figures = traffic[starts[first] : starts[last + 1]]
        else:
            figures = np.concatenate(
                [traffic[starts[row] : starts[row + 1]] for row in rows.tolist()]
            )
        averages.sample(figures, fresh.tolist(), part.first_round + number)


def _read_ahead(parts: tuple[_SkippedPart, ...]) -> Iterator[tuple[_SkippedPart, Floats, Ints]]:
    """Yields each part with its traffic. Reads each block once, the next one in advance, and keeps
    none.
    """
    blocks = [list(group) for _, group in groupby(parts, key=lambda part: id(part.read_traffic))]
    with ThreadPoolExecutor(1) as ahead:
        coming = ahead.submit(blocks[0][0].read_traffic)
        for index, group in enumerate(blocks):
            traffic, starts = coming.result()
            if index + 1 < len(blocks):
                coming = ahead.submit(blocks[index + 1][0].read_traffic)
            for part in group:
                yield part, traffic, starts


def _after_sweep(block: Block, row: int) -> int:
    """Row of the record after the next sweep, or the end of the block."""
    ends = np.flatnonzero(block.kinds[row:] == SWEEP)
    return row + int(ends[0]) + 1 if len(ends) else len(block)
