"""How far two shedders agree: which bundles both moved, which only one, from which brokers, how much later, and why the other did not.

The agreement is an F1 score corrected for chance. F1 = 2 both / (2 both + only Pulsar + only ours): of all moves that either made, the part
that the other made too, for the same bundle, from the same broker, within the time. Two that pick at random agree as well: a move of
Pulsar's meets one of ours by chance in (our moves within the time) / (bundles) of all cases. (F1 - by chance) / (1 - by chance) is 1 for
the same moves, 0 for moves that have nothing to do with each other, and less for shedders that avoid each other's bundles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rebalancer.analysis.explain.history import DecisionHistory
from rebalancer.analysis.shadow.ownership import Moved
from rebalancer.analysis.shadow.window import ComparedWindow
from strategies.model import Command, Round


@dataclass(frozen=True, slots=True)
class MovePair:
    """One bundle that Pulsar moved, that we wanted to move, or both. `why`: what the one that did not want it had to say.

    `person`: why the move is none of Pulsar's shedder, so it is not compared; empty where that cannot be told.
    `lag_ms`: how much later we decided than Pulsar's move was seen; negative when we were first.
    `same_destination`: None when we named none.
    """

    cluster: str
    bundle: str
    source: str
    moved: Moved | None
    wanted: Command | None
    why: str
    person: str = ""

    @property
    def ts(self) -> int:
        return self.moved.ts if self.moved is not None else self.wanted.issued_at_ms if self.wanted is not None else 0

    @property
    def verdict(self) -> str:
        if self.person:
            return "a person"
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
    """All pairs in order of time. `by_chance`: F1 of two that pick bundles at random; None where no bundle is known."""

    pairs: tuple[MovePair, ...]
    by_chance: float | None = None

    def count(self, verdict: str) -> int:
        """Of one verdict."""
        return sum(pair.verdict == verdict for pair in self.pairs)

    @property
    def f1(self) -> float | None:
        """Of the moves of both (0–1); None when neither moved any."""
        both, one = self.count("both"), self.count("only Pulsar") + self.count("only ours")
        return 2 * both / (2 * both + one) if both or one else None

    @property
    def agreement(self) -> float | None:
        """F1 corrected for chance, see above; None when neither moved any, or when chance alone would do as well."""
        if self.f1 is None or self.by_chance is None or self.by_chance >= 1:
            return None
        return (self.f1 - self.by_chance) / (1 - self.by_chance)

    @property
    def by_bundle(self) -> float | None:
        """The part (0–1) of all bundles that either moved that both moved; None when neither moved any."""
        compared = len(self.pairs) - self.count("a person")
        return self.count("both") / compared if compared else None

    @property
    def by_broker(self) -> float | None:
        """The same of brokers that either took bundles from."""
        rows = [row for row in self.brokers() if row.both or row.only_pulsar or row.only_ours]
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


def compare(
    moved: Sequence[Moved],
    history: DecisionHistory,
    within_ms: int,
    *,
    bundles: Mapping[str, int] | None = None,
    people: Mapping[Moved, str] | None = None,
    window: ComparedWindow = ComparedWindow(),
) -> Agreement:
    """Pairs each move of Pulsar with our nearest proposal for the same bundle and source that is no further than `within_ms` from it.

    Our commands were not carried out, so rounds repeated them: those within `within_ms` of an earlier one for the same bundle and source
    are the same proposal.
    `bundles`: how many each cluster has; `people`: moves that are none of the shedder's, and why. Pairs outside of the window are left out.
    """
    proposals = _proposals(history.commands, within_ms)
    pairs = []
    for move in sorted(moved, key=lambda one: (one.ts, one.bundle)):
        near = [proposal for proposal in proposals if _same(proposal, move) and abs(proposal.issued_at_ms - move.ts) <= within_ms]
        proposal = min(near, key=lambda one: abs(one.issued_at_ms - move.ts), default=None)
        if proposal is not None:
            proposals.remove(proposal)
        why = "" if proposal is not None else _why_not(move, history.rounds)
        pairs.append(MovePair(move.cluster, move.bundle, move.source, move, proposal, why, (people or {}).get(move, "")))
    pairs += [
        MovePair(proposal.cluster, proposal.bundle, proposal.source, None, proposal, f"{proposal.code}: {proposal.text}")
        for proposal in proposals
    ]
    found = tuple(sorted((pair for pair in pairs if pair.ts in window), key=lambda pair: (pair.ts, pair.bundle)))
    return Agreement(found, _by_chance(found, bundles or {}, within_ms))


def _by_chance(pairs: Sequence[MovePair], bundles: Mapping[str, int], within_ms: int) -> float | None:
    """F1 that two would have that move as many bundles at the same times, each of them at random."""
    theirs = [pair.moved for pair in pairs if pair.moved is not None and not pair.person]
    ours = [pair.wanted for pair in pairs if pair.wanted is not None and not pair.person]
    if not theirs or not ours:
        return 0.0
    if any(not bundles.get(move.cluster) for move in theirs):
        return None
    meet = 0.0
    for move in theirs:
        near = sum(proposal.cluster == move.cluster and abs(proposal.issued_at_ms - move.ts) <= within_ms for proposal in ours)
        meet += min(1.0, near / bundles[move.cluster])
    return 2 * min(meet, len(ours)) / (len(theirs) + len(ours))


def _proposals(commands: Sequence[Command], within_ms: int) -> list[Command]:
    newest: dict[tuple[str, str, str], int] = {}
    found = []
    for command in sorted(commands, key=lambda one: one.issued_at_ms):
        if not command.is_move:
            continue
        key = command.cluster, command.bundle, command.source
        if key not in newest or command.issued_at_ms - newest[key] > within_ms:
            found.append(command)
        newest[key] = command.issued_at_ms
    return found


def _same(proposal: Command, move: Moved) -> bool:
    return (proposal.cluster, proposal.bundle, proposal.source) == (move.cluster, move.bundle, move.source)


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
