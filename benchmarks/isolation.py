"""`python -m benchmarks.isolation`: what one job's other clusters notice of a cluster at many times
its load, and of one whose every record is as large and as deep as records may be.

The real job runs on file topics. Clusters report in turn, at the pace of their own time; phases
without the two disturbing clusters alternate with phases with them. Counted is the time from the
sweep that ends a cluster's pass to its round on the topic. In the end the commands of the other
clusters must have the bytes of a plain loop that never saw the two.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.figures import say, table
from benchmarks.fleet import CLUSTER, Fleet
from benchmarks.options import number, options
from rebalancer.settings.load import load
from sinks.plain_loop import PlainLoop
from sinks.topics.files.topic import FileTopicReader, FileTopicWriter
from sinks.wire.position import Position

if TYPE_CHECKING:
    from strategies.engine import EngineSettings
    from tests.faults.real_job import RealJob

#: The two clusters that disturb the others.
FLOODED, LIMITS = "cluster-000", "cluster-001"
_START_MS = 1_795_000_020_000
_TICK_S = 0.05
_WARM_PASSES = 3
_TS = re.compile(rb'"ts":\d+')
_NAMED = f'"cluster":"{CLUSTER}"'.encode()
_DEEP = b"[" * 390 + b"]" * 390
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What runs. `pass_s`: time between two passes; `passes`: of each of the four phases; `load`:
    of the flooded cluster, as a multiple of the others'; `limit_bytes`: of each record of the other
    one.
    """

    clusters: int = 100
    brokers: int = 10
    bundles: int = 20
    pass_s: int = 10
    passes: int = 5
    load: int = 50
    limit_bytes: int = 8 * 2**20 - 4096


@dataclass(frozen=True, slots=True)
class Due:
    """A record, and when it is sent, in seconds after the beginning."""

    at_s: float
    cluster: str
    value: bytes
    ends_pass: bool = False


@dataclass(frozen=True, slots=True)
class Isolation:
    """ms from a pass's end to its round, for the clusters that do not disturb. `aside`: records of
    the two that were beyond their quotas, by the rejected topic.
    """

    alone_p50: float
    alone_p99: float
    disturbed_p50: float
    disturbed_p99: float
    rounds: int
    commands: int
    over_quota_rows: int

    @property
    def ratio(self) -> float:
        """How much longer the others wait."""
        return self.disturbed_p99 / self.alone_p99


