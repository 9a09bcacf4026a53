"""Each field of the state says by what it is bounded, and keeps to it for a busy month."""

from collections import abc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from statistics import median
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import pytest

from strategies.cluster.cluster_state import BrokerState, ClusterState, InMemoryStore
from strategies.cluster.model import Command, OutcomeStatus
from strategies.cluster.move_cost import MoveCost
from strategies.cluster.quota import Bulkhead
from strategies.cluster.remembered_intents import Drain, Intents, Roll
from strategies.cluster.rival_state import Rivals
from strategies.cluster.strategy_memory import BrokerMemory, ClusterMemory
from strategies.fold.engine import EngineSettings
from strategies.settings import RoundSettings
from streaming.state.state_to_bytes import to_bytes
from tests.world.intents import drain, undrain
from tests.world.little_cluster import LittleCluster
from tests.world.telemetry import report

DAYS, BROKERS, BUNDLES = 30, 6, 8
#: Minutes between two passes: with fewer, a month takes minutes.
STEP = 60
PASSES_A_DAY = 24 * 60 // STEP
ANSWERS: tuple[OutcomeStatus | None, ...] = ("applied", "applied", None, "dry-run", "failed")


class Limits(NamedTuple):
    """Of the month: names that exist at a time, and how much of each there is in a day."""

    #: Brokers and bundles that are there, and those that came or went within a day.
    brokers: int = BROKERS + 2
    bundles: int = BROKERS * BUNDLES + 4
    #: Commands and intents of a day, rounds of an hour.
    commands: int = 0
    intents: int = 4
    rounds: int = 60 // STEP + 1


class Bound(NamedTuple):
    """`by`: what bounds the field; `most`: the number of its entries then."""

    by: str
    most: Callable[[Limits], int]


BROKER = Bound("brokers of the cluster, and those that left within a day", lambda of: of.brokers)
TABLE = Bound("a table and a note of each", lambda of: 2 * of.brokers)
BUNDLE = Bound("bundles of the cluster, and those that left within a day", lambda of: of.bundles)
COMMAND = Bound("commands of the last day", lambda of: of.commands)
HOUR = Bound("rounds of the last hour", lambda of: of.rounds)
FIRST = Bound("none after the first round", lambda _: 0)


def each(bound: Bound, *names: str) -> dict[str, Bound]:
    return dict.fromkeys(names, bound)


#: The collections of the state. All other fields are a figure, a time, a name or a text of a
#: record, or an object with fields of its own.
BOUNDS: Mapping[type, Mapping[str, Bound]] = {
    InMemoryStore: {"_brokers": BROKER, "_tables": TABLE},
    ClusterState: {
        **each(BUNDLE, "in_flight", "cooling", "departed", "gained", "advised", "orders"),
        **each(BROKER, "missing", "gone", "trailing", "overtaken"),
        "early": FIRST,
        "spent": HOUR,
        "rehearsed": COMMAND,
        "strays": Bound("producers", lambda of: of.brokers + 2),
        "pauses": Bound("the 64 newest", lambda _: 64),
        "topics": Bound("the 16 newest", lambda _: 16),
    },
    Bulkhead: {"windows": Bound("8 minutes", lambda _: 8)},
    BrokerState: {
        "left_out": Bound("fields of a report", lambda _: 16),
        "left_out_of_table": Bound("one sentence about all bundles", lambda _: 1),
    },
    BrokerMemory: {"history": Bound("samples of an hour, levels of traffic, packed", lambda _: 7)},
    ClusterMemory: {
        **each(BUNDLE, "planned", "split_hits"),
        "table_sizes": Bound("tables of Java, by name", lambda _: 8),
        "rotation": BROKER,
        "moves": COMMAND,
        "episode": Bound("figures", lambda _: 17),
        "left_out": Bound("resources", lambda _: 4),
    },
    Intents: {
        "drains": BROKER,
        "asked": Bound("records of a day, and 100 children of each", lambda of: of.intents),
        "ended": Bound("the 50 newest of the last hour", lambda _: 50),
        "seen": Bound("records of a day", lambda of: of.intents),
        "early": FIRST,
    },
    Drain: {"seen": Bound("the last ten rounds", lambda _: 10), "gone": BUNDLE},
    Roll: {"phases": Bound("the brokers that its record names", lambda of: of.brokers)},
    Rivals: {
        **each(BUNDLE, "left", "arrived", "ours", "suspects", "news", "moves"),
        "absent": BROKER,
        "against_ms": HOUR,
    },
}


