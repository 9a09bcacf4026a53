"""Disturbances of a run: lost, late and wrongly timed reports, wrong figures of bundles, and a
rival that moves bundles as well.

Each has its own stream of random values, so that traffic and noise are those of the undisturbed
run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pulsar_rebalancer.lab.simulation.broker_measurements import NO_BROKER, World
from pulsar_rebalancer.lab.simulation.clock import PERIOD_S, START_MS
from pulsar_rebalancer.lab.simulation.noise import RECONNECT_S, Stream
from pulsar_rebalancer.lab.simulation.scenarios.wave_noise_limit_schema import Disturbances
from pulsar_rebalancer.lab.simulation.timeline import Move
from strategies.cluster.model import LoadReport

_REPORTS, _FIGURES, _CLOCK, _RIVAL = range(200, 204)


class DisturbedReports:
    """The reports of brokers as they arrive."""

    def __init__(self, by: Disturbances, seed: int, brokers: Sequence[str]) -> None:
        self._by = by
        self._chance, self._figures = Stream(seed, _REPORTS), Stream(seed, _FIGURES)
        which, ahead = Stream(seed, _CLOCK).uniform(2).tolist()
        self._wrong = brokers[int(which * len(brokers))]
        self._clock_ms = int(1000 * by.clock_s) * (1 if ahead < 0.5 else -1)
        self._late: list[tuple[int, LoadReport]] = []
        self._round = 0

    def of_round(self, reports: Sequence[LoadReport]) -> tuple[list[LoadReport], frozenset[str]]:
        """The reports that arrive in the next round, late ones first, and the brokers whose own
        reports of this round do not.
        """
        by, missing = self._by, set[str]()
        arriving = [report for due, report in self._late if due <= self._round]
        self._late = [one for one in self._late if one[0] > self._round]
        for report, die in zip(
            map(self._changed, reports), self._chance.uniform(len(reports)).tolist(), strict=True
        ):
            if by.lost <= die < 1.0 - by.late:
                arriving.append(report)
                continue
            missing.add(report.broker)
            if die >= by.lost:
                self._late.append((self._round + by.late_rounds, report))
        self._round += 1
        return arriving, frozenset(missing)

    def _changed(self, report: LoadReport) -> LoadReport:
        """The report with the time of its broker and the noise of its bundles' figures."""
        if report.broker == self._wrong and self._clock_ms:
            report = replace(report, ts=report.ts + self._clock_ms)
        noise, bundles = self._by.bundle_noise, report.bundles
        if not noise or bundles is None:
            return report
        factors = 1.0 + noise * (2.0 * self._figures.uniform(len(bundles.names)) - 1.0)
        return replace(
            report, bundles=replace(bundles, traffic=bundles.traffic * factors[:, np.newaxis])
        )


class Rival:
    """Something else that moves random bundles to random brokers, at equal intervals."""

    def __init__(self, an_hour: float, seed: int) -> None:
        self._per_round = an_hour * PERIOD_S / 3600
        self._chance = Stream(seed, _RIVAL)
        self._due = float(self._chance.uniform(1)[0])

    def moves(self, world: World, now_s: float) -> Iterator[Move]:
        """Makes the moves of the next round and returns them."""
        self._due += self._per_round
        while self._due >= 1.0:
            self._due -= 1.0
            served = np.flatnonzero(world.ownership.owner != NO_BROKER)
            which, where = self._chance.uniform(2).tolist()
            row = int(served[int(which * len(served))])
            source = int(world.ownership.owner[row])
            others = [one for one in np.flatnonzero(world.present).tolist() if one != source]
            if not others:
                continue
            destination = others[int(where * len(others))]
            blip_s = self._chance.between(RECONNECT_S)
            world.move(row, destination, now_s, now_s + blip_s)
            yield Move(
                round=int(now_s // PERIOD_S),
                ts=START_MS + int(now_s * 1000),
                bundle=world.names[row],
                source=world.fleet.names[source],
                destination=world.fleet.names[destination],
                kind="foreign",
                reason="moved by something else",
                traffic=float(world.sampled[2:, row].sum()),
                topics=int(world.demand.topics[row]),
                blip_ms=int(1000 * blip_s),
            )
