"""Back-tests: a strategy and its settings on a columnar recording, in an open or closed loop, as
timelines. Several run in parallel: a few share a process and read the recording together.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from pulsar_rebalancer.lab.backtest.columnar_fold_skipping_rounds import ColumnarFold, Quiet
from pulsar_rebalancer.lab.backtest.reassigned import NONE_IDLE, Idle, Reassigned
from pulsar_rebalancer.lab.processes import run_each
from pulsar_rebalancer.lab.report.page import shown_settings
from pulsar_rebalancer.lab.simulation.leader import placed_after
from pulsar_rebalancer.lab.simulation.timeline import Measured, Timeline, Tracer
from pulsar_rebalancer.lab.strategy_goal import Goal, goal_of
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.graceful_stop import rare_collections
from sinks.recordings.columnar import KINDS
from sinks.recordings.columnar_reading import Block, read_blocks
from sinks.recordings.json_lines import check_use
from sinks.wire.signing_keys import intents_key
from strategies.bundles import Floats, Ints
from strategies.cluster.model import Command, Event, Rejection, Round, Skip
from strategies.errors import SinkError
from strategies.figures.usage_after_moves import spread
from strategies.fold.engine import placement_of
from strategies.ordered_sum import ordered_sum

Loop = Literal["open", "closed"]
_SWEEP = KINDS.index("sweep")
OPEN_NOTES = (
    "Open loop: the reports are as recorded and do not react to moves. Rounds repeat their "
    "moves while the recorded imbalance lasts, so "
    "the counts of moves are counts of commands, not of bundles that would have moved.",
)
CLOSED_NOTES = (
    "Closed loop: the recorded load of each bundle follows its moves at once, with its share "
    "of the recorded broker's resources, as if "
    "equal traffic cost all brokers the same; caches, reconnecting clients and unequal "
    "machines are not modelled.",
    "Traffic is as recorded: the traffic that clients would have sent to a less busy broker "
    "is unknown.",
    "The recording contains moves of the cluster's own balancer, which apply to bundles that "
    "were not moved here.",
)


@dataclass(frozen=True, slots=True)
class BacktestJob:
    """Parameters of a back-test, small enough to send to another process. `since`/`until`: time
    range of the recording, in ms; `idle`: usage that no bundle takes along.
    """

    recording: Path
    title: str
    settings: Settings
    loop: Loop
    since_ms: int | None = None
    until_ms: int | None = None
    idle: Idle = NONE_IDLE


@dataclass(frozen=True, slots=True)
class BacktestResult:
    """One timeline per cluster, by name; number of invalid records; number of rounds that were
    skipped together.
    """

    timelines: tuple[Timeline, ...]
    rejected: int
    records: int
    passed_over: int


def run_together(jobs: Sequence[BacktestJob], *, leap: bool = True) -> Iterator[BacktestResult]:
    """Runs jobs on the same part of one recording, which is read once. Computes each answer on
    iteration. `leap`: as in `ColumnarFold`. Raises SinkError for a recording that cannot be read,
    SettingsError for a key of intents that cannot.
    """
    first, share = jobs[0], len(jobs) > 1
    assert all(
        (job.recording, job.since_ms, job.until_ms)
        == (first.recording, first.since_ms, first.until_ms)
        for job in jobs
    )
    runs = [_Run(job, leap) for job in jobs]
    key = intents_key(first.settings.connections.signing)
    with rare_collections():
        for block in _between(
            read_blocks(first.recording, with_traffic=share, intents_key=key),
            first.since_ms,
            first.until_ms,
        ):
            for one in runs:
                one.feed(block, keep=not share)
        while runs:
            yield runs.pop(0).answer()


class _Run:
    def __init__(self, job: BacktestJob, leap: bool) -> None:
        engine = job.settings.engine
        # The shedder of the recorded cluster is what a back-test replaces, not a rival.
        never = replace(engine.rivals, moves_per_hour=0)
        self._job, self._engine = job, replace(engine, rivals=never)
        self._goal: Goal = goal_of(self._engine)
        self._loop = ColumnarFold(self._engine, leap=leap)
        self._tracers: dict[str, Tracer] = {}
        # Cluster → bundle → broker.
        self._owners: dict[str, dict[str, str]] = {}
        self._counts: Counter[str] = Counter()

    def feed(self, block: Block, *, keep: bool) -> None:
        """Folds the next records. `keep`: blocks stay readable for averages that are computed
        later.
        """
        self._counts["records"] += len(block)
        if self._job.loop == "open":
            for happened in self._loop.fold([block]):
                self._note(happened, None, 0)
        else:
            self._closed(block)
        # Changed blocks are dropped as well.
        if self._owners or not keep:
            self._loop.absorb()

    def answer(self) -> BacktestResult:
        lines = tuple(tracer.timeline() for _, tracer in sorted(self._tracers.items()))
        return BacktestResult(
            lines,
            self._counts["rejected"] + self._loop.rejected,
            self._counts["records"],
            self._counts["passed"],
        )

    def _closed(self, block: Block) -> None:
        """Folds a block up to a round that moves bundles, then its rest with the bundles on their
        new brokers.
        """
        begin = 0
        while begin < len(block):
            if self._owners:
                block = block.loaded()
            rest = put = block.between(begin, len(block))
            for cluster, owners in self._owners.items():
                put = Reassigned(put, cluster, owners, self._job.idle).made()
            begin += self._until_moved(put, rest)

    def _until_moved(self, block: Block, recorded: Block) -> int:
        """Folds records up to a round with moves; returns their number."""
        done = 0
        for happened in self._loop.fold([block]):
            done = self._loop.folded
            if self._note(happened, recorded, done - 1):
                break
        return done

    def _note(self, happened: list[Event] | Quiet, recorded: Block | None, row: int) -> bool:
        """Adds events to the timeline; returns whether bundles moved. `recorded`: in a closed loop,
        the block without moves.
        """
        if isinstance(happened, Quiet):
            self._counts["passed"] += len(happened.times_ms)
            rows = _quiet_rows(happened, self._goal)
            self._tracer(happened.cluster).block(*rows, last=happened.skips[-1])
            return False
        self._counts["rejected"] += sum(isinstance(event, Rejection) for event in happened)
        commands = [event for event in happened if isinstance(event, Command) and event.is_move]
        for event in happened:
            if isinstance(event, Round):
                own = [
                    command
                    for command in commands
                    if command.round == event.round and command.cluster == event.cluster
                ]
                traffic, clients = dict[str, float](), dict[str, float]()
                if recorded is not None:
                    own, traffic, clients = self._moved(own, event, recorded, row)
                figures = self._measured(event)
                self._tracer(event.cluster).round(
                    event, own, self._goal.reached(event), figures, traffic, clients=clients
                )
        return bool(commands)

    def _moved(
        self, commands: list[Command], event: Round, recorded: Block, row: int
    ) -> tuple[list[Command], dict[str, float], dict[str, float]]:
        """Assigns bundles to their new brokers; returns commands with destinations, and the
        recorded traffic and clients of their bundles.
        """
        placed = [placed_after(command, event) for command in commands]
        if placed:
            owners = self._owners.setdefault(event.cluster, {})
            owners |= {one.bundle: one.destination for one in placed if one.destination is not None}
        there = Reassigned(recorded, event.cluster, {})
        seen = {one.bundle: there.reported(one.bundle, row) for one in placed}
        return (
            placed,
            {bundle: traffic for bundle, (traffic, _) in seen.items()},
            {bundle: clients for bundle, (_, clients) in seen.items()},
        )

    def _measured(self, record: Round) -> dict[str, Measured]:
        store = self._loop.store(record.cluster)
        found = {broker: store.get_broker(broker) for broker in record.usage}
        return {
            broker: Measured(state.figures.traffic.msg_rate, state.figures.traffic.msg_throughput)
            for broker, state in found.items()
            if state is not None
        }

    def _tracer(self, cluster: str) -> Tracer:
        if cluster not in self._tracers:
            closed = self._job.loop == "closed"
            self._tracers[cluster] = Tracer(
                Timeline(
                    title=self._job.title,
                    kind="re-assigned" if closed else "recorded",
                    strategy=f"{self._engine.strategy}/{self._engine.mode}",
                    placement=placement_of(self._engine)[0],
                    goal=self._goal.text,
                    interval_ms=self._engine.round.interval_ms,
                    settings=shown_settings(self._job.settings),
                    notes=CLOSED_NOTES if closed else OPEN_NOTES,
                )
            )
        return self._tracers[cluster]


def _quiet_rows(
    quiet: Quiet, goal: Goal
) -> tuple[str, Ints, tuple[str, ...], list[Floats], list[bool]]:
    rate, throughput = (
        quiet.traffic[..., 0] + quiet.traffic[..., 1],
        quiet.traffic[..., 2] + quiet.traffic[..., 3],
    )
    rounds = zip(
        quiet.times_ms.tolist(), quiet.usage.tolist(), throughput.tolist(), quiet.skips, strict=True
    )
    return (
        quiet.cluster,
        quiet.times_ms,
        quiet.brokers,
        [quiet.usage, rate, throughput, quiet.usage],
        [goal.reached(_as_round(quiet, *figures)) for figures in rounds],
    )


def _as_round(
    quiet: Quiet, ts: int, usage: list[float], throughput: list[float], skips: tuple[Skip, ...]
) -> Round:
    """A round with the fields that a goal reads."""
    figures = dict(zip(quiet.brokers, usage, strict=True))
    even, data = spread(usage), spread(throughput)
    return Round(
        quiet.cluster,
        0,
        0,
        ts,
        "sweep",
        "",
        quiet.brokers,
        {},
        figures,
        figures,
        even,
        even,
        data,
        (),
        skips,
        "",
        "",
    )


def _between(
    blocks: Iterable[Block], since_ms: int | None, until_ms: int | None
) -> Iterator[Block]:
    """The records of a time range, cut after sweeps."""
    for block in blocks:
        begin = 0 if since_ms is None else _cut(block, since_ms)
        end = len(block) if until_ms is None else _cut(block, until_ms)
        if begin < end:
            yield block.between(begin, end)
        if end < len(block):
            return


def _cut(block: Block, ts: int) -> int:
    """Row of the first record of the pass whose sweep is not before `ts`; without sweeps, of the
    first such record; else the end.
    """
    sweeps = np.flatnonzero(block.kinds == _SWEEP)
    if not len(sweeps):
        late = block.ts >= ts
        return int(late.argmax()) if late.any() else len(block)
    earlier = block.ts[sweeps] < ts
    if earlier.all():
        return len(block)
    return int(sweeps[earlier][-1]) + 1 if earlier.any() else 0


def check_rounds(recording: Path, answers: Sequence[BacktestResult]) -> None:
    """Raises SinkError for a recording without rounds."""
    check_use(str(recording), answers[0].records, answers[0].rejected)
    if not any(line.rounds for answer in answers for line in answer.timelines):
        raise SinkError(
            f"{recording}: no round closed in its {answers[0].records} records; record for "
            "longer, some minutes at least."
        )


T = TypeVar("T")
#: Maximum number of runs per process: reading takes longer than one run, but each run of a month
#: keeps 300 MiB.
_TOGETHER = 3


def run_all(
    jobs: Sequence[BacktestJob],
    say: Callable[[str], None],
    keep: Callable[[BacktestResult], T],
    workers: int | None = None,
) -> list[T]:
    """The results of `keep`, which is called on each answer in its process. All jobs are on the
    same part of one recording.

    Runs one process per core. Raises what `run_together` raises.
    """
    processes, done = workers or os.cpu_count() or 1, count(1)
    groups = list(_groups(len(jobs), processes))

    def report(place: int, answers: list[tuple[str, T]]) -> None:
        for said, _ in answers:
            say(f"{next(done)} of {len(jobs)}: {said}" if len(jobs) > 1 else said)

    kept = run_each(
        [partial(_together, [jobs[place] for place in group], keep) for group in groups],
        processes,
        report,
    )
    by_place = {
        place: one
        for group, ones in zip(groups, kept, strict=True)
        for place, (_, one) in zip(group, ones, strict=True)
    }
    return [by_place[place] for place in range(len(jobs))]


def whole(answer: BacktestResult) -> BacktestResult:
    """Keeps all of an answer."""
    return answer


def _groups(jobs: int, processes: int) -> Iterator[range]:
    """Places of jobs in groups, which keep all processes busy and are not too large for one."""
    rounds = -(-jobs // (processes * _TOGETHER))
    groups = min(jobs, processes * rounds)
    return (range(first, jobs, groups) for first in range(groups))


def _together(
    jobs: Sequence[BacktestJob], keep: Callable[[BacktestResult], T]
) -> list[tuple[str, T]]:
    return [
        (_said(job, answer), keep(answer))
        for job, answer in zip(jobs, run_together(jobs), strict=True)
    ]


def _said(job: BacktestJob, answer: BacktestResult) -> str:
    rounds = ordered_sum(line.rounds for line in answer.timelines)
    return f"{job.title}: {rounds} rounds of {answer.records} records"