class Month:
    """A broker and two bundles get new names every day; drains, foreign moves, a wrong clock."""

    def __init__(self) -> None:
        minute_ms = 60_000 * STEP
        rounds = RoundSettings(
            interval_ms=minute_ms,
            stale_after_ms=2 * minute_ms,
            max_clock_jump_ms=2 * minute_ms,
            clock_recovery_ms=3 * minute_ms,
            command_ttl_ms=minute_ms,
            cool_down_ms=3 * minute_ms,
        )
        self.cluster = LittleCluster(
            {f"b0-{at}:8080": self._bundles(0, at) for at in range(BROKERS)},
            settings=EngineSettings(round=rounds),
            executor=self._answer,
            cost=MoveCost(unowned_ms=200, first_message_ms=300, topics=5, unloads=1),
        )
        self.day = self._answers = 0

    def lives(self) -> Iterator[InMemoryStore]:
        """The state after each pass of a day."""
        self.day += 1
        oldest = next(iter(self.cluster.brokers))
        happens: Mapping[int, Callable[[], object]] = {
            1: lambda: self.cluster.tell(drain(self.day * 4, self.cluster.seconds, oldest)),
            6: lambda: self._replace(oldest),
            10: self._split,
            13: self._move_something,
            16: self._drain_for_an_hour,
            20: self._stray,
        }
        for at in range(PASSES_A_DAY):
            if at in happens:
                happens[at]()
            self._shift_load(at)
            self.cluster.minute += STEP - 1
            self.cluster.passes()
            yield self.cluster.store

    def _answer(self, _: Command) -> OutcomeStatus | None:
        self._answers += 1
        return ANSWERS[self._answers % len(ANSWERS)]

    def _bundles(self, day: int, at: int) -> dict[str, float]:
        # The first broker has more: there is something to do.
        return {
            f"t/ns{day}/0x{at:04x}{one:04x}_0x{at:04x}{one + 1:04x}": 2.0 + 4.0 * (at == 0)
            for one in range(BUNDLES)
        }

    def _replace(self, broker: str) -> None:
        """A broker goes for good, its bundles go to a new one with a new name."""
        bundles = self.cluster.brokers.pop(broker)
        self.cluster.brokers[f"b{self.day}:8080"] = bundles

    def _split(self) -> None:
        """The oldest two bundles make room for two new ones."""
        for at, (broker, bundles) in enumerate(list(self.cluster.brokers.items())[:2]):
            if bundles:
                bundles.pop(next(iter(bundles)))
            self.cluster.brokers[broker][f"t/ns{self.day}/0x00{at:02x}0000_0x00{at:02x}ffff"] = 3.0

    def _move_something(self) -> None:
        source, to = list(self.cluster.brokers)[1:3]
        for name in list(self.cluster.brokers[source])[:1]:
            self.cluster.move(name, source, to)

    def _drain_for_an_hour(self) -> None:
        newest = list(self.cluster.brokers)[-1]
        seconds, number = self.cluster.seconds, self.day * 4 + 1
        self.cluster.tell(drain(number, seconds, newest), undrain(number + 1, seconds + 1, newest))

    def _stray(self) -> None:
        self.cluster.tell(report(f"b{self.day}:8080", self.cluster.seconds + 40_000, 10.0))

    def _shift_load(self, at: int) -> None:
        """Two brokers, one after the other, are busy for two passes."""
        heavy = {3: 1, 4: 1, 18: 4, 19: 4}.get(at)
        for number, bundles in enumerate(self.cluster.brokers.values()):
            for name in bundles:
                bundles[name] = 6.0 if number == heavy else 2.0


