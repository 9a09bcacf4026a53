"""A cluster of a few brokers in memory, which reports every minute and carries out commands at
once: what drains need, without the simulator's noise.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from strategies.cluster import model
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.move_cost import NOT_MEASURED, MoveCost
from strategies.fold.engine import Engine, EngineSettings
from tests.world.splits import children_of
from tests.world.telemetry import T0, outcome, parts, report, sweep

#: What an executor answers to a command; None: nothing.
Executor = Callable[[model.Command], model.OutcomeStatus | None]


def applies(_: model.Command) -> model.OutcomeStatus | None:
    return "applied"


@dataclass
class LittleCluster:
    """`brokers`: broker → its bundles with their MiB/s. `log`: all records so far."""

    brokers: dict[str, dict[str, float]]
    settings: EngineSettings = EngineSettings()
    executor: Executor = applies
    #: A broker's percent of CPU without bundles, and per MiB/s.
    idle: float = 5.0
    per_mib: float = 1.0
    minute: int = 0
    topics_each: int = 1
    store: InMemoryStore = field(default_factory=InMemoryStore)
    log: list[model.TelemetryRecord] = field(default_factory=list)
    commands: list[model.Command] = field(default_factory=list)
    rejections: list[model.Rejection] = field(default_factory=list)
    #: Bundles in the reports of brokers with the extensible load manager; None: all, modular.
    top: int | None = None
    #: Whether brokers withdraw their figures when one of their bundles moves.
    withdraws: bool = False
    #: Whether a collector publishes what these brokers own.
    notes: bool = True
    _noted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: What executors measure of each move.
    cost: MoveCost = NOT_MEASURED
    down: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.engine = Engine(self.settings)

    @property
    def seconds(self) -> int:
        return 60 * self.minute

    @property
    def now_ms(self) -> int:
        return T0 + 1000 * self.seconds

    def tell(self, *records: model.TelemetryRecord) -> list[model.Event]:
        self.log += records
        events = [event for one in records for event in self.engine.fold(one, self.store)]
        self.rejections += [event for event in events if isinstance(event, model.Rejection)]
        return events

    def policies(self, snapshot: str) -> None:
        self.tell(model.Policies("c", self.now_ms, snapshot))

    def passes(self, minutes: int = 1) -> model.Round:
        """A minute of reports, a round, and the outcomes of its commands; returns the last
        round.
        """
        return [self._pass() for _ in range(minutes)][-1]

    def _pass(self) -> model.Round:
        self.minute += 1
        up = [name for name in self.brokers if name not in self.down]
        heard = [name for name in up if name not in self.silent]
        whole = [report(name, self.seconds, self._cpu(name), self.brokers[name]) for name in heard]
        for one in whole:
            assert one.bundles is not None
            one.bundles.topics[:] = self.topics_each
        reports: list[model.TelemetryRecord] = [*whole]
        missing = {name: "timed out" for name in up if name in self.silent}
        if self.top is not None:
            reports = [part for one in whole for part in self._parts(one, self.top)]
        events = self.tell(*reports, sweep(self.seconds + 1, *heard, missing=missing))
        commands = [event for event in events if isinstance(event, model.Command)]
        self.commands += commands
        for command in commands:
            self._carry_out(command)
        (done,) = [event for event in events if isinstance(event, model.Round)]
        return done

    def _parts(self, whole: model.LoadReport, top: int) -> list[model.TelemetryRecord]:
        """The parts of a report, and a note of all its bundles if they have changed."""
        assert whole.bundles is not None
        found, names = parts(whole, top), whole.bundles.names
        if self.notes and self._noted.get(whole.broker) != names:
            self._noted[whole.broker] = names
            found.append(model.Owned("c", whole.broker, whole.ts, names))
        return found

    def _carry_out(self, command: model.Command) -> None:
        status = self.executor(command)
        if status is None or command.action == "throttle":
            return
        to = command.destination or (self._emptiest() if command.is_move else command.source)
        if status == "applied" and command.is_move:
            self.move(command.bundle, command.source, to)
        elif status == "applied":
            self.split(command.bundle, command.source, command.boundaries)
        told = outcome(
            command.id,
            command.bundle,
            self.seconds + 5,
            status,
            to if status == "applied" else None,
        )
        self.tell(replace(told, outcome=replace(told.outcome, cost=self.cost)))
        if status == "applied" and self.withdraws:
            ts = T0 + 1000 * self.seconds + 6_000
            self.tell(*(model.Tombstone("c", name, ts) for name in (command.source, to)))

    def move(self, bundle: str, source: str, to: str) -> None:
        self.brokers[to][bundle] = self.brokers[source].pop(bundle)

    def split(self, bundle: str, broker: str, boundaries: Sequence[int]) -> None:
        """Splits a bundle into children of equal load, in the middle without `boundaries`."""
        children = children_of(bundle, boundaries)
        mib = self.brokers[broker].pop(bundle) / len(children)
        self.brokers[broker] |= dict.fromkeys(children, mib)

    def _emptiest(self) -> str:
        return min(self.brokers, key=lambda name: (self._cpu(name), name))

    def _cpu(self, broker: str) -> float:
        return self.idle + self.per_mib * sum(self.brokers[broker].values())


def spread_out(
    brokers: Iterable[str], bundles: int, mib: float = 2.0
) -> dict[str, dict[str, float]]:
    """Brokers with this number of bundles each, all alike."""
    found: dict[str, dict[str, float]] = {}
    for at, name in enumerate(brokers):
        found[name] = {
            f"t/ns/0x{at:04x}{one:04x}_0x{at:04x}{one + 1:04x}": mib for one in range(bundles)
        }
    return found