@dataclass(slots=True)
class _Watch:
    """Notes when passes end and when their rounds are there."""

    reader: FileTopicReader
    ended_s: dict[tuple[str, int], float] = field(default_factory=dict)
    took_s: dict[tuple[str, int], float] = field(default_factory=dict)

    def look(self) -> int:
        """Reads the rounds that have come; how many that are by now."""
        records, _ = self.reader.read()
        now = time.perf_counter()
        for record in records:
            told = json.loads(record.value)
            key = (told["cluster"], told["ts"])
            if key in self.ended_s:
                self.took_s.setdefault(key, now - self.ended_s[key])
        return len(self.took_s)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a table and the ratio on standard output."""
    chosen = _options().parse_args(arguments)
    plan = Plan(
        chosen.clusters,
        chosen.brokers,
        chosen.bundles,
        chosen.pass_s,
        chosen.passes,
        chosen.load,
        chosen.limit_bytes,
    )
    found = measured(plan)
    if chosen.json:
        print(json.dumps({"v": 1, **asdict(found), "ratio": found.ratio}))
    else:
        print(text(found))


def text(found: Isolation) -> str:
    """For people."""
    rows = [
        {
            "": "without the two",
            "p50 ms": f"{found.alone_p50:.0f}",
            "p99 ms": f"{found.alone_p99:.0f}",
        },
        {
            "": "with the two",
            "p50 ms": f"{found.disturbed_p50:.0f}",
            "p99 ms": f"{found.disturbed_p99:.0f}",
        },
    ]
    return "\n\n".join(
        [
            table("From a pass's end to its round, other clusters", rows),
            f"ratio of the p99: {found.ratio:.2f}",
            f"{found.commands:,} commands of {found.rounds:,} counted rounds are those of a run "
            f"without the two; {found.over_quota_rows} windows of the two were over their quotas",
        ]
    )


def measured(plan: Plan) -> Isolation:
    """One run. Raises AssertionError if a byte of the other clusters differs."""
    from tests.faults.real_job import RealJob

    settings = (f"round.interval_ms={1_000 * plan.pass_s}", "shedding.strategy=avg")
    with (
        tempfile.TemporaryDirectory(prefix="rebalancer-bench-") as folder,
        RealJob(Path(folder), "avg") as job,
    ):
        senders = Senders(plan)
        engine = load(None, {}, (*job.assignments, *settings)).engine
        job.publish([])
        job.start(*(word for one in settings for word in ("--set", one)))
        took = _fed(plan, senders, job)
        job.kill()
        commands = _check_bytes(job, engine)
        rejected = [json.loads(one)["code"] for one in job.published("rejected")]
    return _figures(plan, took, commands, rejected.count("over-quota"))


class Senders:
    """What the clusters send, pass after pass."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._fleet = Fleet(plan.brokers, plan.bundles)
        one = len(next(Fleet(1, 100).reports(0))) / 100
        large = Fleet(plan.brokers, max(1, int(0.98 * plan.limit_bytes / one)))
        # Made once: to make them again for each pass would take the job's time.
        self._large = [_split(_deep(report)) for report in large.reports(0)]

    def records(self, pass_: int, *, disturbs: bool) -> list[Due]:
        """All records of a pass in the order of their times. The clusters take turns, so that
        something always arrives.
        """
        found = [
            one
            for index in range(self._plan.clusters)
            for one in self._of_cluster(index, pass_, disturbs=disturbs)
        ]
        return sorted(found, key=lambda one: one.at_s)

    def _of_cluster(self, index: int, pass_: int, *, disturbs: bool) -> Iterator[Due]:
        plan, name = self._plan, f"cluster-{index:03}"
        at_s = plan.pass_s * (pass_ + index / plan.clusters)
        if disturbs and name == LIMITS:
            for before, after in self._large:
                yield Due(at_s, name, before + str(_ts(at_s)).encode() + after)
            yield Due(at_s, name, _of(name, self._fleet.sweep(pass_), at_s), ends_pass=True)
            return
        reports = [*self._fleet.reports(pass_)]
        for _ in range(turns := plan.load if disturbs and name == FLOODED else 1):
            yield from (Due(at_s, name, _of(name, report, at_s)) for report in reports)
            at_s += 0.9 * plan.pass_s / turns if turns > 1 else 0
        yield Due(at_s, name, _of(name, self._fleet.sweep(pass_), at_s), ends_pass=True)


def _of(cluster: str, record: bytes, at_s: float) -> bytes:
    named = record.replace(_NAMED, f'"cluster":"{cluster}"'.encode(), 1)
    return _TS.sub(f'"ts":{_ts(at_s)}'.encode(), named, count=1)


def _split(report: bytes) -> tuple[bytes, bytes]:
    """What is before and behind the time of a record of the cluster at the limits."""
    before, found, after = _of(LIMITS, report, 0).partition(str(_ts(0)).encode())
    assert found
    return before, after


def _ts(at_s: float) -> int:
    return _START_MS + int(1_000 * at_s)


def _deep(report: bytes) -> bytes:
    """The report with a field that nobody reads, as deep as a record may be."""
    return report[:-1] + b',"more":' + _DEEP + b"}"


def _disturbs(plan: Plan, pass_: int) -> bool:
    """Phases alternate after the warm-up: without, with, without, with."""
    return pass_ >= _WARM_PASSES and (pass_ - _WARM_PASSES) // plan.passes % 2 == 1


