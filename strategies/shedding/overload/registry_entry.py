"""OverloadShedder as an entry of the registry: goal, tuning, placement and reason codes, and the
rounds in which it decides nothing, which back-tests skip.
"""

from collections.abc import Sequence

from strategies.cluster.model import Round, Skip
from strategies.cluster.strategy_memory import Memory
from strategies.shedding.contract import GoalFigure, QuietScreen, RoundColumns, SheddingStrategy
from strategies.shedding.overload.fixed import OverloadShedder
from strategies.shedding.overload.parity import ParityOverloadShedder, parity_usage
from strategies.shedding.overload.settings import OverloadSettings
from strategies.states_and_advice_of_codes import NOTHING, Meaning


def quiet(settings: OverloadSettings) -> QuietScreen:
    """Finds rounds in which no broker is overloaded; the strategy has no memory."""

    def screen(rounds: RoundColumns, memory: Memory) -> tuple[Sequence[tuple[Skip, ...]], Memory]:
        hot = ~(rounds.usage < settings.threshold_percent / 100).all(axis=1)
        return [()] * (int(hot.argmax()) if hot.any() else len(rounds.usage)), memory

    return screen


def highest_usage(record: Round) -> float:
    """Usage of the fullest broker, in points."""
    return 100.0 * max(record.balanced_usage.values(), default=0.0)


ENTRY = SheddingStrategy(
    "overload",
    "Brokers above a fixed usage shed their heaviest bundles.",
    OverloadSettings,
    fixed=OverloadShedder,
    pulsar_class="org.apache.pulsar.broker.loadbalance.impl.OverloadShedder",
    parity=ParityOverloadShedder,
    goal=GoalFigure("usage of the fullest broker", highest_usage, "threshold_percent"),
    tuning={"threshold_percent": (50, 60, 70, 75, 80, 85, 90)},
    published_placement="least_long_term_rate",
    quiet=quiet,
    parity_usage=parity_usage,
    meanings=(Meaning("not-overloaded", "balanced", 1330, NOTHING),),
)
