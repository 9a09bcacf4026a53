"""One run of a cluster from its first round to its last: what simulator and back-test write, what metrics and reports read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from strategies.bundles.bundle_loads import Floats, Ints
from strategies.errors import ContractError
from strategies.model import Expected, OutcomeStatus, Scalar

#: `simulated`: a modelled cluster; `re-assigned`: recorded loads of bundles, put where the moves say; `recorded`: recorded reports, which
#: do not react to what is decided on them; `live`: what a real or demo cluster did.
Kind = Literal["simulated", "re-assigned", "recorded", "live"]
#: Why a bundle changed its broker: a round commanded it, the leader placed it because no broker served it, or something else.
MoveKind = Literal["unload", "transfer", "placed", "foreign"]


@dataclass(frozen=True, slots=True)
class Move:
    """One bundle that left a broker, or was commanded to.

    `round`: row of the timeline in which it was decided. `destination`: where it went; before that is known, where it was sent; None =
    not known. `outcome`: None = not reported. `traffic`: bytes/s in + out that went along; NaN = unknown. `load`: the part (0–1) of
    the source's traffic. `code`, `reason`: as in the command; empty only where no reason was stated. `topics`, `blip_ms`: how many
    topics lost their clients, and for how long; 0 = unknown.
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
    load: float = float("nan")
    expected: Expected = Expected()
    topics: int = 0
    blip_ms: int = 0

    @property
    def happened(self) -> bool:
        """Whether the bundle left, as far as is known: a move that was not refused counts."""
        return self.outcome in (None, "applied", "already-done")


@dataclass(frozen=True, slots=True)
class Membership:
    """A broker that came or went; `why` is for people: `joined`, `drained`, `killed`, `silent` …"""

    ts: int
    broker: str
    change: Literal["joined", "left"]
    why: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """A run, one row per round; frozen, and its arrays are read-only.

    `times_ms`: int64[rounds], ascending. `brokers`: every broker that was ever there, in order of first appearance; a column each in
    `usage` (fraction, as the strategy judges it), `msg_rate` (messages/s in + out) and `msg_throughput` (bytes/s in + out), all
    float64[rounds, brokers], NaN where a broker took no part in the round or the figure is not known.
    `lasting`: float64[rounds, brokers], usage without noise and short transients, which only a model knows; elsewhere it is `usage`.
    `moves` in order of decision, `memberships` in order of time. `goal`: the sentence that says when the strategy is content;
    `reached`: bool[rounds]. `settings`: dotted path → value, those that differ from the defaults first. `bundles`: how many there are
    at the end, 0 = unknown. `notes`: what this run cannot know, sentences for people.
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

    def __post_init__(self) -> None:
        shape = (len(self.times_ms), len(self.brokers))
        for name in ("usage", "msg_rate", "msg_throughput", "lasting"):
            if getattr(self, name).shape != shape:
                raise ContractError(f"{name} is {getattr(self, name).shape}, not rounds × brokers {shape}")
        for name in ("times_ms", "usage", "msg_rate", "msg_throughput", "lasting", "reached"):
            getattr(self, name).setflags(write=False)

    @property
    def rounds(self) -> int:
        return len(self.times_ms)

    def spread(self, measure: Literal["usage", "lasting"] = "usage") -> Floats:
        """float64[rounds]: highest − lowest usage of the brokers that took part (fraction); NaN in a round without any."""
        figures: Floats = getattr(self, measure)
        highest = np.fmax.reduce(figures, axis=1, initial=-np.inf)
        lowest = np.fmin.reduce(figures, axis=1, initial=np.inf)
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(highest - lowest), highest - lowest, np.nan)

    def moved(self) -> tuple[Move, ...]:
        """The moves that happened, by command: what churn counts."""
        return tuple(move for move in self.moves if move.happened and move.kind in ("unload", "transfer"))
