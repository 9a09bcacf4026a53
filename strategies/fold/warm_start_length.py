"""Computes how much earlier telemetry a new job must read before its first published round, so that
its memory is that of a job that ran all along.

The memory of an engine either ends at a time (cool-downs, budgets, hits in a row) or fades (an
average of weight w). A faded average is bit-identical to that of an engine that ran all along.
Record 0255 lists the memories that never fade.
"""

from math import ceil, log

from strategies.cluster.budget import HOUR_MS
from strategies.fold.engine import EngineSettings

#: Weight of the past in the short averages of bundles, one sample per round.
_SHORT_AVERAGE = 0.9
#: Bits of a float64's fraction: a difference that has shrunk by this number of bits is zero.
_BITS = 53
#: Rounding errors keep two averages apart for longer than their weight alone does, and not every
#: round has a new sample of every broker.
_MARGIN = 1.4
#: Maximum number of samples for which the window waits until an average has faded.
MOST_SAMPLES = 1_440


def samples_until_faded(weight: float) -> int:
    """Returns the number of samples after which an average no longer depends on its first value, at
    most MOST_SAMPLES. `weight`: of the past, 0–1; an average of weight 1 never fades.
    """
    if weight <= 0:
        return 1
    if weight >= 1:
        return MOST_SAMPLES
    return min(MOST_SAMPLES, ceil(_MARGIN * _BITS * log(2) / -log(weight)))


def warm_window_ms(settings: EngineSettings) -> int:
    """Returns the time (ms) before its first published round at which an engine must begin, to
    decide as if it had run all along. Raises SettingsError for an unknown strategy.
    """
    rounds = settings.round
    memory = settings.entry.memory(settings.chosen)
    samples = max(
        samples_until_faded(_SHORT_AVERAGE), samples_until_faded(memory.weight), memory.samples
    )
    averages_ms = max(samples * rounds.interval_ms, memory.learned_ms)
    # First the averages fade, from when on all decisions are equal; then the memory of decisions.
    decisions_ms = max(
        HOUR_MS,
        rounds.cool_down_ms,
        rounds.command_ttl_ms,
        settings.throttling.repeat_ms,
        memory.decisions_ms,
    )
    first_round = rounds.interval_ms + rounds.lateness_ms + rounds.max_clock_jump_ms
    return first_round + averages_ms + decisions_ms
