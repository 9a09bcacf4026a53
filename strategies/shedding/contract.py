"""What every shedding strategy answers to, and what it states about itself; all other packages know nothing else of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from strategies.bundles.bundle_loads import Bools, Floats
from strategies.model import BrokerLoad, ClusterView, Memory, Round, Shedding
from strategies.settings import Mode, Weights


class Shedder(Protocol):
    """A rule that picks bundles to move. Holds settings only; everything it remembers is in `Memory`."""

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """One round. Never raises on a legal view. A broker or bundle it leaves alone appears in `skips` with a reason code."""

    def usage(self, broker: BrokerLoad) -> float:
        """The usage (fraction) this rule judges a broker by before any history, for round records."""


#: Of brokers by name, `usages`: float64[rounds, brokers], all finite; `fresh`: whether a figure is a new sample; what was remembered.
#: Answers how many rounds from the first on are certain to decide nothing, and what is remembered after them.
QuietScreen = Callable[[Sequence[str], Floats, Bools, Memory], tuple[int, Memory]]


@dataclass(frozen=True, slots=True)
class GoalFigure:
    """When a strategy has nothing to do: `figure` (in points) of a round's record is below the setting `key` (with `within`: or equal).

    `measure`: the figure in words. `limit_name`: what reports call the limit; `scale`: points of one unit of the setting. Without a `key`
    the figure is shown only, and the cluster is balanced when the round's record says `even`.
    """

    measure: str
    figure: Callable[[Round], float]
    key: str | None = None
    scale: float = 1.0
    within: bool = False
    limit_name: str = "threshold"


@dataclass(frozen=True, slots=True)
class SheddingStrategy:
    """All that the product knows of one strategy; picklable, so functions are defined at the top of a module.

    `fixed`, `parity`: the rule in either mode, made of its settings. `summary`: a sentence. `goal`: when a cluster is balanced.
    `tuning`: setting → values that `tune` tries, the default among them. `placement`: the one that Pulsar's users run beside it;
    `published_placement`: the one its published figures were made with, if it can be chosen. `load_manager`: the one it belongs to.
    `balances`: what it evens out. `quiet`: of settings of fixed mode, finds rounds
    that decide nothing for back-tests; None where every round has to run.
    `demo`: setting → value and reason where the demo does not use the default.
    """

    name: str
    pulsar_class: str
    summary: str
    settings: type
    fixed: Callable[[Any, Weights], Shedder]
    parity: Callable[[Any, Weights], Shedder]
    goal: GoalFigure
    tuning: Mapping[str, Sequence[float]]
    placement: str = "least_long_term_rate"
    published_placement: str | None = None
    load_manager: Literal["modular", "extensible"] = "modular"
    balances: Literal["usage", "traffic"] = "usage"
    quiet: Callable[[Any], QuietScreen | None] | None = None
    demo: Mapping[str, tuple[float | bool, str]] = field(default_factory=dict)

    @property
    def java_class(self) -> str:
        """The class of Pulsar without its package."""
        return self.pulsar_class.rpartition(".")[2]

    def build(self, settings: object, weights: Weights, mode: Mode) -> Shedder:
        """The rule with these settings, which are of the class `settings`."""
        return (self.parity if mode == "parity" else self.fixed)(settings, weights)
