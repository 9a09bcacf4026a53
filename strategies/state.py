"""The state of one cluster between two records, and its versioned bytes."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from strategies.bulkhead.quota import EMPTY, Bulkhead
from strategies.bulkhead.quota import from_tree as bulkhead_from
from strategies.bulkhead.quota import to_tree as bulkhead_to
from strategies.clock import Clock, Stray
from strategies.errors import StateVersionError
from strategies.intents.state import NO_INTENTS, Intents, intents_from
from strategies.limits.budget import Spent
from strategies.load_history import Episode, RecentMove
from strategies.log_start import EarlyRecord
from strategies.model import ClusterMemory
from strategies.move_cost import MeasuredPause
from strategies.rivals.state import NO_RIVALS, Rivals, from_tree, to_tree
from strategies.shallow import compact_json, shallow

#: To be raised whenever the meaning of stored bytes changes; `from_bytes` then converts or refuses
#: older bytes.
STATE_VERSION = 3
_ZLIB = "zlib"


@dataclass(frozen=True, slots=True)
class InFlight:
    """A commanded move that no report has shown yet.

    `load`: the part (0–1) of the source's traffic that moves with the bundle; `left`: the source's
    report no longer lists the bundle; `arrived`: an outcome says that the destination owns it.
    """

    command_id: str
    source: str
    destination: str | None
    issued_at_ms: int
    expires_at_ms: int
    load: float
    left: bool = False
    arrived: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """A command to move or split a bundle, without an outcome so far. `throughput`: its part of the
    budget (bytes/s); None for a split.
    """

    command_id: str
    issued_at_ms: int
    expires_at_ms: int
    throughput: float | None


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A command that a dry run has answered. `flight`: the move that it commanded; None for a
    split.
    """

    bundle: str
    order: Order
    flight: InFlight | None


@dataclass(frozen=True, slots=True)
class Departed:
    """Averages of a bundle that left a broker, kept until its new broker reports. Rows as in
    `averages.BundleHistory.row`.
    """

    row: tuple[float, ...]
    round: int


@dataclass(frozen=True, slots=True)
class Gained:
    """A bundle that appeared on a broker before its old broker reported its departure."""

    broker: str
    round: int


@dataclass(frozen=True, slots=True)
class ClusterState:
    """State of one cluster, without its brokers. Times in ms since the epoch."""

    #: The cluster's time; None before the first record that counts.
    clock: Clock | None = None
    #: The first records of the log, until the first round has closed; None from then on.
    early: tuple[EarlyRecord, ...] | None = ()
    #: Number of the last closed round, 0 before the first.
    round: int = 0
    #: When that round closed; before the first one the time of the first record.
    round_at_ms: int = 0
    #: Time of the newest sweep marker, -1 before the first.
    sweep_at_ms: int = -1
    #: Number of brokers ever seen, from which each gets its order.
    joined: int = 0
    #: Number of brokers in the last round.
    live: int = 0
    #: Number of brokers that have reported since.
    reported: int = 0
    #: Bundle → its commanded move that no report has shown yet.
    in_flight: Mapping[str, InFlight] = field(default_factory=dict)
    #: Bundle → when it was commanded to move.
    cooling: Mapping[str, int] = field(default_factory=dict)
    #: Bundle → its averages, kept for the broker that takes it.
    departed: Mapping[str, Departed] = field(default_factory=dict)
    #: Bundle → the broker on which it appeared before its departure was reported.
    gained: Mapping[str, Gained] = field(default_factory=dict)
    #: Broker → why it did not answer in the newest sweep.
    missing: Mapping[str, str] = field(default_factory=dict)
    #: Broker that left recently → the time of its last record.
    gone: Mapping[str, int] = field(default_factory=dict)
    #: Memory of strategies about the cluster.
    memory: ClusterMemory = ClusterMemory()
    #: Newest snapshot of policies as JSON text; None before the first.
    policies: str | None = None
    #: Moves of each round of the last hour.
    spent: tuple[Spent, ...] = ()
    #: Bundle → when a dispatch limit was advised for it.
    advised: Mapping[str, int] = field(default_factory=dict)
    #: Bundle → the newest command about it.
    orders: Mapping[str, Order] = field(default_factory=dict)
    #: Command id → the command that a dry run has answered.
    rehearsed: Mapping[str, Rehearsal] = field(default_factory=dict)
    #: Number of the newest sweep marker, -1 before the first.
    sweep: int = -1
    #: Producer whose clock is not believed → its clock's figures.
    strays: Mapping[str, Stray] = field(default_factory=dict)
    #: Number of brokers whose clock has a vote (`producer_votes`).
    voters: int = 0
    #: Broker that reported since the time last moved, without moving it → the time of that report.
    trailing: Mapping[str, int] = field(default_factory=dict)
    #: The subset of these that the record that moved the time left far behind → the same time.
    overtaken: Mapping[str, int] = field(default_factory=dict)
    #: Drains and rolls that operators asked for.
    intents: Intents = NO_INTENTS
    #: Moves of bundles by something else.
    rivals: Rivals = NO_RIVALS
    #: Measured pauses of the newest moves, ascending.
    pauses: tuple[MeasuredPause, ...] = ()
    #: Its quota of records.
    bulkhead: Bulkhead = EMPTY


