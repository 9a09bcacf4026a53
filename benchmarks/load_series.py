"""`python -m benchmarks.load_series`: strategies on load of which nobody here knows the cause.

Six equal brokers carry 96 bundles for 460 minutes. Each bundle follows a series of its own, and the
brokers are half full on average. Load reports and sweeps of each minute go through the plain loop,
whose commands are carried out at once. References are *no moves*, and *hindsight*: the bundles
dealt once, the largest first, by what they carry on average in these minutes, which nobody knows
before.

Cards: `cron` (half of the bundles are on for a quarter or half of a period of 10 to 120 minutes),
`no-memory` and `memory` (series with the variation and the memory of virtual machines of PlanetLab
and Google), and every file of `--traces`: `values` of float64[series, columns], a day each.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.figures import table
from benchmarks.options import number, options, seeds
from benchmarks.simulated_runs import counted_runs
from benchmarks.uncertified import UNCERTIFIED
from pulsar_rebalancer.lab.plain_loop import PlainLoop
from pulsar_rebalancer.settings.merge_sources import load
from sinks.wire.record_decoding import Position, decode_command
from strategies.bundles import Floats, Ints
from tests.telemetry_lines import bundle, load_report, sweep

MINUTES, BUNDLES, BROKERS = 460, 96, 6
#: Points of a broker without bundles, and that bundles add on average.
IDLE, LOAD = 5.0, 45.0
#: Messages/s of 1 KiB, in and as many out, of one point.
_RATE = 600.0
_FULL = 85.0
_DAY_MINUTES = 1440
#: Variation of the sizes of bundles (of the logarithm).
_SIZES = 0.4
#: Correlation of what fades slowly from one five minutes to the next.
_FADING = 0.97
_PERIODS, _PARTS = (10, 20, 30, 60, 120), (0.25, 0.5)
_NAMES = [bundle(at) for at in range(BUNDLES)]
_BROKERS = [f"b{at}:8080" for at in range(BROKERS)]
_MIB = 2.0**20

Chance = np.random.Generator
Card = Callable[[Chance], Floats]


@dataclass(frozen=True, slots=True)
class Played:
    """A run. `spreads`: points, by minute; `moved`: bytes/s; `back`: moves to a broker that the
    bundle had left; `full`: minutes of brokers above 85 points.
    """

    spreads: Sequence[float]
    moved: float
    moves: int
    back: int
    full: int


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the medians of each card and strategy over the seeds."""
    parser = options("benchmarks.load_series", __doc__ or "")
    parser.add_argument("--traces", type=Path, help="folder of .npz files")
    seeds(parser, "1-10")
    strategies = ("steady", "threshold", "avg")
    parser.add_argument("--strategies", nargs="+", default=strategies)
    number(parser, "--jobs", os.cpu_count() or 1, "processes")
    chosen = parser.parse_args(arguments)
    cards = dict(CARDS)
    for file in sorted(chosen.traces.glob("*.npz")) if chosen.traces else ():
        cards[file.stem] = partial(_traced, file)
    cases = [
        (card, strategy)
        for card in cards
        for strategy in ("hindsight", "no moves", *chosen.strategies)
    ]
    tasks = [
        partial(played, cards[card], strategy, seed)
        for card, strategy in cases
        for seed in chosen.seeds
    ]
    runs = iter(counted_runs(tasks, chosen.jobs))
    rows = [_row(*case, [next(runs) for _ in chosen.seeds]) for case in cases]
    title = f"Medians of {len(chosen.seeds)}"
    print(json.dumps(rows, indent=2) if chosen.json else table(title, rows))


def _row(card: str, strategy: str, runs: Sequence[Played]) -> Mapping[str, object]:
    figures: dict[str, list[float]] = {
        "typical spread": [median(one.spreads) for one in runs],
        "MiB/s moved": [one.moved / _MIB for one in runs],
        "moves": [one.moves for one in runs],
        "back": [one.back for one in runs],
        "full minutes": [one.full for one in runs],
    }
    medians = {name: f"{median(values):.1f}" for name, values in figures.items()}
    return {"card": card, "strategy": strategy, **medians}


def played(card: Card, strategy: str, seed: int) -> Played:
    """A run of one strategy, or of a reference."""
    chance = np.random.default_rng(seed)
    series = card(chance) * np.exp(chance.normal(0, _SIZES, BUNDLES))[:, None]
    loads = series * (LOAD * BROKERS / series.sum(axis=0).mean())
    owners = chance.integers(0, BROKERS, BUNDLES)
    if strategy == "hindsight":
        owners = _dealt(loads.mean(axis=1))
    cluster = _Cluster(loads, owners)
    decides = strategy not in ("hindsight", "no moves")
    engine = load(flags=[f"shedding.strategy={strategy}"] if decides else []).engine
    loop, offsets = PlainLoop(replace(engine, shedders=UNCERTIFIED)), count(1)
    for minute in range(MINUTES):
        cluster.record(minute)
        for line in cluster.lines(minute) if decides else ():
            for row in loop.feed(Position("series", 0, next(offsets)), line):
                if row.kind == "commands":
                    command = decode_command(row.value)
                    cluster.move(command.bundle, command.destination, minute)
    return cluster.played()