def _fed(plan: Plan, senders: Senders, job: RealJob) -> Mapping[tuple[str, int], float]:
    """Sends all passes; how long each round took to come, in seconds, by cluster and time."""
    watch = _Watch(FileTopicReader(job.folder / "rounds"))
    with FileTopicWriter(job.folder / "telemetry") as writer:
        _send(senders.records(0, disturbs=False), writer, watch)
        job.wait_until(lambda: watch.look() > 0, _TIMEOUT_S)
        begin_s = time.perf_counter() - plan.pass_s
        for pass_ in range(1, _WARM_PASSES + 4 * plan.passes):
            disturbs = _disturbs(plan, pass_)
            say(f"pass {pass_}, {'with' if disturbs else 'without'} the two")
            rest = senders.records(pass_, disturbs=disturbs)
            while rest:
                now_s = time.perf_counter() - begin_s
                due = [one for one in rest if one.at_s <= now_s]
                rest = rest[len(due) :]
                _send(due, writer, watch)
                watch.look()
                time.sleep(_TICK_S)
        job.wait_until(lambda: watch.look() == len(watch.ended_s), _TIMEOUT_S)
    return watch.took_s


def _send(due: Sequence[Due], writer: FileTopicWriter, watch: _Watch) -> None:
    if due:
        writer.append([one.value for one in due])
    now_s = time.perf_counter()
    for one in due:
        if one.ends_pass and one.cluster not in (FLOODED, LIMITS):
            watch.ended_s[one.cluster, _ts(one.at_s)] = now_s


def _check_bytes(job: RealJob, engine: EngineSettings) -> int:
    """Compares the commands of the other clusters with those of a plain loop that never saw the
    two; their number.
    """
    loop, expected = PlainLoop(engine), list[bytes]()
    for place, value in enumerate(job.published("telemetry")):
        if _cluster(value) not in (FLOODED, LIMITS):
            rows = loop.feed(Position("telemetry", 0, place), value)
            expected += [row.value for row in rows if row.kind == "commands"]
    found = [one for one in job.published("commands") if _cluster(one) not in (FLOODED, LIMITS)]
    if sorted(found, key=_cluster) != sorted(expected, key=_cluster):
        raise AssertionError("the commands of the other clusters are not those of a run alone")
    return len(found)


def _cluster(record: bytes) -> str:
    named = re.search(rb'"cluster":"([^"]+)"', record)
    return "" if named is None else named[1].decode()


def _figures(
    plan: Plan, took: Mapping[tuple[str, int], float], commands: int, over_quota_rows: int
) -> Isolation:
    alone, disturbed = list[float](), list[float]()
    for (_, ts), seconds in took.items():
        pass_ = int((ts - _START_MS) / 1_000 // plan.pass_s)
        if pass_ >= _WARM_PASSES:
            (disturbed if _disturbs(plan, pass_) else alone).append(1_000 * seconds)
    p50, p99 = ([float(np.percentile(some, at)) for some in (alone, disturbed)] for at in (50, 99))
    return Isolation(
        p50[0], p99[0], p50[1], p99[1], len(alone) + len(disturbed), commands, over_quota_rows
    )


def _options() -> argparse.ArgumentParser:
    parser, plan = options("benchmarks.isolation", __doc__ or ""), Plan()
    number(parser, "--clusters", plan.clusters, "clusters, the two included")
    number(parser, "--brokers", plan.brokers, "brokers per cluster")
    number(parser, "--bundles", plan.bundles, "bundles per broker")
    number(parser, "--pass-s", plan.pass_s, "seconds between two passes")
    number(parser, "--passes", plan.passes, "passes of each of the four phases")
    number(parser, "--load", plan.load, "the flooded cluster's load, in times that of the others")
    number(
        parser,
        "--limit-bytes",
        plan.limit_bytes,
        "size of each record of the cluster at the limits",
    )
    return parser


if __name__ == "__main__":
    main()
