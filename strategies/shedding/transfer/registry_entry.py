"""TransferShedder as an entry of the registry: goal, tuning and placement."""

from strategies.cluster.model import Round
from strategies.shedding.contract import GoalFigure, SheddingStrategy, StrategyMemory
from strategies.shedding.transfer.fixed import transfer_shedder
from strategies.shedding.transfer.parity import parity_transfer_shedder
from strategies.shedding.transfer.settings import TransferSettings
from strategies.states_and_advice_of_codes import (
    CHANGE_SETTING,
    CHECK_COLLECTOR,
    NOTHING,
    SPLIT_BUNDLES,
    Meaning,
)


def usage_deviation(record: Round) -> float:
    """Population standard deviation of usage, in points."""
    return 100.0 * record.spread.std


def memory(settings: TransferSettings) -> StrategyMemory:
    """The averages of brokers' usage, hits in a row, and which brokers have shed."""
    delay_ms = round(1000 * settings.delay_s)
    return StrategyMemory(
        weight=settings.history, samples=settings.hit_count + 1, decisions_ms=delay_ms
    )


ENTRY = SheddingStrategy(
    "transfer",
    "When usage is spread too far for enough rounds, the fullest brokers transfer bundles to "
    "the emptiest, or swap with them.",
    TransferSettings,
    fixed=transfer_shedder,
    pulsar_class="org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder",
    parity=parity_transfer_shedder,
    goal=GoalFigure(
        "standard deviation of the brokers' usage",
        usage_deviation,
        "target_std",
        scale=100.0,
        within=True,
        limit_name="target",
    ),
    tuning={
        "target_std": (0.03, 0.05, 0.1, 0.15, 0.25),
        "hit_count": (1, 2, 3, 5),
        "history": (0.0, 0.5, 0.75, 0.9),
    },
    placement="least_resource_usage_extensible",
    load_manager="extensible",
    memory=memory,
    meanings=(
        Meaning("too-few-bundles", "cannot-help", 870, SPLIT_BUNDLES),
        Meaning(
            "no-bundle-figures",
            "cannot-help",
            980,
            "Check that brokers report bundles, and what keeps them.",
        ),
        Meaning("has-policies", "not-allowed", 1110, CHANGE_SETTING),
        Meaning("not-at-the-ends", "balanced", 1370, NOTHING),
        Meaning("not-among-the-heaviest", "balanced", 1390, NOTHING),
        Meaning("nobody-to-judge", "blind", 1400, CHECK_COLLECTOR),
    ),
)
