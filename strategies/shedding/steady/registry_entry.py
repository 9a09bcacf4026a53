"""SteadyShedder as an entry of the registry: goal, tuning, placement and reason codes."""

from strategies.shedding.contract import GoalFigure, SheddingStrategy, StrategyMemory, usage_range
from strategies.shedding.steady.effect_and_rest_of_last_plan import JUDGED_AGE_MS
from strategies.shedding.steady.load_samples import LEVEL_AGE_MS, LEVEL_MS, SAMPLES
from strategies.shedding.steady.quiet_rounds import quiet
from strategies.shedding.steady.settings import SteadySettings
from strategies.shedding.steady.steady_round import SteadyShedder
from strategies.states_and_advice_of_codes import (
    ADD_BROKERS,
    CHECK_POLICIES,
    NEXT_ROUNDS,
    NOTHING,
    OTHER_LOAD,
    SPLIT_BUNDLES,
    Meaning,
)


def memory(settings: SteadySettings) -> StrategyMemory:
    """Samples and levels of load; moves that rest, and what the last judged ones said."""
    return StrategyMemory(
        samples=SAMPLES,
        learned_ms=LEVEL_AGE_MS + LEVEL_MS,
        decisions_ms=max(round(60_000 * settings.rest_minutes), JUDGED_AGE_MS),
        judges_moves=True,
    )


ENTRY = SheddingStrategy(
    "steady",
    "When a gap between brokers lasts, a plan for the whole cluster moves as little load as "
    "possible; each round states how near the optimum the cluster is.",
    SteadySettings,
    fixed=SteadyShedder,
    goal=GoalFigure("max − min of the brokers' usage", usage_range),
    tuning={"sample_seconds": (60,), "rest_minutes": (30, 60, 120)},
    pulsar_class="SteadyShedder",
    placement="none",
    distributes_evenly=False,
    quiet=quiet,
    advice=frozenset(
        {
            "cluster-full",
            "bundle-too-large",
            "load-without-bundles",
            "coarse-bundles",
            "policies-hold",
        }
    ),
    sample_key="sample_seconds",
    memory=memory,
    meanings=(
        Meaning("policies-hold", "not-allowed", 340, CHECK_POLICIES),
        Meaning(
            "waiting-for-samples",
            "waiting",
            610,
            "Wait for three reports of each broker; if it lasts, check with `rebalancer doctor` "
            "how often brokers report, and find what keeps changing their bundles.",
        ),
        Meaning("load-comes-and-goes", "waiting", 630, NEXT_ROUNDS),
        Meaning(
            "moves-did-not-help",
            "waiting",
            640,
            "Check the outcomes of the last commands: `rebalancer explain`.",
        ),
        Meaning("resting", "waiting", 670, NEXT_ROUNDS),
        Meaning("cluster-full", "cannot-help", 800, ADD_BROKERS),
        Meaning("bundle-too-large", "cannot-help", 810, SPLIT_BUNDLES, speaks_for_round=True),
        Meaning("load-without-bundles", "cannot-help", 820, OTHER_LOAD),
        Meaning("coarse-bundles", "cannot-help", 830, SPLIT_BUNDLES),
        Meaning("not-worth-it", "cannot-help", 840, NOTHING),
        Meaning("no-better-plan", "cannot-help", 850, SPLIT_BUNDLES),
    ),
)
