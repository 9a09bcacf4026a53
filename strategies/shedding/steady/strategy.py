"""SteadyShedder as an entry of the registry: goal, tuning and placement."""

from __future__ import annotations

from strategies.cluster.model import Round
from strategies.shedding.contract import GoalFigure, SheddingStrategy, StrategyMemory
from strategies.shedding.steady.doubt import JUDGED_AGE_MS
from strategies.shedding.steady.fixed import SteadyShedder
from strategies.shedding.steady.obstacles import ADVICE
from strategies.shedding.steady.quiet_rounds import quiet
from strategies.shedding.steady.samples import LEVEL_AGE_MS, LEVEL_MS, SAMPLES
from strategies.shedding.steady.settings import SteadySettings


def usage_range(record: Round) -> float:
    """Highest minus lowest usage, in points."""
    return 100.0 * record.spread.range


def memory(settings: SteadySettings) -> StrategyMemory:
    """Samples and levels of load; moves that rest, and what the last judged ones said."""
    return StrategyMemory(
        samples=SAMPLES,
        learned_ms=LEVEL_AGE_MS + LEVEL_MS,
        decisions_ms=max(round(60_000 * settings.rest_minutes), JUDGED_AGE_MS),
        judges_moves=True,
    )


STEADY = SheddingStrategy(
    "steady",
    "SteadyShedder",
    "When a gap between brokers lasts, a plan for the whole cluster moves as little load as "
    "possible; each round states how near the optimum the cluster is.",
    SteadySettings,
    fixed=SteadyShedder,
    parity=SteadyShedder,
    goal=GoalFigure("max − min of the brokers' usage", usage_range),
    tuning={"sample_seconds": (60,), "rest_minutes": (30, 60, 120)},
    placement="none",
    distributes_evenly=False,
    quiet=quiet,
    advice=ADVICE,
    sample_key="sample_seconds",
    memory=memory,
)
