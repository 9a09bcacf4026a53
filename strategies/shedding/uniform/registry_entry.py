"""UniformLoadShedder as an entry of the registry: goal, tuning and placement."""

from strategies.cluster.model import Round
from strategies.shedding.contract import GoalFigure, SheddingStrategy
from strategies.shedding.uniform.fixed import UniformLoadShedder
from strategies.shedding.uniform.parity import ParityUniformLoadShedder
from strategies.shedding.uniform.settings import UniformSettings
from strategies.states_and_advice_of_codes import CHANGE_SETTING, NOTHING, Meaning


def throughput_above_mean(record: Round) -> float:
    """How far the busiest broker's throughput is above the mean, in percent of it."""
    return 100.0 * max(0.0, record.throughput_spread.max_over_mean - 1.0)


ENTRY = SheddingStrategy(
    "uniform",
    "The broker with most traffic sheds a part of its lead over the one with least.",
    UniformSettings,
    fixed=UniformLoadShedder,
    pulsar_class="org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder",
    parity=ParityUniformLoadShedder,
    goal=GoalFigure(
        "how far the busiest broker's throughput is above the mean, in percent of it",
        throughput_above_mean,
    ),
    tuning={
        "rate_difference_percent": (20, 30, 50, 80),
        "throughput_ratio": (1.2, 1.5, 2, 4),
        "max_unload": (0.1, 0.2, 0.35, 0.5),
    },
    published_placement="least_long_term_rate",
    balances="traffic",
    meanings=(
        Meaning("enough-for-one-round", "not-allowed", 1120, CHANGE_SETTING),
        Meaning("not-the-busiest", "balanced", 1380, NOTHING),
    ),
)
