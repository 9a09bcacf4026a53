"""The interface and the description of a shedding strategy: all that other packages use of one."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

from strategies.bundles import Bools, Floats, Ints
from strategies.cluster.model import ClusterView, Decision, Figures, Round, Skip
from strategies.cluster.round_figures import Certificate, Forecast
from strategies.cluster.strategy_memory import Memory
from strategies.errors import SettingsError
from strategies.figures.usage import weighted_usage
from strategies.java.pulsar_versions_and_defaults import RELEASES, PulsarRelease
from strategies.settings import Mode, RoundSettings, Weights
from strategies.states_and_advice_of_codes import Meaning

#: Report period of brokers with default settings (statsUpdateFrequencyInSecs).
USUAL_PERIOD_S = 60.0


@dataclass(frozen=True, slots=True)
class Shedding:
    """Result of a shedding strategy: decisions in the order of execution, skips, new memory, and
    forecast figures, if it has them.

    `certify`: takes the bundles that limits and filters let move; computes the bounds of the round,
    if the strategy has any. It reads the tables of bundles, so only the record of a round calls it.
    `hold`: takes the memory and the bundles that a limit held back; returns the memory in which the
    strategy finds its moves that only have to wait.
    `effect`: takes a bundle, its broker and another one; returns the usage (fraction) that the
    first would lose and the other gain, by what the strategy has learned, or None.
    """

    decisions: tuple[Decision, ...]
    skips: tuple[Skip, ...]
    memory: Memory
    certify: Callable[[Collection[str]], Certificate | None] = field(
        default=lambda moving: None, compare=False
    )
    forecast: Forecast | None = None
    hold: Callable[[Memory, Collection[str]], Memory] = field(
        default=lambda memory, bundles: memory, compare=False
    )
    effect: Callable[[str, str, str], tuple[float, float] | None] = field(
        default=lambda bundle, source, destination: None, compare=False
    )


class Shedder(Protocol):
    """A rule that picks bundles to move. Holds settings only; its memory is in `Memory`."""

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """Runs one round. Never raises on a valid view. Each broker or bundle left alone appears in
        `skips` with a reason code.
        """


@dataclass(frozen=True, slots=True)
class RoundColumns:
    """Consecutive rounds of one cluster in which the same brokers report the same bundles. Rows are
    rounds, columns brokers by name.

    `now_ms`: int64[rounds]; `reported_at_ms`: int64[rounds, brokers]; `usage`: float64, fractions,
    all finite; `throughput`, `msg_rate`: float64, in + out, bytes/s and messages/s; `bundles`:
    numbers of bundles; `fresh`: whether a figure is a new sample; `settling`: as in `BrokerLoad`;
    `cpu_limit`: float64, as in `Figures`.
    """

    cluster: str
    brokers: Sequence[str]
    now_ms: Ints
    reported_at_ms: Ints
    usage: Floats
    throughput: Floats
    msg_rate: Floats
    bundles: Floats
    fresh: Bools
    settling: Bools
    cpu_limit: Floats


#: Takes rounds and the memory before them. Returns the skips of each round, from the first on, that
#: certainly decides nothing, and the memory after the last of them.
QuietScreen = Callable[[RoundColumns, Memory], tuple[Sequence[tuple[Skip, ...]], Memory]]


#: Takes a broker's figures; returns its usage (fraction) without history, as in round records.
Usage = Callable[[Figures], float]


def largest_weighted_resource(_: object, weights: Weights) -> Usage:
    """The usage in the records of most strategies."""
    return partial(weighted_usage, weights=weights)


@dataclass(frozen=True, slots=True)
class StrategyMemory:
    """How far back a strategy's own memory reaches, for a warm start.

    `weight`: of the past in its slowest average, 0 without one; `samples`: number of samples or
    rounds that it counts or keeps; `learned_ms`: after how long it has forgotten what it learned
    from them; `decisions_ms`: how long it remembers its own decisions; `judges_moves`: whether it
    judges the effect of its moves. If so, those that nothing shows are taken back at the end of a
    warm start; other strategies go on as if they had run all along.
    """

    weight: float = 0.0
    samples: int = 0
    learned_ms: int = 0
    decisions_ms: int = 0
    judges_moves: bool = False


def no_memory(_: object) -> StrategyMemory:
    """Of a strategy that decides by the newest figures alone."""
    return StrategyMemory()


@dataclass(frozen=True, slots=True)
class GoalFigure:
    """A strategy's goal: `figure` (in points) of a round's record is below the setting `key` (with
    `within`: or equal to it).

    `measure`: the figure in words. `limit_name`: name of the limit in reports; `scale`: points per
    unit of the setting. Without a `key`, the figure is only shown, and the cluster is balanced when
    the round's record has the skip `even`.
    """

    measure: str
    figure: Callable[[Round], float]
    key: str | None = None
    scale: float = 1.0
    within: bool = False
    limit_name: str = "threshold"


def usage_range(record: Round) -> float:
    """Highest minus lowest usage, in points."""
    return 100.0 * record.spread.range


@dataclass(frozen=True, slots=True)
class SheddingStrategy:
    """Registry entry of a strategy. It is picklable, so its functions are defined at module level.

    `summary`: a sentence. `fixed`, `parity`: build the rule of the mode from its settings; without
    `parity`, both modes have the same rule. `goal`: when a cluster is balanced. `tuning`: setting →
    values that `tune` tries, including the default. `pulsar_class`: the class that a broker.conf
    names for it, empty if there is none.
    `placement`: the one that Pulsar's users run with it; `published_placement`: the one behind its
    published figures, if available. `load_manager`: the one it belongs to. `balances`: the measure
    that it balances. `distributes_evenly`: whether bundles are also spread by number, unless the
    settings say otherwise. `quiet`: takes the settings of fixed mode and finds rounds that decide
    nothing, for back-tests; None if every round has to run. `demo`: setting → value and reason,
    where the demo does not use the default. `parity_usage`: takes the settings, and builds the
    usage in records of parity mode. `advice`: codes of the skips that say what to do where moving
    bundles cannot help. `sample_key`: the setting with the period of its samples in seconds, which
    must be at least the brokers' report period; None for rules without samples. `memory`: takes the
    settings, says how far back its memory reaches. `parity_in`: builds the rule of parity mode in
    releases of Pulsar whose rule is not that of the oldest known one. `meanings`: of the reason
    codes that no other module declares.
    """

    name: str
    summary: str
    settings: type
    fixed: Callable[[Any, Weights], Shedder]
    goal: GoalFigure
    tuning: Mapping[str, Sequence[float]]
    pulsar_class: str = ""
    parity: Callable[[Any, Weights], Shedder] | None = None
    placement: str = "least_long_term_rate"
    published_placement: str | None = None
    load_manager: Literal["modular", "extensible"] = "modular"
    balances: Literal["usage", "traffic"] = "usage"
    distributes_evenly: bool = True
    quiet: Callable[[Any], QuietScreen | None] | None = None
    demo: Mapping[str, tuple[float | bool, str]] = field(default_factory=dict)
    parity_usage: Callable[[Any, Weights], Usage] = largest_weighted_resource
    advice: frozenset[str] = frozenset()
    sample_key: str | None = None
    memory: Callable[[Any], StrategyMemory] = no_memory
    parity_in: Mapping[PulsarRelease, Callable[[Any, Weights], Shedder]] = field(
        default_factory=dict
    )
    meanings: tuple[Meaning, ...] = ()

    @property
    def java_class(self) -> str:
        """Name of the class in sentences: Pulsar's without its package, or that of the rule."""
        return self.pulsar_class.rpartition(".")[2] or self.fixed.__name__

    def build(
        self,
        settings: object,
        weights: Weights,
        mode: Mode,
        release: PulsarRelease = RELEASES[0],
    ) -> Shedder:
        """Builds the rule; `settings` must be of the entry's settings class. `release`: whose rule
        parity mode follows.
        """
        if mode == "fixed":
            return self.fixed(settings, weights)
        return self.parity_in.get(release, self.parity or self.fixed)(settings, weights)

    def usage(self, settings: object, weights: Weights, mode: Mode) -> Usage:
        """Builds the usage that round records show; `settings` as in `build`."""
        chosen = self.parity_usage if mode == "parity" else largest_weighted_resource
        return chosen(settings, weights)

    def check_samples(self, settings: object, rounds: RoundSettings) -> None:
        """Raises SettingsError if a report might count as two samples. The brokers' report period
        is no setting: it is the usual one, or less where rounds are closer together. `doctor` asks
        the brokers.
        """
        if self.sample_key is None:
            return
        sample_s, interval_s = float(getattr(settings, self.sample_key)), rounds.interval_ms / 1000
        least = min(interval_s, USUAL_PERIOD_S)
        if sample_s >= least:
            return
        period = (
            f"the time between rounds (round.interval_ms = {rounds.interval_ms})"
            if interval_s <= USUAL_PERIOD_S
            else f"the usual report period of brokers ({USUAL_PERIOD_S:g} s)"
        )
        text = f"{sample_s:g} is less than {period}, so one report may count as two samples"
        raise SettingsError(
            [f"shedding.{self.name}.{self.sample_key}: {text}; set it to at least {least:g}"]
        )
