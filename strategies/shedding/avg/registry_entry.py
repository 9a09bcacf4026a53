"""AvgShedder as an entry of the registry: goal, tuning and placement."""

from strategies.shedding.avg.fixed import AvgShedder
from strategies.shedding.avg.parity import ParityAvgShedder, parity_50
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.contract import GoalFigure, SheddingStrategy, StrategyMemory, usage_range
from strategies.states_and_advice_of_codes import NOTHING, Meaning


def memory(settings: AvgSettings) -> StrategyMemory:
    """Hits in a row."""
    return StrategyMemory(samples=max(settings.hit_count_low, settings.hit_count_high))


ENTRY = SheddingStrategy(
    "avg",
    "The fullest broker is paired with the emptiest and sheds part of the difference after "
    "enough rounds far apart.",
    AvgSettings,
    fixed=AvgShedder,
    pulsar_class="org.apache.pulsar.broker.loadbalance.impl.AvgShedder",
    parity=ParityAvgShedder,
    parity_in={"5.0": parity_50},
    goal=GoalFigure("max − min of the brokers' usage", usage_range, "low_threshold"),
    tuning={
        "low_threshold": (3, 5, 8, 10, 15, 20),
        "high_threshold": (20, 30, 40),
        "hit_count_low": (2, 4, 8),
        "hit_count_high": (1, 2),
        "max_unload": (0.2, 0.35, 0.5),
    },
    placement="avg",
    published_placement="avg",
    demo={
        "max_unload": (
            0.5,
            "Pulsar's documentation advises 0.5; with the default 0.2 it takes twice as many "
            "rounds",
        )
    },
    memory=memory,
    meanings=(Meaning("close-together", "balanced", 1310, NOTHING),),
)
