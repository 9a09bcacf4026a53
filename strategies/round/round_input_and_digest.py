"""Input, rules and result of a round, and the digest of the input; one of the rules: the operator's
own numbers of cores and Gbit/s of brokers, in place of the limits in reports.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Annotated, Literal

import numpy as np

from strategies.bundles import Floats
from strategies.cluster.budget import Spent
from strategies.cluster.cluster_state import BrokerState, ClusterState, InFlight
from strategies.cluster.cool_downs import of_all_moves
from strategies.cluster.model import Command, Figures, Owned, Resource, Round
from strategies.cluster.packed_records import figures_to_list
from strategies.cluster.remembered_intents import NO_INTENTS, Intents
from strategies.cluster.rival_state import values_for_digest
from strategies.cluster.strategy_memory import Memory
from strategies.dispatch_limits.throttle_advice import AdviceSettings
from strategies.errors import raise_complaints
from strategies.java.pulsar_versions_and_defaults import ModeRules
from strategies.patterns_and_windows import Window, patterns
from strategies.placement.contract import DestinationRules
from strategies.settings import (
    DrainSettings,
    LimitSettings,
    Mode,
    RivalSettings,
    RoundSettings,
    Setting,
)
from strategies.shedding.contract import Usage
from strategies.splitting.bundle_limits import SplitSettings
from strategies.states_and_advice_of_codes import Meanings

#: Reports have CPU in percent of one core, and bandwidth in kbit/s: units per core and per Gbit/s.
_PERCENT, _KBIT = 100.0, 1_000_000.0
#: Largest number of cores, and of Gbit/s, that a setting may name.
_MOST = 1_000_000.0
ClosedBy = Literal["sweep", "all-reported", "lateness"]


@dataclass(frozen=True, slots=True)
class CapacitySettings:
    """Capacities of brokers that replace those in their reports, in `fixed` mode."""

    nic_gbps: Annotated[
        str,
        Setting(
            "Network speed of brokers in each direction, in Gbit/s, in place of the one in their "
            "reports: host:port=10, * matches any text, separated by commas; the first that "
            "matches a broker counts"
        ),
    ] = ""
    cores: Annotated[
        str,
        Setting(
            "Number of CPU cores of brokers, in place of the one in their reports: host:port=8"
        ),
    ] = ""


#: Patterns of broker names with a number, in their order.
_Numbers = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Capacities:
    """`CapacitySettings`, parsed."""

    nic_gbps: _Numbers = ()
    cores: _Numbers = ()

    def __bool__(self) -> bool:
        return bool(self.nic_gbps or self.cores)

    def apply(self, broker: str, figures: Figures) -> Figures:
        """Returns the figures of a broker with the operator's limits."""
        cpu, _, bandwidth, _ = self._limits(broker)
        if not (cpu or bandwidth):
            return figures
        return replace(
            figures,
            cpu=_with_limit(figures.cpu, cpu),
            bandwidth_in=_with_limit(figures.bandwidth_in, bandwidth),
            bandwidth_out=_with_limit(figures.bandwidth_out, bandwidth),
            usage_average=None,  # the broker computed it with its own limits
        )

    def limits(self, brokers: Sequence[str], used: Floats, limit: Floats) -> Floats:
        """Does for columns what `apply` does for one broker: returns the limits. `used`, `limit`:
        float64[rounds, brokers, 4] of CPU, direct memory, bandwidth in and out.
        """
        own = np.array([self._limits(broker) for broker in brokers]).reshape(-1, 4)
        return np.where((own > 0) & (used >= 0), own, limit)

    def _limits(self, broker: str) -> tuple[float, float, float, float]:
        """Returns the operator's limits in the units of reports; 0 where there is none."""
        cpu, bandwidth = _first_match(self.cores, broker), _first_match(self.nic_gbps, broker)
        return cpu * _PERCENT, 0.0, bandwidth * _KBIT, bandwidth * _KBIT


def read_capacities(settings: CapacitySettings) -> Capacities:
    """Parses the settings. Raises SettingsError with all complaints."""
    complaints = list[str]()
    capacities = Capacities(
        _numbers(settings.nic_gbps, "capacities.nic_gbps", complaints),
        _numbers(settings.cores, "capacities.cores", complaints),
    )
    raise_complaints(complaints)
    return capacities


def _numbers(text: str, path: str, complaints: list[str]) -> _Numbers:
    numbers = list[tuple[str, float]]()
    for entry in patterns(text):
        pattern, _, number = (part.strip() for part in entry.rpartition("="))
        try:
            value = float(number)
        except ValueError:
            value = 0.0
        if pattern and 0 < value <= _MOST:
            numbers.append((pattern, value))
        else:
            complaints.append(
                f"{path}: {entry!r} is no capacity; write it as broker-*:8080=10, with a number "
                f"above 0 and at most {_MOST:,.0f}"
            )
    return tuple(numbers)


@lru_cache(maxsize=2**15)
def _first_match(numbers: _Numbers, broker: str) -> float:
    return next((value for pattern, value in numbers if fnmatchcase(broker, pattern)), 0.0)


