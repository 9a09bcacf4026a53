"""What every placement answers to, and what it states about itself; all other packages know nothing else of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from math import fsum, inf
from typing import Any, Protocol

import numpy as np

from strategies.bundles.bundle_loads import RATE_IN, RATE_OUT
from strategies.java.hash_order import concurrent_hash_map_order
from strategies.model import BrokerLoad, Evidence, Memory
from strategies.settings import Mode

Row = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Averages:
    """A bundle's averages (columns as in BundleLoads), over at most 10 and 1000 samples, and its number of topics."""

    short: Row
    long: Row
    short_samples: int = 10
    long_samples: int = 1000
    topics: int = 0

    @property
    def long_rate(self) -> float:
        """Long-term messages/s in + out."""
        return self.long[RATE_IN] + self.long[RATE_OUT]


_DEFAULT: Row = (50.0, 50.0, 50_000.0, 50_000.0)
#: What Pulsar assumes of a bundle that nobody has measured.
UNKNOWN = Averages(_DEFAULT, _DEFAULT, 0, 0)


@dataclass(frozen=True)
class Candidate:
    """A broker that may take the bundle, and the moves that its figures do not show yet.

    `usage`: its largest weighted resource (fraction); `expected`: the same with these moves counted.
    `arriving` (Pulsar: `preallocatedBundleData`), `leaving`: bundle → averages, in the order in which the moves were decided.
    """

    load: BrokerLoad
    usage: float
    expected: float
    arriving: Mapping[str, Averages] = field(default_factory=dict)
    leaving: Mapping[str, Averages] = field(default_factory=dict)

    @cached_property
    def long_rates(self) -> tuple[float, float]:
        """Long-term messages/s in and out of all bundles, summed one after the other as Java does."""
        summary = self.load.summary
        if summary is not None:
            return summary.rate_in, summary.rate_out
        long = self.load.bundles.long
        if not len(long):
            return 0.0, 0.0
        with np.errstate(all="ignore"):
            return float(np.cumsum(long[:, RATE_IN])[-1]), float(np.cumsum(long[:, RATE_OUT])[-1])

    @cached_property
    def arriving_rate(self) -> float:
        """Long-term messages/s of the bundles on their way, summed in the order of Java's map."""
        rates = [averages.long_rate for averages in self.arriving.values()]
        total = 0.0
        for position in concurrent_hash_map_order(list(self.arriving)).tolist() if len(rates) > 1 else range(len(rates)):
            total += rates[position]
        return total

    @cached_property
    def expected_rate(self) -> float:
        """Long-term messages/s in + out with every move counted; the order of bundles does not matter. Not finite for nonsense."""
        long = self.load.bundles.long
        try:
            total = fsum([*long[:, RATE_IN].tolist(), *long[:, RATE_OUT].tolist()])
        except (OverflowError, ValueError):
            return inf
        come, gone = (sum(moved.long_rate for moved in moves.values()) for moves in (self.arriving, self.leaving))
        return max(total + come - gone, 0.0)  # in this order NaN stays NaN


@dataclass(frozen=True)
class Request:
    """A bundle that needs a place. `candidates`: broker → what is known of it, None where nothing is. `seed` decides among equals."""

    bundle: str
    averages: Averages
    candidates: Mapping[str, Candidate | None]
    seed: str


@dataclass(frozen=True, slots=True)
class Placement:
    """`best`: the brokers among which Pulsar would draw, by name; `chosen`: the one drawn, None for none. `memory`: to hand in next time.

    `code` is stable, `text` reads on from the name of the chosen broker, or from that of the bundle when there is none.
    """

    best: tuple[str, ...]
    chosen: str | None
    memory: Memory
    code: str
    text: str
    evidence: Evidence = field(default_factory=dict)


class Placer(Protocol):
    """A rule that picks a broker for a bundle. Holds settings only; everything it remembers is in `Memory`."""

    def open_round(self, brokers: Mapping[str, Candidate], memory: Memory) -> Memory:
        """Memory at the beginning of a round, before anything is placed. `brokers`: all that may be judged."""

    def place(self, request: Request, memory: Memory) -> Placement:
        """One bundle. Never raises on a legal request."""


@dataclass(frozen=True, slots=True)
class PlacementStrategy:
    """All that the product knows of one placement: `fixed` and `parity` make the rule of its settings, `summary` is a sentence.

    `remembers`: whether its memory changes in a round that places nothing.
    """

    name: str
    pulsar_class: str
    summary: str
    settings: type
    fixed: Callable[[Any], Placer]
    parity: Callable[[Any], Placer]
    remembers: bool = False

    def build(self, settings: object, mode: Mode) -> Placer:
        """The rule with these settings, which are of the class `settings`."""
        return (self.parity if mode == "parity" else self.fixed)(settings)


def seed_of(cluster: str, round_: int, bundle: str) -> str:
    """What a draw depends on: nothing but the question."""
    return "\x1f".join((cluster, str(round_), bundle))


def draw(best: Sequence[str], seed: str) -> str:
    """One of these brokers, each with the same chance over all seeds; the order they are given in does not matter."""
    number = int.from_bytes(blake2b(seed.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    return sorted(best)[number % len(best)]


def unplaced(memory: Memory) -> Placement:
    """The answer for a request without candidates."""
    return Placement((), None, memory, "no-candidates", "may go to no broker")


def unknown_broker(memory: Memory, broker: str) -> Placement:
    """The answer where Java throws, because one of the candidates has no load data."""
    return Placement((), None, memory, "unknown-broker", f"cannot be placed: nothing is known of {broker}, one of the candidates")