class Seen(NamedTuple):
    """The most entries of each field, and bytes of the whole state, by day."""

    entries: Mapping[tuple[type, str], list[int]]
    bytes: list[int]
    commands: int


@cache
def month() -> Seen:
    entries: dict[tuple[type, str], list[int]] = {}
    sizes, played, most_commands = [0] * DAYS, Month(), 0
    for day in range(DAYS):
        before = len(played.cluster.commands)
        for store in played.lives():
            sizes[day] = max(sizes[day], size_of(store))
            for cls, name, value in values(store):
                if name in BOUNDS[cls]:
                    most = entries.setdefault((cls, name), [0] * DAYS)
                    most[day] = max(most[day], len(value or ()))
        most_commands = max(most_commands, len(played.cluster.commands) - before)
    return Seen(entries, sizes, most_commands)


def size_of(store: InMemoryStore) -> int:
    # The 64 newest pauses take weeks to come together.
    state = replace(store.get_cluster(), pauses=())
    rows = [*to_bytes(state).items(), *store._tables.items()]
    return sum(len(name) + len(row) for name, row in rows)


def values(store: InMemoryStore) -> Iterator[tuple[type, str, Any]]:
    """Every field of everything in the state."""
    state, brokers = store.get_cluster(), list(store.brokers())
    intents = state.intents
    rolls = () if intents.roll is None else (intents.roll,)
    parts = (store, state, state.memory, intents, state.rivals, state.bulkhead, *rolls)
    of_brokers = (*intents.drains.values(), *brokers, *(broker.memory for broker in brokers))
    for one in (*parts, *of_brokers):
        for field in fields(one):
            yield type(one), field.name, getattr(one, field.name)


def is_collection(hint: Any) -> bool:
    kind = get_origin(hint) or hint
    if kind in (Union, UnionType):
        return any(map(is_collection, get_args(hint)))
    if not isinstance(kind, type) or issubclass(kind, str | bytes) or hasattr(kind, "_fields"):
        return False
    return issubclass(kind, abc.Mapping | abc.Sequence | abc.Set)


@pytest.mark.parametrize("cls", BOUNDS, ids=lambda cls: cls.__name__)
def test_every_collection_says_by_what_it_is_bounded(cls: Any) -> None:
    """A new field fails here until it has a bound."""
    hints = get_type_hints(cls)
    assert {one.name for one in fields(cls) if is_collection(hints[one.name])} == {*BOUNDS[cls]}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("cls", "name"), [(cls, name) for cls, bounds in BOUNDS.items() for name in bounds]
)
def test_a_field_stays_within_its_bound_for_a_month(cls: type, name: str) -> None:
    seen = month()
    limits = Limits(commands=seen.commands)
    assert max(seen.entries.get((cls, name), [0])) <= BOUNDS[cls][name].most(limits)


@pytest.mark.heavy
def test_the_state_is_not_larger_at_the_end_of_the_month_than_at_its_beginning() -> None:
    """A day's size is that of its peak: compared are the usual day and the largest one."""
    sizes = month().bytes
    assert median(sizes[-10:]) <= 1.02 * median(sizes[1:11])
    assert max(sizes[-10:]) <= max(sizes[:11])


@pytest.mark.heavy
def test_the_month_uses_what_it_bounds() -> None:
    """Otherwise the test of the bounds would be one of an idle cluster."""
    seen = month()
    used = {name for (_, name), most in seen.entries.items() if max(most) > 0}
    assert seen.commands > 5
    assert {"in_flight", "cooling", "orders", "rehearsed", "spent", "gone", "moves"} <= used
    assert {"drains", "seen", "ours", "absent", "pauses", "departed", "against_ms"} <= used
