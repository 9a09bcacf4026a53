"""One run of a cluster, round by round. The simulator and back-tests write it; metrics and reports
read it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from strategies.bundles import Floats, Ints
from strategies.cluster.model import Command, Expected, Outcome, OutcomeStatus, Round, Scalar, Skip
from strategies.round.commands_and_record import Proof, proof_of
from strategies.round.state_of_round import reason_of

#: `simulated`: a modelled cluster; `re-assigned`: recorded loads of bundles on the brokers that the
#: moves assign; `recorded`: recorded reports, on which decisions have no effect.
Kind = Literal["simulated", "re-assigned", "recorded"]
#: Why a bundle changed its broker: a round's command, the leader's placement of a bundle without an
#: owner, or something else.
MoveKind = Literal["unload", "transfer", "placed", "foreign"]


@dataclass(frozen=True, slots=True)
class Move:
    """One bundle that left a broker, or that a command moves.

    `round`: row of the timeline in which it was decided. `destination`: the new owner; before that
    is known, the destination of the command; None = unknown. `outcome`: None = not reported.
    `traffic`: bytes/s in + out of the bundle; NaN = unknown. `code`, `reason`: as in the command;
    empty if there is no reason. `topics`, `blip_ms`: number of topics that lost their clients, and
    the duration; 0 = unknown. `clients`: producers and consumers of the bundle before the move;
    NaN = unknown.
    """

    round: int
    ts: int
    bundle: str
    source: str | None
    destination: str | None
    kind: MoveKind
    code: str = ""
    reason: str = ""
    outcome: OutcomeStatus | None = None
    traffic: float = float("nan")
    expected: Expected = Expected()
    topics: int = 0
    blip_ms: int = 0
    clients: float = float("nan")

    @property
    def happened(self) -> bool:
        """Whether the bundle left its source, as far as is known: true unless the move was
        refused.
        """
        return self.outcome in (None, "applied", "already-done")

    @property
    def is_drain(self) -> bool:
        """Whether an operator's drain moves the bundle, not the strategy."""
        return self.code == "drain"


@dataclass(frozen=True, slots=True)
class Membership:
    """A broker that joined or left; `why` is for display: `joined`, `drained`, `killed`,
    `silent` …
    """

    ts: int
    broker: str
    change: Literal["joined", "left"]
    why: str = ""