def to_bytes(state: ClusterState) -> bytes:
    """Versioned bytes of a cluster's state; equal states give equal bytes."""
    tree = shallow(state)
    del tree["bulkhead"]
    if state.bulkhead != EMPTY:
        tree["bulkhead"] = bulkhead_to(state.bulkhead)
    if state.clock is not None:  # in a separate key, which versions before 0.2 ignore
        tree["clock"] = shallow(state.clock)
        tree["clock_run"] = tree["clock"].pop("run")
    if state.rivals == NO_RIVALS:
        del tree["rivals"]
    else:
        tree["rivals"] = to_tree(state.rivals)
    if not state.pauses:
        del tree["pauses"]  # as in versions that measured none
    tree["early"] = None if state.early is None else list(map(_early_to_list, state.early))
    if state.intents == NO_INTENTS:
        del tree["intents"]  # as in versions before intents
    else:
        early = list(map(_early_to_list, state.intents.early))
        tree["intents"] = {**shallow(state.intents), "early": early}
    return compact_json({"version": STATE_VERSION, **tree})


def _early_to_list(one: EarlyRecord) -> list[Any]:
    return [one.ts, b64encode(one.compressed).decode("ascii"), one.far, _ZLIB]


def _early(ts: int, kept: str, far: bool, form: str = "") -> EarlyRecord:
    """`form`: empty in states of versions that did not compress."""
    data = b64decode(kept)
    return EarlyRecord(ts, data, far) if form == _ZLIB else EarlyRecord.of_packed(ts, data, far)


def from_bytes(data: bytes) -> ClusterState:
    """Inverse of `to_bytes`. Raises StateVersionError for bytes of a version that cannot be
    continued.
    """
    tree = json.loads(data)
    version = tree.pop("version", None)
    if version != STATE_VERSION:
        raise StateVersionError(
            f"the state was written in format {version}, this version reads format "
            f"{STATE_VERSION}: "
            "start with a new checkpoint folder, or continue with the version that wrote it"
        )
    in_flight = {bundle: InFlight(**move) for bundle, move in tree["in_flight"].items()}
    return ClusterState(
        clock=None
        if tree["clock"] is None
        else Clock(**tree["clock"], run=tree.get("clock_run", 0)),
        early=None if tree["early"] is None else tuple(_early(*one) for one in tree["early"]),
        in_flight=in_flight,
        orders=_orders(tree, in_flight),
        rehearsed={id_: _rehearsal(one) for id_, one in tree.get("rehearsed", {}).items()},
        departed={
            bundle: Departed(tuple(gone["row"]), gone["round"])
            for bundle, gone in tree["departed"].items()
        },
        gained={bundle: Gained(**gain) for bundle, gain in tree["gained"].items()},
        # Written since 0.2; in a state without them, no clock strays.
        sweep=tree.get("sweep", -1),
        strays={name: Stray(**stray) for name, stray in tree.get("strays", {}).items()},
        voters=tree.get("voters", 0),
        trailing=tree.get("trailing", {}),
        overtaken=tree.get("overtaken", {}),
        intents=_intents(tree.get("intents")),
        rivals=from_tree(tree.get("rivals", {})),
        pauses=tuple(MeasuredPause(*one) for one in tree.get("pauses", ())),
        bulkhead=bulkhead_from(tree.get("bulkhead", {})),
        memory=_memory(tree["memory"]),
        **{
            name: tree[name]
            for name in (
                "round",
                "round_at_ms",
                "sweep_at_ms",
                "joined",
                "live",
                "reported",
                "cooling",
                "missing",
                "gone",
                "policies",
                "advised",
            )
        },
        spent=tuple(Spent(**one) for one in tree["spent"]),
    )


def _intents(tree: Mapping[str, Any] | None) -> Intents:
    if tree is None:
        return NO_INTENTS
    return intents_from(tree, tuple(_early(*one) for one in tree["early"]))


def _memory(tree: Mapping[str, Any]) -> ClusterMemory:
    """Memory about the cluster; states of versions before SteadyShedder have no moves."""
    typed = {
        "rotation": tuple(tree.get("rotation", ())),
        "moves": tuple(RecentMove(*one) for one in tree.get("moves", ())),
        "episode": Episode(*tree.get("episode", ())),
    }
    return ClusterMemory(**{**tree, **typed})


def _orders(tree: Mapping[str, Any], in_flight: Mapping[str, InFlight]) -> dict[str, Order]:
    """The orders of a state; a state of 0.1.0 has none, so its moves under way become orders,
    without their part of the budget.
    """
    if "orders" in tree:
        return {bundle: Order(**order) for bundle, order in tree["orders"].items()}
    return {
        bundle: Order(move.command_id, move.issued_at_ms, move.expires_at_ms, 0.0)
        for bundle, move in in_flight.items()
    }


def _rehearsal(tree: Mapping[str, Any]) -> Rehearsal:
    return Rehearsal(
        tree["bundle"],
        Order(**tree["order"]),
        None if tree["flight"] is None else InFlight(**tree["flight"]),
    )
