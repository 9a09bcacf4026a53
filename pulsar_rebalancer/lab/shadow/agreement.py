"""The agreement of two shedders: bundles that both or only one moved, source brokers, time lag, and
why the other one did not move them.

The agreement is an F1 score corrected for chance. F1 = 2 both / (2 both + only Pulsar + only ours):
the part of the moves of either that the other one made too, of the same bundle, from the same
broker, within the time. Shedders that choose at random agree in part: a move of Pulsar matches one
of ours by chance in (our moves within the time) / (bundles) of all cases. (F1 - by chance) / (1 -
by chance) is 1 for equal moves, 0 for independent moves, and negative for shedders that avoid each
other's bundles.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pulsar_rebalancer.decisions.log import DecisionLog
from pulsar_rebalancer.decisions.moments import moment_ms
from pulsar_rebalancer.lab.shadow.ownership import Moved
from strategies.cluster.model import Command, Round
from strategies.errors import SettingsError
from strategies.ordered_sum import ordered_sum


@dataclass(frozen=True, slots=True)
class ComparedWindow:
    """Start and end in ms, inclusive; None = open."""

    since_ms: int | None = None
    until_ms: int | None = None

    def __contains__(self, ts: int) -> bool:
        return (self.since_ms is None or ts >= self.since_ms) and (
            self.until_ms is None or ts <= self.until_ms
        )


@dataclass(frozen=True, slots=True)
class MovePair:
    """One bundle that Pulsar moved, that we proposed to move, or both. `why`: the reason of the
    shedder that did not move it.

    `person`: evidence that Pulsar's shedder did not make the move, which excludes it from the
    comparison; empty without evidence. `lag_ms`: time from Pulsar's move, as seen in the telemetry,
    to our decision; negative if ours was first. `same_destination`: None if our command named no
    destination.
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
        return (
            self.moved.ts
            if self.moved is not None
            else self.wanted.issued_at_ms
            if self.wanted is not None
            else 0
        )

    @property
    def verdict(self) -> str:
        if self.person:
            return "a person"
        return (
            "both" if self.moved and self.wanted else "only Pulsar" if self.moved else "only ours"
        )

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
    """Number of bundles that left a broker, by verdict."""

    cluster: str
    broker: str
    both: int
    only_pulsar: int
    only_ours: int


@dataclass(frozen=True)
class Agreement:
    """All pairs in order of time. `by_chance`: F1 of two shedders that choose bundles at random;
    None if no bundle is known.
    """

    pairs: tuple[MovePair, ...]
    by_chance: float | None = None

    def count(self, verdict: str) -> int:
        """Number of pairs with this verdict."""
        return sum(pair.verdict == verdict for pair in self.pairs)

    @property
    def f1(self) -> float | None:
        """F1 of the moves (0–1); None if there are none."""
        both, one = self.count("both"), self.count("only Pulsar") + self.count("only ours")
        return 2 * both / (2 * both + one) if both or one else None

    @property
    def agreement(self) -> float | None:
        """F1 corrected for chance (see the module); None without moves, or if F1 by chance is 1."""
        if self.f1 is None or self.by_chance is None or self.by_chance >= 1:
            return None
        return (self.f1 - self.by_chance) / (1 - self.by_chance)

    @property
    def by_bundle(self) -> float | None:
        """Part (0–1) of the moved bundles that both moved; None if none moved."""
        compared = len(self.pairs) - self.count("a person")
        return self.count("both") / compared if compared else None

    @property
    def by_broker(self) -> float | None:
        """Part (0–1) of the source brokers from which both took bundles; None if there are none."""
        rows = [row for row in self.brokers() if row.both or row.only_pulsar or row.only_ours]
        return (
            sum(bool(row.both or (row.only_pulsar and row.only_ours)) for row in rows) / len(rows)
            if rows
            else None
        )

    @property
    def lag_ms(self) -> float | None:
        """Median lag of the pairs."""
        lags = [pair.lag_ms for pair in self.pairs if pair.lag_ms is not None]
        return median(lags) if lags else None

    def brokers(self) -> list[BrokerRow]:
        """One row per source broker, ordered by name."""
        counts = Counter((pair.cluster, pair.source, pair.verdict) for pair in self.pairs)
        return [
            BrokerRow(
                *name,
                *(counts[(*name, verdict)] for verdict in ("both", "only Pulsar", "only ours")),
            )
            for name in sorted({(pair.cluster, pair.source) for pair in self.pairs})
        ]


