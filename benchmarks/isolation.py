"""`python -m benchmarks.isolation`: what 98 clusters of one job notice of three sick ones: one at
50 times its load, one whose every record is as large and as deep as records may be, and one whose
every round raises.

The real job runs on file topics, in real time: each cluster with its 10 brokers is read every 20 s,
which is the collector's default, and has a round each time (by default, one a minute). Clusters
take turns, so that something always arrives: 55 records a second. A minute without the sick
clusters is followed by two minutes with them and one without them. Counted is the time from the
sweep that ends a cluster's pass, once it is on the disk, to its round on the topic. How much of the
machine the job uses is printed, too: where that is near 100 % without the sick ones, the ratio says
nothing.

In the end the commands of the others must have the bytes of a plain loop that never saw the sick
ones.
"""

import argparse
import json
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from benchmarks.figures import say, table
from benchmarks.fleet import CLUSTER, Fleet
from benchmarks.options import number, options
from benchmarks.processes import cpu_seconds
from pulsar_rebalancer.lab.plain_loop import PlainLoop
from pulsar_rebalancer.settings.merge_sources import load
from sinks.topics.files.topic import FileTopicReader, FileTopicWriter, Offset
from sinks.wire.record_decoding import Position

if TYPE_CHECKING:
    from strategies.fold.engine import EngineSettings
    from tools.processes.real_job import RealJob

#: The sick clusters.
FLOODED, LIMITS, RAISES = SICK = ("flooded", "limits", "raises")
_MINUTE_MS = 1_795_000_020_000
_TICK_S, _LOOK_S = 0.05, 0.02
_WARM_PASSES = 2
_TS = re.compile(rb'"ts":\d+')
_NAMED = f'"cluster":"{CLUSTER}"'.encode()
_DEEP = b"[" * 390 + b"]" * 390
_TIMEOUT_S = 120.0
_RAISING = (
    "shedding.strategy=raising",
    f"shedding.raising.raises_for={RAISES}",
    f"shedding.raising.until_ms={2 * _MINUTE_MS}",
)


