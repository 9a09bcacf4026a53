"""The load reports of a modelled cluster in a round, as the engine reads them: new ones, or reports
that brokers wrote earlier.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import numpy as np

from pulsar_rebalancer.lab.simulation.broker_measurements import World
from strategies.bundles import Ints
from strategies.cluster.model import BundleStats, Figures, LoadReport
from strategies.figures.usage import unweighted_usage

#: A broker writes a new report at a larger change, in percent, and when its last one is older
#: (loadBalancerReportUpdateThresholdPercentage, loadBalancerReportUpdateMaxIntervalMinutes).
THRESHOLD_PERCENT, MAX_INTERVAL_MS = 10, 900_000


def writes_again(written: Figures, now: Figures, age_ms: int) -> bool:
    """Whether a broker writes a new report: `now` differs enough from `written`, or `written`,
    `age_ms` old, is too old.
    """
    return age_ms > MAX_INTERVAL_MS or max(_changes(written, now)) > THRESHOLD_PERCENT


def _changes(written: Figures, now: Figures) -> Iterator[float]:
    """Changes in percent of the older figure; of usage in points, so that 50 % and 60 % differ by
    10.
    """
    yield _percent(written.traffic.msg_rate, now.traffic.msg_rate)
    yield _percent(written.traffic.msg_throughput, now.traffic.msg_throughput)
    yield _percent(written.bundle_count, now.bundle_count)
    yield 100.0 * abs(unweighted_usage(now) - unweighted_usage(written))


def _percent(old: float, new: float) -> float:
    if old == 0:
        return 0.0 if new == 0 else inf
    return 100.0 * abs(old - new) / old


class BrokerReports:
    """Makes one report per present broker. `written`: those that brokers write at a change;
    requests of a collector always return the newest figures.
    """

    def __init__(self, world: World, cluster: str, written: bool) -> None:
        self._world, self._cluster, self._are_written = world, cluster, written
        self._written: dict[int, LoadReport] = {}
        self._rows: dict[int, tuple[bytes, tuple[str, ...]]] = {}
        self._sample = 0

    def reports(self, now_ms: int) -> list[LoadReport]:
        """Reports of the present brokers, in the order of the fleet."""
        world = self._world
        self._sample += 1
        order = world.ownership.order[
            np.argsort(world.listed[world.ownership.order], kind="stable")
        ]
        edges = np.searchsorted(world.listed[order], np.arange(len(world.present) + 1))
        traffic = np.ascontiguousarray(world.sampled.T)
        sessions = world.demand.topics * 2
        found = []
        for broker in np.flatnonzero(world.present).tolist():
            rows = order[edges[broker] : edges[broker + 1]]
            stats = BundleStats(
                self._names(broker, rows), traffic[rows], world.demand.topics[rows], sessions[rows]
            )
            figures = world.fleet.figures(
                broker, float(world.cpu[broker]), world.totals[:, broker], len(rows)
            )
            found.append(
                self._reported(
                    broker,
                    LoadReport(
                        self._cluster,
                        world.fleet.names[broker],
                        now_ms,
                        figures,
                        stats,
                        f"{broker}/{self._sample}",
                    ),
                )
            )
        return found

    def forget(self, broker: int) -> None:
        """Drops a broker's last report: when the broker returns, it writes a new one."""
        self._written.pop(broker, None)

    def _reported(self, broker: int, report: LoadReport) -> LoadReport:
        """The given report, or the one written earlier if little has changed since."""
        before = self._written.get(broker)
        if (
            before is not None
            and before.figures is not None
            and report.figures is not None
            and not writes_again(before.figures, report.figures, report.ts - before.ts)
        ):
            return replace(before, ts=report.ts)
        if self._are_written:
            self._written[broker] = report
        return report

    def _names(self, broker: int, rows: Ints) -> tuple[str, ...]:
        """Names of bundle rows. Equal rows return the same tuple object, which compares faster."""
        key = rows.tobytes()
        known = self._rows.get(broker)
        if (
            known is not None
            and known[0] == key
            and (not known[1] or known[1][-1] == self._world.names[rows[-1]])
        ):
            return known[1]
        names = tuple(self._world.names[row] for row in rows.tolist())
        self._rows[broker] = (key, names)
        return names
