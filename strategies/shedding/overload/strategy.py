"""OverloadShedder as an entry of the registry: goal, tuning, placement, and the rounds in which it
decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from strategies.bundles.bundle_loads import Bools, Floats
from strategies.model import Memory, Round
from strategies.shedding.contract import GoalFigure, QuietScreen, SheddingStrategy
from strategies.shedding.overload.fixed import OverloadShedder
from strategies.shedding.overload.parity import ParityOverloadShedder, parity_usage
from strategies.shedding.overload.settings import OverloadSettings


def highest_usage(record: Round) -> float:
    """Usage of the fullest broker, in points."""
    return 100.0 * max(record.usage.values(), default=0.0)


def quiet(settings: OverloadSettings) -> QuietScreen:
    """Finds rounds in which no broker is overloaded; the strategy has no memory."""

    def screen(
        names: Sequence[str], usages: Floats, fresh: Bools, memory: Memory
    ) -> tuple[int, Memory]:
        hot = ~(usages < settings.threshold_percent / 100).all(axis=1)
        return int(hot.argmax()) if hot.any() else len(usages), memory

    return screen


OVERLOAD = SheddingStrategy(
    "overload",
    "org.apache.pulsar.broker.loadbalance.impl.OverloadShedder",
    "Brokers above a fixed usage shed their heaviest bundles.",
    OverloadSettings,
    fixed=OverloadShedder,
    parity=ParityOverloadShedder,
    goal=GoalFigure("usage of the fullest broker", highest_usage, "threshold_percent"),
    tuning={"threshold_percent": (50, 60, 70, 75, 80, 85, 90)},
    published_placement="least_long_term_rate",
    quiet=quiet,
    parity_usage=parity_usage,
)
