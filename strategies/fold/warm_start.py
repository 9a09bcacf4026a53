"""Computes how far back a job must begin to read telemetry that another job has decided on already,
so that its memory is that of a job that ran all along.

What an engine remembers either has an end in time (cool-downs, budgets, hits in a row) or fades (an
average of weight w). A faded average is bit-identical to that of an engine that ran all along; what
never fades is in `docs/decisions/0255`.
"""

from math import ceil, log

from strategies.cluster.budget import HOUR_MS
from strategies.fold.engine import EngineSettings

#: Weight of the past in the short averages of bundles, one sample per round.
_SHORT_AVERAGE = 0.9
#: Bits of a float64's fraction: a difference that has shrunk by this many has gone.
_BITS = 53
#: Rounding errors of both averages keep them apart for longer than the weight alone says, and not
#: every round has a new sample of every broker.
_MARGIN = 1.4
#: An average that fades more slowly than this many samples does not end the window.
MOST_SAMPLES = 1_440


def faded_after(weight: float) -> int:
    """Number of samples after which nothing is left of an average's first value; `weight`: of the
    past, 0–1. At most MOST_SAMPLES; 1 never fades.
    """
    if weight <= 0:
        return 1
    if weight >= 1:
        return MOST_SAMPLES
    return min(MOST_SAMPLES, ceil(_MARGIN * _BITS * log(2) / -log(weight)))


def warm_window_ms(settings: EngineSettings) -> int:
    """Time before its first published round at which an engine must begin, to decide as if it had
    run all along. Raises SettingsError for an unknown strategy.
    """
    rounds = settings.round
    memory = settings.entry.memory(settings.chosen)
    samples = max(faded_after(_SHORT_AVERAGE), faded_after(memory.weight), memory.samples)
    averages_ms = max(samples * rounds.interval_ms, memory.learned_ms)
    # Averages first: then all decisions are equal. Then what the engine remembers of its decisions.
    decisions_ms = max(
        HOUR_MS,
        rounds.cool_down_ms,
        rounds.command_ttl_ms,
        settings.throttling.repeat_ms,
        memory.decisions_ms,
    )
    first_round = rounds.interval_ms + rounds.lateness_ms + rounds.max_clock_jump_ms
    return first_round + averages_ms + decisions_ms