def _with_limit(resource: Resource, limit: float) -> Resource:
    """Sets the limit of a resource, unless there is none (0) or the resource has no usage."""
    return Resource(resource.usage, limit) if limit and resource.usage >= 0 else resource


@dataclass(frozen=True)
class Rules:
    """The settings and rules of all rounds."""

    #: Name of the strategy.
    strategy: str
    mode: Mode
    #: Rules that depend on the mode.
    by_mode: ModeRules
    round: RoundSettings
    #: Version of the rules, for records.
    version: str
    destinations: DestinationRules
    #: Computes the usage of a broker in records.
    usage: Usage
    #: Meanings of the reason codes of all these rules.
    meanings: Meanings
    limits: LimitSettings = LimitSettings()
    #: `limits.windows`, parsed.
    windows: tuple[Window, ...] = ()
    splitting: SplitSettings = SplitSettings()
    throttling: AdviceSettings = AdviceSettings()
    drains: DrainSettings = DrainSettings()
    rivals: RivalSettings = RivalSettings()
    #: See `PoliciesView.by_id`.
    isolation_by_id: bool = False
    #: Capacities of brokers by the operator.
    capacities: Capacities = Capacities()


@dataclass(frozen=True)
class RoundInput:
    """A cluster at the instant a round closes. Times in ms since the epoch."""

    #: Name of the cluster.
    cluster: str
    #: Its state without expired entries; `state.round` is the round before.
    state: ClusterState
    #: The cluster's time.
    now_ms: int
    #: The condition that closed the round.
    closed_by: ClosedBy
    #: All known brokers, in order of first appearance.
    brokers: tuple[BrokerState, ...]
    #: Returns the packed bundle table of a broker; None without one.
    read_table: Callable[[str], bytes | None]
    #: Draining broker → the collector's newest note of its bundles, if there is one.
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
        """Memory of strategies, from the states of cluster and brokers."""
        return Memory({broker.broker: broker.memory for broker in self.brokers}, self.state.memory)

    def with_memory(self, memory: Memory) -> "RoundInput":
        """Returns the input with another memory, which must have all brokers."""
        brokers = tuple(
            replace(broker, memory=memory.brokers[broker.broker]) for broker in self.brokers
        )
        return replace(self, brokers=brokers, state=replace(self.state, memory=memory.cluster))


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of a round."""

    commands: tuple[Command, ...]
    #: The record of the round.
    round: Round
    #: The new memory.
    memory: Memory
    #: Bundle of a command → the part (0–1) of its broker's traffic that moves with it.
    loads: Mapping[str, float]
    #: The part of the budgets that the round used; None if it moves nothing.
    spent: Spent | None = None
    #: Bundle of a command → its part of the budget (bytes/s).
    throughputs: Mapping[str, float] = field(default_factory=dict)
    #: The intents with the progress of drains.
    intents: Intents = NO_INTENTS
    #: False if a rule raised an error, or if records were over the quota.
    is_decided: bool = True


def digest_of(round_input: RoundInput, cool_down_ms: int) -> str:
    """Returns the digest of the whole input of the round: rounds with the same digest had the same
    input.
    """
    brokers = [
        (state.broker, state.bundles_digest, state.sampled_round, state.judged_after_ms)
        for state in round_input.brokers
    ]
    flights = {
        bundle: (move.source, move.destination, move.load, move.left)
        for bundle, move in round_input.under_way.items()
    }
    spent = [(entry.ts, entry.bundles, entry.throughput) for entry in round_input.state.spent]
    inputs: list[object] = [
        round_input.now_ms,
        brokers,
        of_all_moves(round_input.state, round_input.now_ms, cool_down_ms),
        flights,
        round_input.state.policies,
        spent,
        dict(round_input.state.advised),
    ]
    intents = replace(round_input.state.intents, early=())
    if intents != NO_INTENTS:  # without intents the digest is that of earlier versions
        inputs.append(
            [
                # As of earlier versions, where no person asked for a move or a split.
                {name: one for name, one in asdict(intents).items() if one or name != "asked"},
                {name: note.bundles for name, note in round_input.owned.items()},
            ]
        )
    if round_input.state.rivals.moves:
        inputs.append(values_for_digest(round_input.state.rivals))
    if round_input.state.topics:
        inputs.append(
            [asdict(known) | {"origin": ""} for known in round_input.state.topics.values()]
        )
    # Only the pace of drains uses the pauses.
    if round_input.state.intents.drains and round_input.state.pauses:
        inputs.append(round_input.state.pauses)
    seen = json.dumps(inputs, ensure_ascii=False)
    # As bytes, not as text: formatting 18 numbers per broker in decimal would take longer than the
    # decisions.
    figures = np.array(
        [figures_to_list(state.figures) for state in round_input.brokers], dtype="<f8"
    )
    return blake2b(seen.encode() + figures.tobytes(), digest_size=16).hexdigest()