def _dealt(loads: Floats) -> Ints:
    owners, sums = np.zeros(BUNDLES, dtype=np.int64), np.zeros(BROKERS)
    for at in np.argsort(-loads):
        owners[at] = sums.argmin()
        sums[owners[at]] += loads[at]
    return owners


class _Cluster:
    """Bundles with their loads (points, float64[bundles, minutes]) and owners (rows of brokers)."""

    def __init__(self, loads: Floats, owners: Ints) -> None:
        self._loads, self._owners = loads, owners
        self._left: set[tuple[str, int]] = set()
        self._spreads: list[float] = []
        self._moved, self._moves, self._back, self._full = 0.0, 0, 0, 0

    def _usage(self, minute: int) -> Floats:
        loads = np.bincount(self._owners, self._loads[:, minute], minlength=BROKERS)
        return np.asarray(IDLE + loads, dtype=np.float64)

    def record(self, minute: int) -> None:
        usage = self._usage(minute)
        self._spreads.append(float(np.ptp(usage)))
        self._full += int((usage > _FULL).sum())

    def lines(self, minute: int) -> list[bytes]:
        """The telemetry of a minute."""
        lines, usage = list[bytes](), self._usage(minute)
        for row, name in enumerate(_BROKERS):
            mine = np.flatnonzero(self._owners == row).tolist()
            rates = {_NAMES[at]: _RATE * float(self._loads[at, minute]) for at in mine}
            seconds = 60 * minute + 0.1 * row
            lines.append(load_report(name, seconds, rates, min(100.0, float(usage[row]))))
        return [*lines, sweep(60 * minute + 1, *_BROKERS)]

    def move(self, name: str, destination: str | None, minute: int) -> None:
        if destination not in _BROKERS:
            return
        at, row = _NAMES.index(name), _BROKERS.index(destination)
        self._back += (name, row) in self._left
        self._left.add((name, int(self._owners[at])))
        self._moved += 2048 * _RATE * float(self._loads[at, minute])
        self._moves += 1
        self._owners[at] = row

    def played(self) -> Played:
        return Played(self._spreads, self._moved, self._moves, self._back, self._full)


def _cron(chance: Chance) -> Floats:
    loads, minutes = np.ones((BUNDLES, MINUTES)), np.arange(MINUTES)
    for row in range(BUNDLES // 2):
        period, part = chance.choice(_PERIODS), chance.choice(_PARTS)
        loads[row] = (minutes + chance.uniform(0, period)) % period < part * period
    return loads


def _like(lasting: float, within: float, between: float, chance: Chance) -> Floats:
    """float64[bundles, minutes]: `lasting`: part of the variance that fades over hours, while the
    rest is new every five minutes; `within`, `between`: variation of a bundle and of bundles.
    """
    steps = MINUTES // 5 + 1
    new, slow = chance.normal(size=(2, BUNDLES, steps))
    for step in range(1, steps):
        slow[:, step] = _FADING * slow[:, step - 1] + (1 - _FADING**2) ** 0.5 * slow[:, step]
    varying = within * (lasting**0.5 * slow + (1 - lasting) ** 0.5 * new)
    return _by_minute(np.exp(varying + between * chance.normal(size=(BUNDLES, 1))))


def _traced(file: Path, chance: Chance) -> Floats:
    values = np.load(file)["values"].astype(np.float64)
    rows = chance.choice(len(values), BUNDLES, replace=len(values) < BUNDLES)
    first = chance.integers(0, _DAY_MINUTES - MINUTES)
    return _by_minute(values[rows])[:, first : first + MINUTES]


def _by_minute(values: Floats) -> Floats:
    """Series of five minutes, or of minutes, by minute."""
    columns = values.shape[1]
    if columns >= _DAY_MINUTES:
        return values
    at = np.arange(0, columns, 0.2)
    return np.array([np.interp(at, np.arange(columns), row) for row in values])


CARDS: Mapping[str, Card] = {
    "cron": _cron,
    "no-memory": partial(_like, 0.05, 0.7, 0.9),
    "memory": partial(_like, 0.85, 0.15, 0.5),
}

if __name__ == "__main__":
    main()
