"""How far two shedders agree: which bundles both moved, which only one, from which brokers, how much later, and why the other did not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from cli.explain.history import History
from cli.shadow.ownership import Moved
from strategies.model import Command, Round


@dataclass(frozen=True, slots=True)
class Pair:
    """One bundle that Pulsar moved, that we wanted to move, or both. `why`: what the one that did not want it had to say.

    `lag_ms`: how much later we decided than Pulsar's move was seen; negative when we were first.
    `same_destination`: None when we named none.
    """

    cluster: str
    bundle: str
    source: str
    moved: Moved | None
    wanted: Command | None
    why: str

    @property
    def ts(self) -> int:
        return self.moved.ts if self.moved is not None else self.wanted.issued_at_ms if self.wanted is not None else 0

    @property
    def verdict(self) -> str:
        return "both" if self.moved and self.wanted else "only Pulsar" if self.moved else "only ours"

    @property
    def lag_ms(self) -> int | None:
        return self.wanted.issued_at_ms - self.moved.ts if self.moved and self.wanted else None

    @property
    def same_destination(self) -> bool | None:
        if self.moved is None or self.wanted is None or self.wanted.destination is None:
            return None
        return self.moved.destination == self.wanted.destination


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """How many bundles left a broker, by verdict."""

    cluster: str
    broker: str
    both: int
    only_pulsar: int
    only_ours: int


@dataclass(frozen=True)
class Agreement:
    """All pairs in order of time."""

    pairs: tuple[Pair, ...]

    def count(self, verdict: str) -> int:
        """Of one verdict."""
        return sum(pair.verdict == verdict for pair in self.pairs)

    @property
    def by_bundle(self) -> float | None:
        """The part (0–1) of all bundles that either moved that both moved; None when neither moved any."""
        return self.count("both") / len(self.pairs) if self.pairs else None

    @property
    def by_broker(self) -> float | None:
        """The same of brokers that either took bundles from."""
        rows = self.brokers()
        return sum(bool(row.both or (row.only_pulsar and row.only_ours)) for row in rows) / len(rows) if rows else None

    @property
    def lag_ms(self) -> float | None:
        """Median."""
        lags = [pair.lag_ms for pair in self.pairs if pair.lag_ms is not None]
        return median(lags) if lags else None

    def brokers(self) -> list[BrokerRow]:
        """In order of name."""
        counts = Counter((pair.cluster, pair.source, pair.verdict) for pair in self.pairs)
        names = sorted({(pair.cluster, pair.source) for pair in self.pairs})
        return [BrokerRow(*name, *(counts[(*name, verdict)] for verdict in ("both", "only Pulsar", "only ours"))) for name in names]


def compare(moved: Sequence[Moved], history: History, within_ms: int) -> Agreement:
    """Pairs each move of Pulsar with the nearest wish of ours for the same bundle that lies no further than `within_ms` from it.

    Nobody carried our wishes out, so they were repeated: those within `within_ms` of an earlier one for the same bundle are the same wish.
    """
    wishes = _wishes(history.commands, within_ms)
    pairs = []
    for move in sorted(moved, key=lambda one: (one.ts, one.bundle)):
        near = [wish for wish in wishes if _same(wish, move) and abs(wish.issued_at_ms - move.ts) <= within_ms]
        wish = min(near, key=lambda one: abs(one.issued_at_ms - move.ts), default=None)
        if wish is not None:
            wishes.remove(wish)
        why = "" if wish is not None else _why_not(move, history.rounds)
        pairs.append(Pair(move.cluster, move.bundle, move.source, move, wish, why))
    pairs += [Pair(wish.cluster, wish.bundle, wish.source, None, wish, f"{wish.code}: {wish.text}") for wish in wishes]
    return Agreement(tuple(sorted(pairs, key=lambda pair: (pair.ts, pair.bundle))))


def _wishes(commands: Sequence[Command], within_ms: int) -> list[Command]:
    newest: dict[tuple[str, str], int] = {}
    found = []
    for command in sorted(commands, key=lambda one: one.issued_at_ms):
        if command.action not in ("unload", "transfer"):
            continue
        key = command.cluster, command.bundle
        if key not in newest or command.issued_at_ms - newest[key] > within_ms:
            found.append(command)
        newest[key] = command.issued_at_ms
    return found


def _same(wish: Command, move: Moved) -> bool:
    return (wish.cluster, wish.bundle) == (move.cluster, move.bundle)


def _why_not(move: Moved, rounds: Sequence[Round]) -> str:
    """What the last round before Pulsar's move had to say about the bundle, its broker, or the cluster."""
    before = [done for done in rounds if done.cluster == move.cluster and done.ts <= move.ts]
    if not before:
        return "no round of ours had closed yet"
    last = before[-1]
    about = (("bundle", move.bundle), ("broker", move.source), ("cluster", move.cluster))
    for subject, name in about:
        for skip in last.skips:
            if skip.subject == subject and (name in skip.names or subject == "cluster"):
                return f"round {last.round}, {subject}: {skip.code}: {skip.text}"
    usage, mean = last.usage.get(move.source), sum(last.usage.values()) / len(last.usage) if last.usage else 0.0
    if usage is None:
        return f"round {last.round} did not judge {move.source}: {last.stale.get(move.source, 'it had not reported')}"
    return f"round {last.round} did not pick it: {move.source} at {usage:.1%}, mean {mean:.1%}"
