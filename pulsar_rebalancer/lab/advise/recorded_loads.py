"""Loads of the bundles of a recorded cluster over time, and what its brokers showed under them.

A bundle has the load that a broker reported last. What a broker carries beyond the bundles that it
lists counts as one more bundle (the extensible load manager reports only the busiest ones).
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace

import numpy as np

from sinks.recordings.columnar import KINDS
from sinks.recordings.columnar_reading import Block
from strategies.bundles import Floats, Ints
from strategies.cluster.model import LoadReport, Policies, Sweep, Tombstone
from strategies.figures.usage import weighted_usage
from strategies.fold.engine import EngineSettings

#: Ends the name of the bundle that stands for what a broker does not list.
REST = " (not listed)"
_REPORT, _OTHER = KINDS.index("report"), KINDS.index("other")
#: Length of a step, and of one where more than two days are read.
_STEP_MS, _LONG_STEP_MS, _LONG_MS = 60_000, 300_000, 172_800_000


@dataclass(frozen=True, slots=True, eq=False)
class RecordedLoads:
    """A cluster in steps of `step_ms`. `bundles`: name → column of `traffic`, float64[steps,
    bundles, 4], the last figures of each step; `owners`: int64[bundles], row in `brokers` at the
    end, -1 for none; `topics`: int64[bundles]; `shown`: broker → samples of bytes/s, messages/s,
    usage, 1, ms; `cpu`: broker → CPU of its machine; `policies`: their newest snapshot.
    """

    begins_ms: int
    step_ms: int
    bundles: dict[str, int]
    traffic: Floats
    owners: Ints
    topics: Ints
    brokers: tuple[str, ...]
    shown: dict[str, list[list[float]]]
    cpu: dict[str, float]
    policies: str | None = None

    @property
    def hours(self) -> float:
        return len(self.traffic) * self.step_ms / 3_600_000

    @property
    def shows_cost(self) -> bool:
        """Whether a live broker shows usage under traffic; otherwise nothing is known of load."""
        return any(row[0] > 0 < row[2] for one in self.brokers for row in self.shown[one])


def prepared(blocks: Iterable[Block], days: float) -> dict[str, RecordedLoads]:
    """Cluster → its last days without any load yet. Raises SinkError if they cannot be read."""
    times, names = dict[str, list[int]](), dict[str, tuple[dict[str, int], dict[str, None]]]()
    for block in blocks:
        # Reports of which a part cannot be used are no columns.
        others = (block.record(row) for row in np.flatnonzero(block.kinds == _OTHER).tolist())
        reports = [one for one in others if isinstance(one, LoadReport)]
        for at, cluster in enumerate(block.texts["cluster"]):
            rows = np.flatnonzero((block.clusters == at) & (block.kinds == _REPORT))
            some = [one for one in reports if one.cluster == cluster]
            texts = {block.texts["bundles"][n] for n in block.bundles[rows] if n >= 0}
            texts |= {"\n".join(one.bundles.names) for one in some if one.bundles is not None}
            bundles, brokers = names.setdefault(cluster, ({}, {}))
            bundles |= dict.fromkeys((n for t in sorted(texts) for n in t.split("\n") if n), 0)
            brokers |= dict.fromkeys(block.texts["broker"][n] for n in block.brokers[rows])
            brokers |= dict.fromkeys(one.broker for one in some)
            heard = [*block.ts[rows].tolist(), *(one.ts for one in some)]
            times.setdefault(cluster, []).extend((min(heard), max(heard)) if heard else ())
    return {
        cluster: _empty(min(one), max(one), days, *names[cluster])
        for cluster, one in sorted(times.items())
        if one
    }


def _empty(
    first: int, last: int, days: float, bundles: dict[str, int], brokers: dict[str, None]
) -> RecordedLoads:
    begins = max(first, last - round(days * 86_400_000))
    step = _STEP_MS if last - begins <= _LONG_MS else _LONG_STEP_MS
    names = [*bundles, *(broker + REST for broker in brokers)]
    return RecordedLoads(
        begins,
        step,
        {name: at for at, name in enumerate(names)},
        np.zeros((1 + (last - begins) // step, len(names), 4)),
        np.full(len(names), -1),
        np.zeros(len(names), dtype=np.int64),
        tuple(brokers),
        {name: [] for name in brokers},
        {},
    )


def read_loads(
    blocks: Iterable[Block], cluster: str, now: RecordedLoads, engine: EngineSettings
) -> RecordedLoads:
    """The loads of a prepared cluster, whose live brokers were heard in the last
    `round.stale_after_ms`. Records out of order are read in that of their time, if they are in the
    same block. Raises SinkError if they cannot be read.
    """
    policies, step, heard = None, 0, dict[str, int]()
    end_ms = now.begins_ms + len(now.traffic) * now.step_ms
    for block in blocks:
        rows = np.flatnonzero((block.ts >= now.begins_ms) & (block.ts < end_ms))
        for row in rows[np.argsort(block.ts[rows], kind="stable")].tolist():
            record = block.record(row)
            if record is None or record.cluster != cluster:
                continue
            ts = int(block.ts[row])
            at = max(step, (ts - now.begins_ms) // now.step_ms)
            now.traffic[step + 1 : at + 1] = now.traffic[step]
            step = at
            match record:
                case Policies():
                    policies = record.snapshot
                case Tombstone():
                    _forget(now, heard, {record.broker}, now.traffic[step])
                case Sweep():
                    _forget(
                        now,
                        heard,
                        heard.keys() - record.brokers - record.missing.keys(),
                        now.traffic[step],
                    )
                case LoadReport():
                    heard[record.broker] = max(ts, heard.get(record.broker, 0))
                    _report(now, record, now.traffic[step], engine)
    since_ms = max(heard.values(), default=0) - engine.round.stale_after_ms
    live = sorted(one for one, ts in heard.items() if ts >= since_ms)
    places = [live.index(one) if one in live else -1 for one in (*now.brokers, "")]
    return replace(now, brokers=(*live,), owners=np.array(places)[now.owners], policies=policies)


def _forget(now: RecordedLoads, heard: dict[str, int], gone: Set[str], traffic: Floats) -> None:
    """Brokers that are gone serve no bundle. `traffic`: float64[bundles, 4]."""
    for broker in sorted(gone & heard.keys()):
        del heard[broker]
        mine = now.owners == now.brokers.index(broker)
        traffic[mine], now.owners[mine] = 0.0, -1


def _report(
    now: RecordedLoads, report: LoadReport, traffic: Floats, engine: EngineSettings
) -> None:
    """Takes over a broker's bundles, its figures, or both. `traffic`: float64[bundles, 4]."""
    broker, figures, rest = report.broker, report.figures, now.bundles[report.broker + REST]
    place = now.brokers.index(broker)
    mine = (now.owners == place) & (np.arange(len(now.owners)) != rest)
    if report.bundles is not None:
        listed = traffic[mine].sum(axis=0)
        traffic[mine], now.owners[mine] = 0.0, -1
        rows = [now.bundles[name] for name in report.bundles.names]
        traffic[rows] = np.nan_to_num(np.maximum(report.bundles.traffic, 0.0), posinf=0.0)
        now.topics[rows], now.owners[rows], mine = report.bundles.topics, place, rows
        # What is listed from now on was among what was not, until figures come.
        others = np.maximum(traffic[rest] + listed - traffic[rows].sum(axis=0), 0.0)
        traffic[rest] = np.where(traffic[rest] > 0, others, 0.0)
    if figures is not None:
        one, listed = figures.traffic, traffic[mine]
        all_ = [one.msg_rate_in, one.msg_rate_out, one.msg_throughput_in, one.msg_throughput_out]
        traffic[rest] = (
            np.maximum(all_ - listed.sum(axis=0), 0.0)
            if figures.bundle_count > len(listed)
            else 0.0
        )
        now.owners[rest], now.cpu[broker] = place, figures.cpu.limit
        now.shown[broker].append(
            [
                one.msg_throughput,
                one.msg_rate,
                weighted_usage(figures, engine.weights),
                1.0,
                report.ts,
            ]
        )
