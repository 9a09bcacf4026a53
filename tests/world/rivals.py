"""A small cluster whose bundles change owners, pass by pass, for stories about rivals."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Event, LoadReport, Outcome, OutcomeReport, Owned, Round, Skip
from strategies.cluster.rival_state import ForeignMove
from strategies.fold.engine import Engine, EngineSettings
from strategies.fold.outcomes import note_commands
from strategies.settings import RivalSettings, RoundSettings
from strategies.shedding.overload.settings import OverloadSettings
from tests.control_topic import command as any_command
from tests.world.telemetry import T0, bundle, report, sweep

A, B, C = "a:8080", "b:8080", "c:8080"
_COMMAND = any_command(bundle(0), A, B)
#: Seconds between two passes, each of which closes a round.
PASS_S = 20


@dataclass
class Life:
    """Brokers and the numbers of their bundles. `cpu`: percent of each; `started_s`: when brokers
    started, by broker; a broker without one does not say it.
    """

    owned: dict[str, list[int]]
    rivals: RivalSettings = RivalSettings()
    cpu: dict[str, float] = field(default_factory=dict)
    started_s: dict[str, int] = field(default_factory=dict)
    #: Brokers are extensible: reports have figures only, and notes of the collector the bundles.
    noted: bool = False
    cool_down_ms: int = 1_800_000
    leader: str | None = None
    shedding: bool | None = None
    now_s: int = 0
    store: InMemoryStore = field(default_factory=InMemoryStore)
    events: list[Event] = field(default_factory=list)
    told: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: Passes for which brokers list the bundles that they counted last.
    counts_every: int = 1
    counted: dict[str, tuple[int, list[int]]] = field(default_factory=dict)

    def passes(
        self, count: int = 1, *, missing: Iterable[str] = (), gone: Iterable[str] = ()
    ) -> "Life":
        """Passes of the collector; `missing` brokers do not answer, `gone` ones are not listed."""
        away, quiet = set(gone), set(missing)
        for _ in range(count):
            self.now_s += PASS_S
            there = [name for name in self.owned if name not in away | quiet]
            for number, name in enumerate(there):
                for record in self._records(name, self.now_s - 5 + number):
                    self.fold(record)
            pass_ = sweep(self.now_s, *there, missing=dict.fromkeys(sorted(quiet), "no answer"))
            self.fold(replace(pass_, leader=self.leader, shedding=self.shedding))
        return self

    def move(self, number: int, to: str) -> "Life":
        return self.leave(number).gain(number, to=to)

    def move_all(self, *numbers: int, to: str) -> "Life":
        for number in numbers:
            self.move(number, to)
        return self

    def spread(self, *numbers: int) -> "Life":
        """Something unloads bundles to the second and the third broker in turns."""
        for number in numbers:
            self.move(number, B if number % 2 else C)
        return self

    def leave(self, number: int, broker: str | None = None) -> "Life":
        """The bundle leaves all brokers, or this one."""
        names = [*self.owned] if broker is None else [broker]
        for name in names:
            if number in self.owned[name]:
                self.owned[name].remove(number)
        return self

    def gain(self, *numbers: int, to: str) -> "Life":
        """A broker, which may be new, lists more bundles."""
        self.owned.setdefault(to, []).extend(numbers)
        return self

    def fold(self, record: LoadReport | OutcomeReport | object) -> None:
        self.events += self._engine().fold(record, self.store)  # type: ignore[arg-type]

    def command(self, number: int, source: str, destination: str | None) -> "Life":
        """A command as if a round had given it now."""
        now_ms = T0 + self.now_s * 1000
        made = replace(
            _COMMAND,
            id="story",
            bundle=bundle(number),
            source=source,
            destination=destination,
            issued_at_ms=now_ms,
            expires_at_ms=now_ms + 300_000,
        )
        state = self.store.get_cluster()
        self.store.put_cluster(replace(state, rivals=note_commands(state.rivals, [made])))
        return self

    def outcome(self, number: int, status: str, before: str | None, after: str | None) -> "Life":
        ts = T0 + self.now_s * 1000 + 100
        said = Outcome("story", "c", bundle(number), status, None, before, after, 50, ts)  # type: ignore[arg-type]
        self.fold(OutcomeReport("c", ts, said))
        return self

    def moved(self, number: int, source: str, destination: str) -> "Life":
        """A command that is carried out."""
        self.command(number, source, destination).move(number, destination)
        return self.outcome(number, "applied", source, destination)

    @property
    def foreign(self) -> list[tuple[int, str, str]]:
        """The foreign moves: bundle, from, to."""
        rivals = self.store.get_cluster().rivals
        return [
            (_number(move), move.source, move.destination) for move in (*rivals.moves, *rivals.news)
        ]

    @property
    def rounds(self) -> list[Round]:
        return [event for event in self.events if isinstance(event, Round)]

    @property
    def last(self) -> Round:
        return self.rounds[-1]

    @property
    def state(self) -> str:
        assert self.last.state is not None
        return self.last.state.code

    def skip(self, code: str) -> Skip:
        (found,) = [skip for skip in self.last.skips if skip.code == code]
        return found

    def _report(self, name: str, second: int) -> LoadReport:
        at_s, numbers = self.counted.get(name, (-PASS_S * self.counts_every, []))
        if self.now_s - at_s >= PASS_S * self.counts_every:
            numbers = list(self.owned[name])
            self.counted[name] = self.now_s, numbers
        loads: Mapping[str, float] = {bundle(number): 10.0 for number in numbers}
        said = report(name, second, self.cpu.get(name, 50.0) + second / 1e6, loads)
        started = self.started_s.get(name)
        return said if started is None else replace(said, started_ms=T0 + started * 1000)

    def _records(self, name: str, second: int) -> list[LoadReport | Owned]:
        said = self._report(name, second)
        if not self.noted:
            return [said]
        names = tuple(bundle(number) for number in sorted(self.owned[name]))
        owned = Owned("c", name, T0 + second * 1000 + 500, names)
        changed = self.told.get(name) != names
        self.told[name] = names
        assert said.figures is not None
        average = replace(said.figures, usage_average=0.5)
        figures = replace(said, figures=average, bundles=None, started_ms=None)
        return [figures, *([owned] if changed else [])]

    def _engine(self) -> Engine:
        rounds = RoundSettings(interval_ms=PASS_S * 1000, cool_down_ms=self.cool_down_ms)
        return Engine(
            EngineSettings(
                "overload",
                shedding=OverloadSettings(threshold_percent=80.0),
                round=rounds,
                rivals=self.rivals,
            )
        )


def three_brokers(**parts: object) -> Life:
    """Ten bundles each, whose moves have been watched for a while."""
    owned = {name: [10 * at + n for n in range(10)] for at, name in enumerate((A, B, C))}
    parts = {"started_s": dict.fromkeys(owned, -900), **parts}
    # Changes of ownership count from the seventh pass on.
    return Life(owned, **parts).passes(7)  # type: ignore[arg-type]


def _number(move: ForeignMove) -> int:
    return int(move.bundle.rpartition("/")[2][2:4], 16)
