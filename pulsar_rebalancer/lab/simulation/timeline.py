"""One run of a cluster, round by round. The simulator and back-tests write it; metrics and reports
read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from strategies.bundles.bundle_loads import Floats, Ints
from strategies.cluster.model import Expected, OutcomeStatus, Scalar
from strategies.round.proof import Proof

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
    cluster: str
    strategy: str
    times_ms: Ints
    brokers: tuple[str, ...]
    usage: Floats
    msg_rate: Floats
    msg_throughput: Floats
    lasting: Floats
    reached: np.ndarray[tuple[int], np.dtype[np.bool_]]
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
