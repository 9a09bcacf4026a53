"""All figures of a run: time until balance and its quality, what was moved, and the distance to the
bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite, nan

import numpy as np
import numpy.typing as npt

from pulsar_rebalancer.lab.simulation.metrics import least_move_and_spread
from pulsar_rebalancer.lab.simulation.metrics.moves import (
    back_and_forth,
    most_in_an_hour,
    moved_twice,
    over_placement,
    over_unloading,
    prediction_error,
    returns,
    traffic_moved,
    useless_moves,
)
from pulsar_rebalancer.lab.simulation.timeline import Timeline
from strategies.bundles import Floats
from strategies.ordered_sum import ordered_sum

#: A run is balanced after this number of consecutive rounds within the target.
STEADY_ROUNDS = 5
DAY_MS = 86_400_000.0


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """True figures of the model, which bounds need. In units of load: `sizes` float64[bundles]; the
    others per broker of the timeline.

    `idle`: usage without bundles (fraction); `capacity`: load per unit of usage.
    """

    sizes: Floats
    idle: Floats
    capacity: Floats


@dataclass(frozen=True, slots=True)
class Yardstick:
    """Parameters of the figures. `target`: spread (fraction) that counts as balanced; `onset`:
    first round that counts.

    `limit`: usage (fraction) above which a broker is overloaded; `calm`: load is never lastingly
    uneven, so every unload is a false one.
    """

    target: float = 0.10
    onset: int = 0
    limit: float = 0.85
    calm: bool = False


#: Figures of a run by name.
#:
#: Of the strategy's moves, without those of drains, which `client_cost` alone counts. NaN:
#: unknown; ∞: never happened. Spreads are in points, times in rounds after the onset unless stated
#: otherwise.
#:
#: `typical_spread`: median; `lasting_spread`: at the end, without noise. `ratio_…`,
#: `rate_ratio_…`: largest ÷ smallest throughput and message rate. `largest_bundle`: at the end, ÷
#: a broker's fair share. `moved_twice`: bundles moved more than once; `back_and_forth`: moves back
#: to the broker left before. `false_unloads_a_day`: at usages within the target. `over_unloading`,
#: `over_placement`: sum of points by which sources or destinations went past the mean.
#: `overload_minutes`: Σ over brokers of (load − limit)⁺ × time; `overload_ratio`: ÷ that of an
#: oracle that balances everything in one round. `client_cost`: topics × seconds without a broker.
#: `prediction_error`: difference between predicted and measured usage, in points. `useless_moves`:
#: brought less than a tenth of the predicted gain; `returns`: moves back within the rest time.
RunFigures = Mapping[str, float]


def finite(value: float) -> float | None:
    """The value; None if it is unknown or infinite."""
    return value if isfinite(value) else None


def known(figures: RunFigures) -> dict[str, float | None]:
    """Figures by name; None for unknown ones and for what never happened."""
    return {name: finite(value) for name, value in figures.items()}


def figures_of(timeline: Timeline, by: Yardstick, truth: Truth) -> RunFigures:
    """All figures of a run."""
    onset = min(by.onset, timeline.rounds - 1)
    spread, lasting = timeline.spread() * 100, timeline.spread("lasting") * 100
    moves = [move for move in timeline.moved() if move.round >= onset and not move.is_drain]
    later = [move for move in timeline.moves if move.round >= onset]
    rounds = sorted({move.round for move in moves})
    first = min(rounds, default=onset)
    balanced = _balanced(lasting <= 100 * by.target + 1e-9, onset)
    attainable = _attainable(timeline, truth)
    moved = traffic_moved(moves)
    least = _least(timeline, onset, float(lasting[-1]) / 100, truth)
    days = (float(timeline.times_ms[-1] - timeline.times_ms[onset]) + timeline.interval_ms) / DAY_MS
    return {
        "rounds_to_detect": _first(spread[onset:] > 100 * by.target),
        "rounds_to_first_command": float(first - onset) if rounds else inf,
        "rounds_to_balance": balanced,
        "seconds_to_balance": balanced * timeline.interval_ms / 1000,
        "operations": float(len(rounds)),
        "bundles_moved": float(len(moves)),
        "bundles_at_first": float(sum(move.round == first for move in moves)),
        "bundles_placed": float(sum(move.kind == "placed" for move in later)),
        "minutes_moving": (rounds[-1] - first + 1) * timeline.interval_ms / 60_000
        if rounds
        else 0.0,
        "unloads_per_hour": len(moves) / days / 24,
        "most_unloads_per_hour": float(most_in_an_hour(moves)),
        "moved_mib": moved / 2**20,
        "least_mib": least / 2**20,
        "churn_ratio": _quotient(moved, least, nan),
        "start_spread": float(spread[onset]),
        "end_spread": _tail(spread),
        "typical_spread": float(np.nanmedian(spread[onset:])),
        "lasting_spread": _tail(lasting),
        "attainable_spread": attainable,
        "residual_gap": _tail(lasting) - attainable,
        "largest_bundle": least_move_and_spread.largest_over_share(
            truth.sizes, int(np.isfinite(timeline.lasting[-1]).sum())
        ),
        **_ratios(timeline, onset),
        "moved_twice": float(moved_twice(moves)),
        "back_and_forth": float(back_and_forth(moves)),
        "returns": float(returns(moves)),
        "false_unloads_a_day": sum(
            bool(by.calm or lasting[move.round] <= 100 * by.target) for move in moves
        )
        / days,
        "over_unloading": over_unloading(timeline, moves),
        "over_placement": over_placement(timeline, later),
        "overload_minutes": _overload_minutes(timeline, onset, by.limit),
        "overload_ratio": _overload_ratio(timeline, onset, by.limit),
        "client_cost": float(
            ordered_sum(move.topics * move.blip_ms / 1000 for move in later if move.happened)
        ),
        "prediction_error": prediction_error(timeline, moves),
        "useless_moves": useless_moves(timeline, moves),
        "share_with_reason": sum(bool(move.code and move.reason) for move in moves) / len(moves)
        if moves
        else 1.0,
    }


def _ratios(timeline: Timeline, onset: int) -> dict[str, float]:
    return {
        "ratio_start": _ratio(timeline.msg_throughput[onset]),
        "ratio_end": _ratio(_mean_of_last(timeline.msg_throughput)),
        "rate_ratio_start": _ratio(timeline.msg_rate[onset]),
        "rate_ratio_end": _ratio(_mean_of_last(timeline.msg_rate)),
        "usage_ratio_end": _ratio(timeline.lasting[-1]),
        "peak_over_mean": _peak_over_mean(timeline.lasting[-1]),
    }


def _first(hits: npt.NDArray[np.bool_]) -> float:
    return float(hits.argmax()) if hits.any() else inf


def _balanced(good: npt.NDArray[np.bool_], onset: int) -> float:
    """Rounds from the onset to the first of enough consecutive good rounds; ∞ if there are none."""
    run = 0
    for round_, fine in enumerate(good[onset:].tolist()):
        run = run + 1 if fine else 0
        if run == STEADY_ROUNDS:
            return float(round_ - STEADY_ROUNDS + 1)
    return inf


def _attainable(timeline: Timeline, truth: Truth) -> float:
    there = np.isfinite(timeline.lasting[-1])
    return 100 * least_move_and_spread.attainable_spread(
        truth.sizes, truth.idle[there], truth.capacity[there]
    )


def _least(timeline: Timeline, onset: int, reached: float, truth: Truth) -> float:
    """Least bytes/s that must move to get from the usages at the onset to the spread reached."""
    usage, traffic = timeline.lasting[onset], timeline.msg_throughput[onset]
    there = np.isfinite(usage) & np.isfinite(traffic)
    if not there.any() or not isfinite(reached):
        return nan
    load = float(((usage - truth.idle) * truth.capacity)[there].sum())
    per_load = float(traffic[there].sum()) / load if load > 0 else 0.0
    return (
        least_move_and_spread.least_to_move(usage[there], reached, truth.capacity[there]) * per_load
    )


def _tail(spread: Floats) -> float:
    """The mean of the last rounds."""
    last = spread[-STEADY_ROUNDS:]
    known = last[np.isfinite(last)]
    return float(known.mean()) if len(known) else nan


def _mean_of_last(figures: Floats) -> Floats:
    """float64[brokers], means of the brokers that are present in the last round."""
    last = figures[-STEADY_ROUNDS:]
    known = np.isfinite(last)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, last, 0.0).sum(axis=0) / known.sum(axis=0)
    return np.where(known[-1], mean, nan)


def _ratio(figures: Floats) -> float:
    known = figures[np.isfinite(figures)]
    if not len(known) or known.max() <= 0:
        return nan
    return float(known.max() / known.min()) if known.min() > 0 else inf


def _peak_over_mean(usage: Floats) -> float:
    known = usage[np.isfinite(usage)]
    return float(known.max() / known.mean()) if len(known) and known.mean() > 0 else nan


def _overload_minutes(timeline: Timeline, onset: int, limit: float) -> float:
    """Σ over brokers of (load − limit)⁺ × time, in full brokers × minutes."""
    above = np.maximum(np.nan_to_num(timeline.lasting[onset:]) - limit, 0.0)
    return float(above.sum()) * timeline.interval_ms / 60_000


def _overload_ratio(timeline: Timeline, onset: int, limit: float) -> float:
    """Overload relative to an oracle that is balanced from the second round on; ∞ if the oracle has
    no overload.
    """
    area, usage = _overload_minutes(timeline, onset, limit), timeline.lasting[onset:]
    first = float(np.maximum(np.nan_to_num(usage[0]) - limit, 0.0).sum())
    count = np.isfinite(usage).sum(axis=1)
    mean = np.nansum(usage, axis=1) / np.maximum(count, 1)
    even = float((np.maximum(mean[1:] - limit, 0.0) * count[1:]).sum())
    oracle = (first + even) * timeline.interval_ms / 60_000
    return _quotient(area, oracle, inf)


def _quotient(part: float, least: float, otherwise: float) -> float:
    """How many times `least` it is; 1 if both are 0."""
    if least > 0:
        return part / least
    return 1.0 if part == 0 else otherwise
