"""Records a run round by round and returns its timeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pulsar_rebalancer.lab.simulation.timeline import Kind, Membership, Move, Timeline
from strategies.bundles.bundle_loads import Floats, Ints
from strategies.cluster.model import Command, Outcome, Round, Scalar, Skip
from strategies.cluster.round_state import reason_of
from strategies.round.proof import Proof, proof_of


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
    """Builds a timeline. Rounds are added in order, an outcome after the round of its command."""

    title: str
    kind: Kind
    strategy: str
    placement: str = ""
    goal: str = ""
    seed: int | None = None
    interval_ms: int = 60_000
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
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
        cells = np.stack(figures, axis=-1)
        self._rows += [(columns, row) for row in cells]
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
        return Timeline(
            title=self.title,
            kind=self.kind,
            cluster=self._cluster,
            strategy=self.strategy,
            times_ms=np.array(self._times, dtype=np.int64),
            brokers=tuple(self._columns),
            usage=usage,
            msg_rate=rate,
            msg_throughput=throughput,
            lasting=lasting,
            reached=np.array(self._reached, dtype=np.bool_),
            moves=tuple(self._moves),
            memberships=tuple(self._memberships),
            placement=self.placement,
            goal=self.goal,
            seed=self.seed,
            bundles=bundles,
            interval_ms=self.interval_ms,
            settings=dict(self.settings),
            notes=self.notes,
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
