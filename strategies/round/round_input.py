"""Input, rules and result of a round."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from strategies.cluster.budget import Spent
from strategies.cluster.intent_state import NO_INTENTS, Intents
from strategies.cluster.memory import Memory
from strategies.cluster.model import Command, Owned, Round
from strategies.cluster.rule_settings import DrainSettings, LimitSettings, RivalSettings
from strategies.cluster.state import ClusterState, InFlight
from strategies.cluster.store import BrokerState
from strategies.dispatch_limits.throttle_advice import AdviceSettings
from strategies.limits import Window
from strategies.placement.destination_rules import DestinationRules
from strategies.reason_codes import Meanings
from strategies.round.measured import Capacities
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


@dataclass(frozen=True)
class RoundInput:
    """A cluster at the instant a round closes. Times in ms since the epoch."""

    #: Name of the cluster.
    cluster: str
    #: Its state, without what has expired; `state.round` is the round before.
    state: ClusterState
    #: The cluster's time.
    now_ms: int
    #: Which condition closed the round.
    closed_by: ClosedBy
    #: All known brokers, in order of first appearance.
    brokers: tuple[BrokerState, ...]
    #: A broker's packed bundle table; unpacks nothing by itself. None where there is no table.
    read_table: Callable[[str], bytes | None]
    #: Draining broker → all its bundles by the collector's newest note, if there is one.
    owned: Mapping[str, Owned] = field(default_factory=dict)
    #: All brokers of the sweep that closes the round; None where another record closes it.
    listed: Collection[str] | None = None

    @property
    def number(self) -> int:
        """Number of the round, from 1."""
        return self.state.round + 1

    @cached_property
    def under_way(self) -> Mapping[str, InFlight]:
        """Bundle → its move that may still be carried out, or that no report shows yet."""
        moves = self.state.in_flight.items()
        return {bundle: move for bundle, move in moves if self.now_ms < move.expires_at_ms}

    @property
    def memory(self) -> Memory:
        """Memory of strategies."""
        return Memory({broker.broker: broker.memory for broker in self.brokers}, self.state.memory)

    def with_memory(self, memory: Memory) -> "RoundInput":
        """The input with another memory."""
        brokers = tuple(
            replace(broker, memory=memory.brokers[broker.broker]) for broker in self.brokers
        )
        return replace(self, brokers=brokers, state=replace(self.state, memory=memory.cluster))


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