def _no_rounds() -> Floats:
    return np.empty((0, 0))


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """A run, one row per round; frozen, and its arrays are read-only.

    `times_ms`: int64[rounds], ascending. `brokers`: all brokers of the run, in order of first
    appearance; a column each in `usage` (fraction, as the strategy judges it), `msg_rate`
    (messages/s in + out) and `msg_throughput` (bytes/s in + out), all float64[rounds, brokers], NaN
    if a broker took no part in the round or the figure is unknown.
    `lasting`: float64[rounds, brokers], usage without noise and short transients, known only in a
    model; otherwise equal to `usage`. `moves` in order of decision, `memberships` in order of time.
    `goal`: the strategy's goal as a sentence;
    `reached`: bool[rounds]. `settings`: dotted path → value, those that differ from the defaults
    first. `bundles`: their number at the end, 0 = unknown. `notes`: limits of this run, as
    sentences for the reader. `proofs`: by row, of the rounds whose record has a certificate or
    advice; rounds that a back-test passes over have none. `unjudged`: why the last round does not
    judge how even the cluster is, empty if it does.
    """

    title: str
    kind: Kind
    cluster: str = ""
    strategy: str = ""
    times_ms: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    brokers: tuple[str, ...] = ()
    usage: Floats = field(default_factory=_no_rounds)
    msg_rate: Floats = field(default_factory=_no_rounds)
    msg_throughput: Floats = field(default_factory=_no_rounds)
    lasting: Floats = field(default_factory=_no_rounds)
    reached: np.ndarray[tuple[int], np.dtype[np.bool_]] = field(
        default_factory=lambda: np.empty(0, np.bool_)
    )
    moves: tuple[Move, ...] = ()
    memberships: tuple[Membership, ...] = ()
    placement: str = ""
    goal: str = ""
    seed: int | None = None
    bundles: int = 0
    interval_ms: int = 60_000
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    proofs: Mapping[int, Proof] = field(default_factory=dict)
    unjudged: str = ""

    def __post_init__(self) -> None:
        for name in ("times_ms", "usage", "msg_rate", "msg_throughput", "lasting", "reached"):
            getattr(self, name).setflags(write=False)

    @property
    def rounds(self) -> int:
        return len(self.times_ms)

    def spread(self, measure: Literal["usage", "lasting"] = "usage") -> Floats:
        """float64[rounds]: highest − lowest usage of the brokers that took part (fraction); NaN for
        a round without brokers.
        """
        figures: Floats = getattr(self, measure)
        highest = np.fmax.reduce(figures, axis=1, initial=-np.inf)
        lowest = np.fmin.reduce(figures, axis=1, initial=np.inf)
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(highest - lowest), highest - lowest, np.nan)

    def moved(self) -> tuple[Move, ...]:
        """The moves by command that happened, which churn counts."""
        return tuple(
            move for move in self.moves if move.happened and move.kind in ("unload", "transfer")
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of one broker in one round in addition to its usage; NaN = unknown."""

    msg_rate: float = float("nan")
    msg_throughput: float = float("nan")
    lasting: float = float("nan")


_UNKNOWN = Measured()
#: Codes of rounds in which the strategy compares no brokers, whatever their usages are.
_UNJUDGED = frozenset({"waiting-for-samples", "moves-did-not-help", "rule-raised", "over-quota"})


@dataclass(slots=True)
class Tracer:
    """Builds a timeline. Rounds are added in order, an outcome after the round of its command.
    `begun`: the timeline before its first round.
    """

    begun: Timeline
    _cluster: str = ""
    _times: list[int] = field(default_factory=list)
    _columns: dict[str, int] = field(default_factory=dict)
    _rows: list[tuple[Ints, Floats]] = field(default_factory=list)
    _reached: list[bool] = field(default_factory=list)
    _moves: list[Move] = field(default_factory=list)
    _by_command: dict[str, int] = field(default_factory=dict)
    _memberships: list[Membership] = field(default_factory=list)
    _proofs: dict[int, Proof] = field(default_factory=dict)
    _present: frozenset[str] = frozenset()
    _unjudged: Skip | None = None

    def round(
        self,
        record: Round,
        commands: Iterable[Command],
        reached: bool,
        measured: Mapping[str, Measured] | None = None,
        traffic: Mapping[str, float] | None = None,
        *,
        clients: Mapping[str, float] | None = None,
    ) -> None:
        """Adds a round and its commands. `measured`: by broker; `traffic`: bytes/s in + out of each
        bundle that a command moves; `clients`: their producers and consumers.
        """
        self._cluster = record.cluster
        self._note_members(record)
        known = measured or {}
        columns = [self._columns.setdefault(broker, len(self._columns)) for broker in record.usage]
        rows = [(usage, known.get(broker, _UNKNOWN)) for broker, usage in record.usage.items()]
        figures = [
            (u, m.msg_rate, m.msg_throughput, u if m.lasting != m.lasting else m.lasting)
            for u, m in rows
        ]
        self._rows.append(
            (np.array(columns, dtype=np.int64), np.array(figures, dtype=np.float64).reshape(-1, 4))
        )
        self._times.append(record.ts)
        self._reached.append(reached)
        self._unjudged = unjudged(record.skips)
        proof = proof_of(record)
        if proof.certificate or proof.advice:
            self._proofs[len(self._times) - 1] = proof
        for command in commands:
            if command.is_move:
                self._by_command[command.id] = len(self._moves)
                amounts = (
                    (known or {}).get(command.bundle, float("nan")) for known in (traffic, clients)
                )
                self._moves.append(_move(command, len(self._times) - 1, *amounts))

    def block(
        self,
        cluster: str,
        times_ms: Ints,
        brokers: Sequence[str],
        figures: Sequence[Floats],
        reached: Sequence[bool],
        *,
        last: Sequence[Skip] = (),
    ) -> None:
        """Adds consecutive rounds without a move. `figures`: usage, msg_rate, msg_throughput and
        lasting, float64[rounds, brokers] each; `last`: skips of the last round.
        """
        self._cluster = cluster
        columns = np.array(
            [self._columns.setdefault(broker, len(self._columns)) for broker in brokers],
            dtype=np.int64,
        )
        self._rows += [(columns, row) for row in np.stack(figures, axis=-1)]
        self._times += times_ms.tolist()
        self._reached += reached
        self._unjudged = unjudged(last)
        self._present = frozenset(brokers)

    def outcome(self, outcome: Outcome, topics: int = 0, blip_ms: int = 0) -> None:
        """Adds the outcome of a command; ignores outcomes of unknown commands."""
        index = self._by_command.get(outcome.command_id)
        if index is not None:
            move = self._moves[index]
            self._moves[index] = replace(
                move,
                outcome=outcome.status,
                destination=outcome.owner_after or move.destination,
                topics=topics,
                blip_ms=blip_ms,
            )

    def add(self, move: Move) -> None:
        """Adds a move without a command."""
        self._moves.append(move)

    def member(self, change: Membership) -> None:
        """Adds a broker that joined or left for a known reason; `round` adds all others."""
        self._memberships.append(change)
        name = frozenset([change.broker])
        self._present = self._present | name if change.change == "joined" else self._present - name

    def timeline(self, bundles: int = 0) -> Timeline:
        """The timeline of all rounds added so far."""
        cells = np.full((4, len(self._rows), len(self._columns)), np.nan)
        for row, (columns, figures) in enumerate(self._rows):
            cells[:, row, columns] = figures.T
        usage, rate, throughput, lasting = (np.ascontiguousarray(part) for part in cells)
        return replace(
            self.begun,
            cluster=self._cluster,
            times_ms=np.array(self._times, dtype=np.int64),
            brokers=tuple(self._columns),
            usage=usage,
            msg_rate=rate,
            msg_throughput=throughput,
            lasting=lasting,
            reached=np.array(self._reached, dtype=np.bool_),
            moves=tuple(self._moves),
            memberships=tuple(self._memberships),
            bundles=bundles,
            proofs=self._proofs,
            unjudged="" if self._unjudged is None else reason_of(self._unjudged),
        )

    def _note_members(self, record: Round) -> None:
        """Adds brokers that joined or left since the last round. Those of the first round were
        present before; a silent one stays present until the engine forgets it.
        """
        there = frozenset([*record.usage, *record.stale])
        if self._times:
            came = sorted(there - self._present)
            gone = sorted(self._present - there)
            self._memberships += [
                Membership(record.ts, name, "joined", "first report") for name in came
            ]
            self._memberships += [
                Membership(record.ts, name, "left", "no longer listed") for name in gone
            ]
        self._present = there


def unjudged(skips: Sequence[Skip]) -> Skip | None:
    """Why a round does not judge how even the cluster is; None if it does."""
    return next((skip for skip in skips if skip.code in _UNJUDGED), None)


def _move(command: Command, row: int, traffic: float, clients: float) -> Move:
    return Move(
        round=row,
        ts=command.issued_at_ms,
        bundle=command.bundle,
        source=command.source,
        destination=command.destination,
        kind="unload" if command.action == "unload" else "transfer",
        code=command.code,
        reason=command.text,
        traffic=traffic,
        expected=command.expected,
        clients=clients,
    )