Phase = Literal["warm-up", "alone", "disturbed", "after"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What runs. `clusters`: the others; `sick`: of SICK; `pass_s`: time between two passes;
    `passes`: half of those without the sick ones, and of those with them; `load`: of FLOODED, as a
    multiple of the others'; `limit_bytes`: of each record of LIMITS.
    """

    clusters: int = 98
    sick: Sequence[str] = SICK
    brokers: int = 10
    bundles: int = 20
    pass_s: int = 20
    passes: int = 3
    load: int = 50
    limit_bytes: int = 8 * 2**20 - 4096

    def ts(self, at_s: float) -> int:
        """Time of a record, ms since the epoch; the first phase begins with a minute, as a
        quota does.
        """
        return _MINUTE_MS - 1_000 * _WARM_PASSES * self.pass_s + int(1_000 * at_s)

    def phases(self) -> list[Phase]:
        """One for each pass. What the sick ones leave behind is not counted: the pass after
        them.
        """
        lasting: tuple[tuple[Phase, int], ...] = (
            ("warm-up", _WARM_PASSES),
            ("alone", self.passes),
            ("disturbed", 2 * self.passes),
            ("after", 1),
            ("alone", self.passes),
        )
        return [phase for phase, passes in lasting for _ in range(passes)]


@dataclass(frozen=True, slots=True)
class Due:
    """A record, and when it is sent, in seconds after the beginning."""

    at_s: float
    cluster: str
    value: bytes
    ends_pass: bool = False


@dataclass(frozen=True, slots=True)
class Waits:
    """ms from a pass's end to its round, for the clusters that do not disturb, and the job's part
    of the machine's CPU time.
    """

    rounds: int
    p50: float
    p99: float
    cpu_percent: float


@dataclass(frozen=True, slots=True)
class Isolation:
    """The phases without the sick ones, and with them. `set_aside`: rounds of the sick ones that
    say so.
    """

    alone: Waits
    disturbed: Waits
    commands: int
    set_aside: int

    @property
    def ratio(self) -> float:
        """How much longer the others wait."""
        return self.disturbed.p99 / self.alone.p99


@dataclass(slots=True)
class _Watch:
    """Notes when passes end, when their rounds are there, and the job's CPU time when a pass
    begins.
    """

    reader: FileTopicReader
    at: Offset | None = None
    ended_s: dict[tuple[str, int], float] = field(default_factory=dict)
    seen_s: dict[tuple[str, int], float] = field(default_factory=dict)
    cpu_s: list[float] = field(default_factory=list)

    def look(self) -> None:
        """Reads the rounds that have come."""
        records, self.at = self.reader.read(self.at)
        now = time.perf_counter()
        for record in records:
            told = json.loads(record.value)
            self.seen_s.setdefault((told["cluster"], told["ts"]), now)

    @property
    def done(self) -> bool:
        """Whether every pass has its round."""
        return self.ended_s.keys() <= self.seen_s.keys()

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Looks in a thread: writing a large record must not delay what is measured."""
        end = threading.Event()

        def look() -> None:
            while not end.wait(_LOOK_S):
                self.look()

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a table and the ratio on standard output."""
    chosen = vars(_options().parse_args(arguments))
    as_json = chosen.pop("json")
    found = measured(Plan(**chosen))
    if as_json:
        print(json.dumps({"v": 1, **asdict(found), "ratio": found.ratio}))
    else:
        print(text(found))


def text(found: Isolation) -> str:
    """For people."""
    rows = [
        {
            "": name,
            "rounds": some.rounds,
            "p50 ms": f"{some.p50:.0f}",
            "p99 ms": f"{some.p99:.0f}",
            "CPU of the machine": f"{some.cpu_percent:.0f} %",
        }
        for name, some in (
            ("without the sick ones", found.alone),
            ("with the sick ones", found.disturbed),
        )
    ]
    return "\n\n".join(
        [
            table("From a pass's end to its round, other clusters", rows),
            f"ratio of the p99: {found.ratio:.2f}",
            f"the {found.commands:,} commands of the others are those of a run without the "
            f"sick ones; {found.set_aside} rounds of the sick ones were set aside",
        ]
    )


def measured(plan: Plan) -> Isolation:
    """One run. Raises AssertionError if a byte of the other clusters differs."""
    from tests.raising_strategy import WITH_RAISING
    from tools.processes.real_job import PROJECT, RealJob

    settings = (f"round.interval_ms={1_000 * plan.pass_s}", *_RAISING)
    with (
        tempfile.TemporaryDirectory(prefix="rebalancer-bench-") as folder,
        RealJob(Path(folder), "avg", environment={"PYTHONPATH": str(PROJECT)}) as job,
    ):
        job.program = ("benchmarks.raising_job",)
        engine = load(None, {}, (*job.assignments, *settings), WITH_RAISING).engine
        job.publish([])
        job.start(*(word for one in settings for word in ("--set", one)))
        watch = _fed(plan, Senders(plan), job)
        job.kill()
        commands = _check_bytes(job, engine)
        rounds = map(json.loads, job.published("rounds"))
        states = [one["state"]["code"] for one in rounds if one["cluster"] in SICK]
    alone, disturbed = _waits(plan, watch, "alone"), _waits(plan, watch, "disturbed")
    return Isolation(alone, disturbed, commands, states.count("set-aside"))


class Senders:
    """What the clusters send, pass after pass."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._fleet = Fleet(plan.brokers, plan.bundles)
        one = len(next(Fleet(1, 100).reports(0))) / 100
        large = Fleet(plan.brokers, max(1, int(0.98 * plan.limit_bytes / one)))
        # Made once: to make them again for each pass would take the job's time.
        wanted = LIMITS in plan.sick
        self._large = [_split(_deep(one)) for one in large.reports(0)] if wanted else []

    def records(self, pass_: int, phase: Phase) -> list[Due]:
        """All records of a pass in the order of their times. The clusters take turns, so that
        something always arrives. In the warm-up the sick ones send what all others send, so that
        the job knows them.
        """
        plan = self._plan
        names = [*plan.sick, *(f"cluster-{index:03}" for index in range(plan.clusters))]
        silent = () if phase in ("warm-up", "disturbed") else plan.sick
        found = [
            one
            for i, name in enumerate(names)
            if name not in silent
            for one in self._of_cluster(name, plan.pass_s * (pass_ + i / len(names)), pass_, phase)
        ]
        return sorted(found, key=lambda one: one.at_s)

    def _of_cluster(self, name: str, at_s: float, pass_: int, phase: Phase) -> Iterator[Due]:
        plan, disturbs = self._plan, phase == "disturbed"
        turns = plan.load if disturbs and name == FLOODED else 1
        reports = [*self._fleet.reports(pass_)]
        if disturbs and name == LIMITS:
            ts = str(plan.ts(at_s)).encode()
            yield from (Due(at_s, name, before + ts + after) for before, after in self._large)
            turns = 0
        for _ in range(turns):
            ts_ms = plan.ts(at_s)
            yield from (Due(at_s, name, _of(name, report, ts_ms)) for report in reports)
            at_s += 0.9 * plan.pass_s / turns if turns > 1 else 0
        sweep = _of(name, self._fleet.sweep(pass_), plan.ts(at_s))
        yield Due(at_s, name, sweep, ends_pass=True)


def _of(cluster: str, record: bytes, ts_ms: int) -> bytes:
    named = record.replace(_NAMED, f'"cluster":"{cluster}"'.encode(), 1)
    return _TS.sub(f'"ts":{ts_ms}'.encode(), named, count=1)


def _split(report: bytes) -> tuple[bytes, bytes]:
    """What is before and behind the time of a record of the cluster at the limits."""
    before, found, after = _of(LIMITS, report, _MINUTE_MS).partition(str(_MINUTE_MS).encode())
    assert found
    return before, after


def _deep(report: bytes) -> bytes:
    """The report with a field that nobody reads, as deep as a record may be."""
    return report[:-1] + b',"more":' + _DEEP + b"}"


def _fed(plan: Plan, senders: Senders, job: "RealJob") -> _Watch:
    """Sends all passes, and waits for their rounds."""
    watch = _Watch(FileTopicReader(job.folder / "rounds"))
    with watch.looking(), FileTopicWriter(job.folder / "telemetry", sync=True) as writer:
        send = partial(_send, plan, writer, watch)
        send(senders.records(0, "warm-up"))
        job.wait_until(lambda: bool(watch.seen_s), _TIMEOUT_S)
        begin_s = time.perf_counter() - plan.pass_s
        watch.cpu_s += [0.0]
        for pass_, phase in [*enumerate(plan.phases())][1:]:
            say(f"pass {pass_}: {phase}")
            watch.cpu_s += [cpu_seconds(job.processes())]
            rest = senders.records(pass_, phase)
            while rest:
                now_s = time.perf_counter() - begin_s
                due = [one for one in rest if one.at_s <= now_s]
                rest = rest[len(due) :]
                send(due)
                time.sleep(_TICK_S)
        job.wait_until(lambda: watch.done, _TIMEOUT_S)
        watch.cpu_s += [cpu_seconds(job.processes())]
    return watch


def _send(plan: Plan, writer: FileTopicWriter, watch: _Watch, due: Sequence[Due]) -> None:
    """The sick clusters have a producer of their own, as all clusters have."""
    for some in (
        [one for one in due if one.cluster in SICK],
        [one for one in due if one.cluster not in SICK],
    ):
        if some:
            writer.append([one.value for one in some])
        now_s = time.perf_counter()
        for one in some:
            if one.ends_pass and one.cluster not in SICK:
                watch.ended_s[one.cluster, plan.ts(one.at_s)] = now_s


def _check_bytes(job: "RealJob", engine: "EngineSettings") -> int:
    """Compares the commands of the other clusters with those of a plain loop that never saw the
    sick ones; their number.
    """
    loop, expected = PlainLoop(engine), list[bytes]()
    for place, value in enumerate(job.published("telemetry")):
        if _cluster(value) not in SICK:
            rows = loop.feed(Position("telemetry", 0, place), value)
            expected += [row.value for row in rows if row.kind == "commands"]
    found = [one for one in job.published("commands") if _cluster(one) not in SICK]
    if sorted(found, key=_cluster) != sorted(expected, key=_cluster):
        raise AssertionError("the commands of the other clusters are not those of a run alone")
    return len(found)


def _cluster(record: bytes) -> str:
    named = re.search(rb'"cluster":"([^"]+)"', record)
    return "" if named is None else named[1].decode()


def _waits(plan: Plan, watch: _Watch, wanted: Phase) -> Waits:
    passes = [pass_ for pass_, phase in enumerate(plan.phases()) if phase == wanted]
    took_ms = [
        1_000 * (watch.seen_s[cluster, ts] - ended_s)
        for (cluster, ts), ended_s in watch.ended_s.items()
        if (ts - plan.ts(0)) // (1_000 * plan.pass_s) in passes
    ]
    cpu_s = sum(watch.cpu_s[pass_ + 1] - watch.cpu_s[pass_] for pass_ in passes)
    share = cpu_s / (plan.pass_s * len(passes) * (os.cpu_count() or 1))
    p50, p99 = map(float, np.percentile(took_ms, (50, 99)))
    return Waits(len(took_ms), p50, p99, 100 * share)


def _options() -> argparse.ArgumentParser:
    parser, plan = options("benchmarks.isolation", __doc__ or ""), Plan()
    number(parser, "--clusters", plan.clusters, "clusters that are not sick")
    number(parser, "--brokers", plan.brokers, "brokers per cluster")
    number(parser, "--bundles", plan.bundles, "bundles per broker")
    number(parser, "--pass-s", plan.pass_s, "seconds between two passes")
    number(
        parser,
        "--passes",
        plan.passes,
        "half of the passes without the sick ones, and of those with them",
    )
    number(parser, "--load", plan.load, "the flooded cluster's load, in times that of the others")
    parser.add_argument(
        "--sick", nargs="+", choices=SICK, default=plan.sick, help="the sick clusters (all three)"
    )
    number(
        parser,
        "--limit-bytes",
        plan.limit_bytes,
        "size of each record of the cluster at the limits",
    )
    return parser


if __name__ == "__main__":
    main()
