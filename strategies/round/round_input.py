"""Input, rules and result of a round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from strategies.cluster.budget import Spent
from strategies.cluster.clock import Stray
from strategies.cluster.drain_settings import DrainSettings
from strategies.cluster.intent_state import NO_INTENTS, Intents
from strategies.cluster.limit_settings import LimitSettings
from strategies.cluster.model import ClusterMemory, Command, Memory, Owned, Round
from strategies.cluster.move_cost import MeasuredPause
from strategies.cluster.rival_settings import RivalSettings
from strategies.cluster.rival_state import NO_RIVALS, Rivals
from strategies.cluster.state import Departed, Gained, InFlight, Order
from strategies.cluster.store import BrokerState
from strategies.dispatch_limits.throttle_advice import AdviceSettings
from strategies.limits.windows import Window
from strategies.placement.destinations import DestinationRules
from strategies.reason_codes import Meanings
from strategies.round.capacities import Capacities
from strategies.settings import Mode, ModeRules, RoundSettings
from strategies.shedding.contract import Usage
from strategies.splitting.limits import SplitSettings

ClosedBy = Literal["sweep", "all-reported", "lateness"]


@dataclass(frozen=True)
class Rules:
    """The settings that apply to a round. `by_mode`: what its mode decides; `usage`: of a broker,
    in records; `meanings`: of the reason codes of all rules that apply; `windows`:
    `limits.windows`, parsed; `isolation_by_id`: see `PoliciesView.by_id`;
    `capacities`: of brokers, by the operator.
    """

    strategy: str
    mode: Mode
    by_mode: ModeRules
    round: RoundSettings
    version: str
    destinations: DestinationRules
    usage: Usage
    meanings: Meanings
    limits: LimitSettings = LimitSettings()
    windows: tuple[Window, ...] = ()
    splitting: SplitSettings = SplitSettings()
    throttling: AdviceSettings = AdviceSettings()
    drains: DrainSettings = DrainSettings()
    rivals: RivalSettings = RivalSettings()
    isolation_by_id: bool = False
    capacities: Capacities = Capacities()


@dataclass(frozen=True, slots=True)
class RoundInput:
    """A cluster at the instant a round closes. Times in ms since the epoch."""

    #: Name of the cluster.
    cluster: str
    #: Number of the round, from 1.
    number: int
    #: The cluster's time.
    now_ms: int
    #: Which condition closed the round.
    closed_by: ClosedBy
    #: All known brokers, in order of first appearance.
    brokers: tuple[BrokerState, ...]
    #: Broker → why it did not answer in the newest sweep.
    missing: Mapping[str, str]
    #: A broker's packed bundle table; unpacks nothing by itself. None where there is no table.
    read_table: Callable[[str], bytes | None]
    #: Bundle → when it was commanded to move.
    cooling: Mapping[str, int]
    #: Bundle → its move that may still be carried out, or that no report shows yet.
    in_flight: Mapping[str, InFlight]
    #: Bundle → the broker on which it appeared before its departure was reported.
    gained: Mapping[str, Gained]
    #: Memory of strategies about the cluster.
    memory: ClusterMemory
    #: Bundle on its way → its averages.
    departed: Mapping[str, Departed] = field(default_factory=dict)
    #: Newest snapshot of policies as JSON text; None before the first.
    policies: str | None = None
    #: Moves of each round of the last hour.
    spent: tuple[Spent, ...] = ()
    #: Bundle → when a dispatch limit was advised for it.
    advised: Mapping[str, int] = field(default_factory=dict)
    #: Producer whose clock is not believed → its clock's figures.
    strays: Mapping[str, Stray] = field(default_factory=dict)
    #: Drains and rolls that operators asked for.
    intents: Intents = NO_INTENTS
    #: Bundle → the newest command about it, without an outcome so far.
    orders: Mapping[str, Order] = field(default_factory=dict)
    #: Bundle → its move that can no longer be carried out, and that no report shows.
    expired: Mapping[str, InFlight] = field(default_factory=dict)
    #: Draining broker → all its bundles by the collector's newest note, if there is one.
    owned: Mapping[str, Owned] = field(default_factory=dict)
    #: All brokers of the sweep that closes the round; None where another record closes it.
    listed: Collection[str] | None = None
    #: Broker that left recently → the time of its last record.
    gone: Mapping[str, int] = field(default_factory=dict)
    #: Moves of bundles by something else, and whether this round yields to it.
    rivals: Rivals = NO_RIVALS
    #: Measured pauses of the newest moves.
    pauses: tuple[MeasuredPause, ...] = ()
    #: Records since the last round that were beyond the cluster's quota.
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class RoundResult:
    """Result of a round: its commands, its record, the new memory, and its total moves.

    `loads`: bundle → the part (0–1) of its broker's traffic that moves with it; `throughputs`:
    bundle → its part of the budget (bytes/s); `intents`: with the progress of drains; `decided`:
    False if a rule raised an error, or records were set aside.
    """

    commands: tuple[Command, ...]
    round: Round
    memory: Memory
    loads: Mapping[str, float]
    spent: Spent | None = None
    throughputs: Mapping[str, float] = field(default_factory=dict)
    intents: Intents = NO_INTENTS
    decided: bool = True
