"""Finds the rounds in which SteadyShedder decides nothing, which back-tests skip."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from strategies.cluster.model import Skip
from strategies.cluster.strategy_memory import Memory
from strategies.shedding.broker_memory import with_histories
from strategies.shedding.contract import QuietScreen, RoundColumns
from strategies.shedding.steady.effect_and_rest_of_last_plan import remembered, resting
from strategies.shedding.steady.lasting_gaps import compared_brokers
from strategies.shedding.steady.learned_load_cost import learned
from strategies.shedding.steady.load_samples import NO_SAMPLES, continued
from strategies.shedding.steady.memory_format import LoadHistory, episode_of, histories_of, moves_of
from strategies.shedding.steady.persistence_of_load import is_calm, is_due, looked
from strategies.shedding.steady.settings import PROFILES, SteadySettings
from strategies.shedding.steady.steady_round import gap_or_reason


def quiet(settings: SteadySettings) -> QuietScreen:
    """Finds rounds without a gap that counts; none while moves wait to be shown or judged."""

    def screen(rounds: RoundColumns, memory: Memory) -> tuple[Sequence[tuple[Skip, ...]], Memory]:
        cluster, skips, kept = memory.cluster, list[tuple[Skip, ...]](), None
        episode, moves = episode_of(cluster), tuple(moves_of(cluster))
        if not episode.judged or any(not one.shown for one in moves):
            return skips, memory
        profile = PROFILES[settings.steadiness].among(len(rounds.brokers))
        every = zip(_advanced(rounds, memory, settings), rounds.cpu_limit.tolist(), strict=True)
        for (now_ms, usage, histories), limits in every:
            compared = {name: histories[name] for name in compared_brokers(usage)}
            episode = remembered(episode, now_ms)
            if is_due(episode, profile, now_ms):
                if len(compared) == len(usage) and not is_calm(compared, profile):
                    break
                episode = looked(episode, now_ms, None)
            found = gap_or_reason(
                rounds.cluster,
                compared,
                episode,
                settings,
                cache(partial(learned, compared, dict(zip(rounds.brokers, limits, strict=True)))),
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
