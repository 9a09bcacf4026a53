"""Invariants of every round, under any failures; each violation is a sentence."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from pulsar_rebalancer.lab.simulation.machine_usage import MIB
from strategies.averages.bundle_averages import unpack_history
from strategies.cluster.cluster_state import StateStore
from strategies.cluster.model import Command, Event, LoadReport, Rejection, Round
from strategies.settings import LimitSettings, Mode

_HOUR_MS = 3_600_000


@dataclass(slots=True)
class Invariants:
    """Checks one cluster's events. `limits`: those that rounds must respect; `broken`: violations,
    in order.

    `reports` = `taken` + `refused` if no report is lost: its figures are in the state, or it is a
    rejected row.
    """

    mode: Mode
    limits: LimitSettings
    reports: int = 0
    taken: int = 0
    refused: int = 0
    broken: list[str] = field(default_factory=list)
    _unclear: list[LoadReport] = field(default_factory=list)
    _active: dict[str, Command] = field(default_factory=dict)
    _moved: list[tuple[int, float]] = field(default_factory=list)

    def report(self, report: LoadReport, events: Iterable[Event], store: StateStore) -> None:
        """Checks the events of a folded report."""
        self.reports += 1
        broker = store.get_broker(report.broker)
        if any(_is_about(event, report) for event in events):
            self.refused += 1
        elif broker is not None and (broker.reported_at_ms, broker.digest) == (
            report.ts,
            report.digest,
        ):
            self.taken += 1
        else:
            self._unclear.append(report)

    def round(
        self, events: Sequence[Event], alive: Collection[str], now_ms: int, store: StateStore
    ) -> list[Command]:
        """Checks the events of a folded sweep and returns its commands that move a bundle. `alive`:
        present brokers.
        """
        rounds = sum(isinstance(event, Round) for event in events)
        if rounds != 1:
            self.broken.append(f"{rounds} rounds closed instead of one")
        self.broken += [
            f"a move by something else is seen, and there is none: {skip.text}"
            for event in events
            if isinstance(event, Round)
            for skip in event.skips
            if skip.code == "moved-by-others"
        ]
        self._settle(events, store)
        self._active = {
            bundle: one for bundle, one in self._active.items() if now_ms < one.expires_at_ms
        }
        commands = [event for event in events if isinstance(event, Command) and event.is_move]
        for command in commands:
            self._judge(command, alive)
            self._active[command.bundle] = command
        self._moved += [(now_ms, _mib(command, store)) for command in commands]
        if commands:
            self._count(now_ms)
        return commands

    def finished(self, bundle: str) -> None:
        """Records that the bundle's command has an outcome."""
        self._active.pop(bundle, None)

    def moved_on(self, report: LoadReport) -> None:
        """Ends the commands of bundles that this report shows on another broker than their source:
        an executor refuses them.
        """
        for bundle in () if report.bundles is None else report.bundles.names:
            command = self._active.get(bundle)
            if command is not None and command.source != report.broker:
                self.finished(bundle)

    def _settle(self, events: Sequence[Event], store: StateStore) -> None:
        """Checks the reports that the engine held back at the start of a log: after a round they
        are in the state or rejected.
        """
        for report in self._unclear:
            broker = store.get_broker(report.broker)
            if any(_is_about(event, report) for event in events):
                self.refused += 1
            elif broker is not None and broker.reported_at_ms >= report.ts:
                self.taken += 1
            else:
                self.broken.append(
                    f"the report of {report.broker} at {report.ts} is neither in the state "
                    "nor rejected"
                )
        self._unclear = []

    def _judge(self, command: Command, alive: Collection[str]) -> None:
        bundle, earlier = command.bundle, self._active.get(command.bundle)
        if earlier is not None and self.mode == "fixed":
            self.broken.append(f"{bundle} has two open commands: {earlier.id} and {command.id}")
        if command.destination is not None and command.destination not in alive:
            self.broken.append(f"{bundle} is moved to {command.destination}, which is not present")
        if command.destination == command.source:
            self.broken.append(f"{bundle} is moved to its present owner")

    def _count(self, now_ms: int) -> None:
        self._moved = [(ts, mib) for ts, mib in self._moved if ts > now_ms - _HOUR_MS]
        now = [mib for ts, mib in self._moved if ts == now_ms]
        hour, limits = [mib for _, mib in self._moved], self.limits
        for spent, limit, what in (
            (len(now), limits.moves_per_round, "bundles move in one round"),
            (len(hour), limits.moves_per_hour, "bundles move within the hour"),
            (sum(now), limits.moved_mib_per_round, "MiB/s move in one round"),
            (sum(hour), limits.moved_mib_per_hour, "MiB/s move within the hour"),
        ):
            if 0 < limit < spent - 1e-6:
                self.broken.append(f"{spent:g} {what}; the limit is {limit:g}")


def _is_about(event: Event, report: LoadReport) -> bool:
    if not isinstance(event, Rejection) or not isinstance(event.record, LoadReport):
        return False
    record = event.record
    return (record.broker, record.ts, record.digest) == (report.broker, report.ts, report.digest)


def _mib(command: Command, store: StateStore) -> float:
    """Traffic of the bundle, by the averages that the round used."""
    packed = store.get_table(command.source)
    table = None if packed is None else unpack_history(packed).loads()
    if table is None or command.bundle not in table.names:
        return 0.0
    return float(table.msg_throughput[table.names.index(command.bundle)]) / MIB
