"""SteadyShedder as an entry of the registry: goal, tuning and placement, and the rounds in which it
decides nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from strategies.cluster.model import Skip
from strategies.cluster.strategy_memory import Memory
from strategies.reason_codes import (
    ADD_BROKERS,
    CHECK_POLICIES,
    NEXT_ROUNDS,
    NOTHING,
    OTHER_LOAD,
    SPLIT_BUNDLES,
    Meaning,
)
from strategies.shedding.broker_memory import with_histories
from strategies.shedding.contract import (
    GoalFigure,
    QuietScreen,
    RoundColumns,
    SheddingStrategy,
    StrategyMemory,
    usage_range,
)
from strategies.shedding.steady.fixed import SteadyShedder, compared_brokers
from strategies.shedding.steady.last_plan import JUDGED_AGE_MS, remembered
from strategies.shedding.steady.load_cost import learned
from strategies.shedding.steady.load_history import (
    Episode,
    LoadHistory,
    histories_of,
    moves_of,
)
from strategies.shedding.steady.load_samples import (
    LEVEL_AGE_MS,
    LEVEL_MS,
    NO_SAMPLES,
    SAMPLES,
    continued,
)
from strategies.shedding.steady.planned_round import gap_or_reason, resting
from strategies.shedding.steady.settings import SteadySettings


def memory(settings: SteadySettings) -> StrategyMemory:
    """Samples and levels of load; moves that rest, and what the last judged ones said."""
    return StrategyMemory(
        samples=SAMPLES,
        learned_ms=LEVEL_AGE_MS + LEVEL_MS,
        decisions_ms=max(round(60_000 * settings.rest_minutes), JUDGED_AGE_MS),
        judges_moves=True,
    )


def quiet(settings: SteadySettings) -> QuietScreen:
    """Finds rounds without a gap that counts; none while moves wait to be shown or judged."""

    def screen(rounds: RoundColumns, memory: Memory) -> tuple[Sequence[tuple[Skip, ...]], Memory]:
        cluster, skips, kept = memory.cluster, list[tuple[Skip, ...]](), None
        episode, moves = Episode(*cluster.episode), tuple(moves_of(cluster))
        if not episode.judged or any(not one.shown for one in moves):
            return skips, memory
        for now_ms, usage, histories in _advanced(rounds, memory, settings):
            compared = {name: histories[name] for name in compared_brokers(usage)}
            episode = remembered(episode, now_ms)
            found = gap_or_reason(
                rounds.cluster,
                compared,
                episode,
                settings,
                cache(partial(learned, compared)),
                now_ms=now_ms,
                count=len(usage),
            )
            if not isinstance(found, Skip):
                break
            skips.append((found,))
            kept = histories
        if kept is None:
            return skips, memory
        moves = resting(moves, int(rounds.now_ms[len(skips) - 1]), settings.rest_minutes)
        memory = with_histories(memory, kept)
        return skips, Memory(memory.brokers, replace(memory.cluster, moves=moves, episode=episode))

    return screen


def _advanced(
    rounds: RoundColumns, memory: Memory, settings: SteadySettings
) -> Iterator[tuple[int, Mapping[str, float], Mapping[str, LoadHistory]]]:
    """Time, usages and histories of each round."""
    period_ms = 1000.0 * settings.sample_seconds
    kept = histories_of(memory, rounds.brokers)
    histories = {name: kept.get(name, NO_SAMPLES) for name in rounds.brokers}
    columns = (
        rounds.reported_at_ms,
        rounds.usage,
        rounds.throughput,
        rounds.msg_rate,
        rounds.bundles,
        rounds.fresh,
        rounds.settling,
    )
    for now_ms, *rows in zip(
        rounds.now_ms.tolist(), *(one.tolist() for one in columns), strict=True
    ):
        histories = {
            name: histories[name]
            if settles
            else continued(histories[name], (at, usage, bytes_, rate), int(count), new, period_ms)
            for name, at, usage, bytes_, rate, count, new, settles in zip(
                rounds.brokers, *rows, strict=True
            )
        }
        yield now_ms, dict(zip(rounds.brokers, rows[1], strict=True)), histories


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