def compare(
    moved: Sequence[Moved],
    history: DecisionLog,
    within_ms: int,
    *,
    bundles: Mapping[str, int] | None = None,
    people: Mapping[Moved, str] | None = None,
    window: ComparedWindow = ComparedWindow(),
) -> Agreement:
    """Pairs each move of Pulsar with our nearest proposal for the same bundle and source, at most
    `within_ms` apart.

    Our commands are not applied in shadow mode, so rounds repeat them: a command within `within_ms`
    of an earlier one for the same bundle and source is the same proposal.
    `bundles`: number of bundles per cluster; `people`: moves that the shedder did not make, and
    why. Leaves out pairs outside the window.
    """
    proposals = _proposals(history.commands, within_ms)
    pairs = []
    for move in sorted(moved, key=lambda one: (one.ts, one.bundle)):
        near = [
            proposal
            for proposal in proposals
            if _same(proposal, move) and abs(proposal.issued_at_ms - move.ts) <= within_ms
        ]
        proposal = min(near, key=lambda one: abs(one.issued_at_ms - move.ts), default=None)
        if proposal is not None:
            proposals.remove(proposal)
        pairs.append(
            MovePair(
                move.cluster,
                move.bundle,
                move.source,
                move,
                proposal,
                "" if proposal is not None else _why_not(move, history.rounds),
                (people or {}).get(move, ""),
            )
        )
    pairs += [
        MovePair(
            proposal.cluster,
            proposal.bundle,
            proposal.source,
            None,
            proposal,
            f"{proposal.code}: {proposal.text}",
        )
        for proposal in proposals
    ]
    found = tuple(
        sorted(
            (pair for pair in pairs if pair.ts in window), key=lambda pair: (pair.ts, pair.bundle)
        )
    )
    return Agreement(found, _by_chance(found, bundles or {}, within_ms))


def _by_chance(
    pairs: Sequence[MovePair], bundles: Mapping[str, int], within_ms: int
) -> float | None:
    """F1 of two shedders that move the same numbers of bundles at the same times, but choose them
    at random.
    """
    theirs = [pair.moved for pair in pairs if pair.moved is not None and not pair.person]
    ours = [pair.wanted for pair in pairs if pair.wanted is not None and not pair.person]
    if not theirs or not ours:
        return 0.0
    if any(not bundles.get(move.cluster) for move in theirs):
        return None
    meet = 0.0
    for move in theirs:
        near = sum(
            proposal.cluster == move.cluster and abs(proposal.issued_at_ms - move.ts) <= within_ms
            for proposal in ours
        )
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
    return (proposal.cluster, proposal.bundle, proposal.source) == (
        move.cluster,
        move.bundle,
        move.source,
    )


def _why_not(move: Moved, rounds: Sequence[Round]) -> str:
    """The skip of the last round before Pulsar's move: of the bundle, its broker, or the
    cluster.
    """
    before = [done for done in rounds if done.cluster == move.cluster and done.ts <= move.ts]
    if not before:
        return "no round had closed yet"
    last = before[-1]
    about = (("bundle", move.bundle), ("broker", move.source), ("cluster", move.cluster))
    for subject, name in about:
        for skip in last.skips:
            if skip.subject == subject and (name in skip.names or subject == "cluster"):
                return f"round {last.round}, {subject}: {skip.code}: {skip.text}"
    usage, mean = (
        last.usage.get(move.source),
        ordered_sum(last.usage.values()) / len(last.usage) if last.usage else 0.0,
    )
    if usage is None:
        return (
            f"round {last.round} did not judge {move.source}: "
            f"{last.stale.get(move.source, 'it had not reported')}"
        )
    return f"round {last.round} did not choose it: {move.source} at {usage:.1%}, mean {mean:.1%}"


def window(since: str | None, until: str | None, last_ms: int) -> ComparedWindow:
    """Parses times: `2h`, `30m`, `1d` before `last_ms`, the newest record, or an ISO time, by
    default in UTC. Raises SettingsError.
    """
    found = ComparedWindow(
        None if since is None else moment_ms("--since", since, last_ms),
        None if until is None else moment_ms("--until", until, last_ms),
    )
    if (
        found.since_ms is not None
        and found.until_ms is not None
        and found.since_ms > found.until_ms
    ):
        raise SettingsError([f"--since {since} is after --until {until}; exchange the two"])
    return found
