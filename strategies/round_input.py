"""What a round is given, by which rules it is held, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from strategies.clock import Stray
from strategies.dispatch_limits.advice import AdviceSettings
from strategies.limits.budget import Spent
from strategies.limits.settings import LimitSettings
from strategies.limits.windows import Window
from strategies.model import ClusterMemory, Command, Memory, Round
from strategies.placement.destinations import DestinationRules
from strategies.settings import Mode, RoundSettings
from strategies.splitting.limits import SplitSettings
from strategies.state import Departed, Gained, InFlight
from strategies.store import BrokerState

ClosedBy = Literal["sweep", "all-reported", "lateness"]


@dataclass(frozen=True)
class Rules:
    """The settings a round is held by. `windows`: `limits.windows`, read."""

    strategy: str
    mode: Mode
    round: RoundSettings
    version: str
    destinations: DestinationRules
    limits: LimitSettings = LimitSettings()
    windows: tuple[Window, ...] = ()
    splitting: SplitSettings = SplitSettings()
    throttling: AdviceSettings = AdviceSettings()


@dataclass(frozen=True, slots=True)
class RoundInput:
    """A cluster at the instant a round closes. `brokers` in order of first appearance; `read_table` unpacks nothing by itself.

    `departed`: averages of bundles on their way; `policies`: newest snapshot; `spent`: moved within the hour; `advised`: bundle → when;
    `strays`: producers whose clock is not believed.
    """

    cluster: str
    number: int
    now_ms: int
    closed_by: ClosedBy
    brokers: tuple[BrokerState, ...]
    missing: Mapping[str, str]
    read_table: Callable[[str], bytes | None]
    cooling: Mapping[str, int]
    in_flight: Mapping[str, InFlight]
    gained: Mapping[str, Gained]
    memory: ClusterMemory
    departed: Mapping[str, Departed] = field(default_factory=dict)
    policies: str | None = None
    spent: tuple[Spent, ...] = ()
    advised: Mapping[str, int] = field(default_factory=dict)
    strays: Mapping[str, Stray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What came of a round: its commands, its record, what to remember, and what moved in all.

    `loads`: the part (0–1) of its broker's traffic that each moving bundle takes along; `throughputs`: its part of the budget (bytes/s).
    """

    commands: tuple[Command, ...]
    round: Round
    memory: Memory
    loads: Mapping[str, float]
    spent: Spent | None = None
    throughputs: Mapping[str, float] = field(default_factory=dict)
