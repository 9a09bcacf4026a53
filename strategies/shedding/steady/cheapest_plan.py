"""Plans the moves that bring the usages of all brokers into a band, with as little load and traffic
moved as possible.

The band [low, low + width] is the cheapest one that divisible load could reach. Of the moves that
the search finds, those that are not needed are dropped, two are replaced by one where that is good
enough, and others by ones with less traffic.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from strategies.bundles import Floats
from strategies.shedding.steady.greedy_move_search import searched, starts
from strategies.shedding.steady.planned_cluster import (
    TINY,
    LoadedBrokers,
    MovePlan,
    Numbers,
    PlannedMove,
    after_moves,
    no_moves,
    spread_of,
    unsure_spread,
)
from strategies.shedding.steady.settings import MANY, Profile

#: Widths that are tried, as factors of the profile's band.
_WIDTHS = (1.0, 0.7, 1.3)
#: What a plan costs: points per part of all load that moves, per move, and per point above the
#: band.
_MOVED_COST, _MOVE_COST, _WIDE_COST = 150.0, 1.0, 3.0
#: A move is dropped if the plan's spread grows by less than this part of what each of the others
#: cuts it by on average: for the clients of a bundle, a pause that changes next to nothing is still
#: a pause.
_FAIR_SHARE = 0.4
#: Moves are not dropped for that reason if a spread above this part of the limit of follow-ups
#: would remain: the next gap would call for them. A follow-up may leave all of the limit: no other
#: one comes after it.
_THIN_UP_TO = 0.5
#: Of plans of up to this number of moves, each two are tried to be replaced by one: of the bundles
#: nearest in size to both, this number is tried.
_FEW, _NEAREST = 16, 3
#: A plan must cut the spread by this part.
LEAST_CUT = 0.2
#: Part of the variance of a forecast that a plan for it may leave.
MOST_LEFT = 0.33
#: Part of the gap that counts once it lasts to which the crowd of many brokers may be apart: none
#: of them is the cause of a gap.
_CROWD = 0.9


@dataclass(frozen=True, slots=True)
class _Goal:
    """The width of the band that a plan aims at, the spread that it may leave where a further move
    brings little, and what each move must cut the spread by on average; in points.
    """

    band: float
    enough: float
    least: float


def best_plan(
    brokers: LoadedBrokers, profile: Profile, *, follows: bool = False, least: float = 0.0
) -> MovePlan:
    """The cheapest plan; without moves if none cuts the spread by a fifth. `follows`: whether it
    follows another plan of its episode; `least`: what each of its moves must cut the spread by on
    average, in points.
    """
    few = len(brokers.usage) <= MANY
    width = profile.band if few else _crowd(brokers.usage, profile)
    goal = _Goal(width, profile.follow_up * (1.0 if follows else _THIN_UP_TO), least)
    found = [searched(brokers, width * factor) for factor in (_WIDTHS if few else _WIDTHS[:1])]
    best = _cheapest(brokers, found, goal)
    if few and best.spread > width:
        bold = [searched(brokers, width, first) for first in starts(brokers)]
        best = _cheapest(brokers, [*found, *bold], goal)
    if few and len(best.moves) <= _FEW:
        best = _with_fewer_moves(brokers, best, goal)
    if spread_of(brokers.usage) - best.spread < least * len(best.moves):
        best = no_moves(brokers)
    return replace(best, refused=any(plan.refused for plan in found))


def _crowd(usage: Floats, profile: Profile) -> float:
    """The width of the band for many brokers, in points: most of them are a crowd in which no test
    finds a gap, and moves would only stir it.
    """
    rising = np.sort(usage)
    last = np.searchsorted(rising, rising + _CROWD * profile.lasting, side="right") - 1
    first = int((last - np.arange(len(rising))).argmax())
    return max(profile.band, float(rising[last[first]] - rising[first]))


def _cheapest(brokers: LoadedBrokers, plans: Sequence[MovePlan], goal: _Goal) -> MovePlan:
    before = spread_of(brokers.usage)
    best, least = no_moves(brokers), float("inf")
    for plan in (_polished(brokers, one, goal) for one in plans):
        if not plan.moves or plan.spread > (1.0 - LEAST_CUT) * before:
            continue
        cost = _price(brokers, plan) + _WIDE_COST * max(0.0, plan.unsure_spread - goal.band)
        if cost < least:
            best, least = plan, cost
    return best


def _price(brokers: LoadedBrokers, plan: MovePlan) -> float:
    """Of the moves, in points."""
    total = float((brokers.usage * brokers.capacity).sum())
    return _MOVED_COST * plan.moved / max(total, TINY) + _MOVE_COST * len(plan.moves)


def pays_twice(brokers: LoadedBrokers, plan: MovePlan) -> bool:
    """Whether a plan for a forecast brings twice its price, and leaves little of the variance."""
    pays = _WIDE_COST * (spread_of(brokers.usage) - plan.spread) >= 2.0 * _price(brokers, plan)
    return bool(plan.moves and pays and plan.after.var() <= MOST_LEFT * brokers.usage.var())


def _polished(brokers: LoadedBrokers, plan: MovePlan, goal: _Goal) -> MovePlan:
    """The plan without moves that are not needed, and with bundles of less traffic where they
    suffice.
    """
    if not plan.moves or max(len(plan.moves), len(brokers.usage)) > MANY:
        return plan
    moves, spread = list(plan.moves), plan.unsure_spread
    for move in sorted(plan.moves, key=lambda one: (one.size, one.bundle)):
        if move.exchange:
            continue
        rest = [one for one in moves if one is not move]
        if _keeps(brokers, rest, _spread_without(brokers, 1, moves, spread, goal)):
            moves, spread = rest, unsure_spread(*after_moves(brokers, rest))
    moves = _without_small_ones(brokers, moves, spread, goal)
    spread = unsure_spread(*after_moves(brokers, moves))
    moves = _with_less_traffic(brokers, moves, max(goal.band, spread) + TINY)
    return MovePlan(tuple(moves), *after_moves(brokers, moves), plan.refused)


def _without_small_ones(
    brokers: LoadedBrokers, moves: list[PlannedMove], spread: float, goal: _Goal
) -> list[PlannedMove]:
    """The moves without the smallest that can be dropped together. `spread`: what all leave."""
    small = sorted(moves, key=lambda one: (one.size, one.bundle))
    for count in range(len(moves) - 1, 0, -1):
        dropped = small[:count]
        rest = [one for one in moves if one not in dropped]
        if not any(one.exchange for one in dropped) and _keeps(
            brokers, rest, _spread_without(brokers, count, moves, spread, goal)
        ):
            return rest
    return moves


def _spread_without(
    brokers: LoadedBrokers, count: int, moves: Sequence[PlannedMove], spread: float, goal: _Goal
) -> float:
    """The spread that may remain with this number of moves less, where all leave `spread`."""
    cut, dropped = max(0.0, spread_of(brokers.usage) - spread), _FAIR_SHARE * count
    share = dropped * cut / (len(moves) - count + dropped)
    least = spread + count * goal.least
    return max(goal.band, least, min(spread + share, goal.enough)) + TINY


def _with_fewer_moves(brokers: LoadedBrokers, plan: MovePlan, goal: _Goal) -> MovePlan:
    """The plan with one bundle in place of two of the same broker, wherever that is good enough."""
    moves, most = list(plan.moves), (1.0 - LEAST_CUT) * spread_of(brokers.usage)
    while len(moves) > 1:
        spread = unsure_spread(*after_moves(brokers, moves))
        allowed = min(most, _spread_without(brokers, 1, moves, spread, goal))
        fewer = next(
            (trial for trial in _merged(brokers, moves) if _keeps(brokers, trial, allowed)), None
        )
        if fewer is None:
            break
        moves = fewer
    return MovePlan(tuple(moves), *after_moves(brokers, moves), plan.refused)


def _merged(brokers: LoadedBrokers, moves: list[PlannedMove]) -> Iterator[list[PlannedMove]]:
    """The moves with one less, the smallest first, and with a larger bundle in place of another one
    from the same broker: one of about the size of both.
    """
    single = [one for one in moves if not one.exchange]
    for less in sorted(single, key=lambda one: (one.size, one.bundle)):
        pieces = brokers.pieces(less.source)
        for other in single:
            if other is less or other.source != less.source:
                continue
            rest = [one for one in moves if one is not less]
            larger = np.flatnonzero(pieces.movable & (pieces.sizes > other.size)).tolist()
            both = less.size + other.size
            larger.sort(key=lambda row: (abs(pieces.sizes[row] - both), pieces.names[row]))
            for row in larger[:_NEAREST]:
                trial = _with_bundle(brokers, rest, rest.index(other), row)
                if trial is not None:
                    yield trial


def _with_bundle(
    brokers: LoadedBrokers, moves: list[PlannedMove], at: int, row: int
) -> list[PlannedMove] | None:
    """The moves with another bundle of the same broker (row) in one of them; None if that may not
    move there, or moves already.
    """
    move = moves[at]
    name = brokers.pieces(move.source).names[row]
    if any(one.bundle == name for one in moves):
        return None
    if not brokers.takers(name, move.source)[move.destination]:
        return None
    other = brokers.move(move.source, row, move.destination)
    return [*moves[:at], other, *moves[at + 1 :]]


def _with_less_traffic(
    brokers: LoadedBrokers, moves: list[PlannedMove], spread: float
) -> list[PlannedMove]:
    """The moves, with other bundles of the same broker that carry fewer bytes/s where those reach
    this spread as well.
    """
    for at, move in enumerate(moves):
        if move.exchange:
            continue
        pieces = brokers.pieces(move.source)
        most = pieces.throughput[pieces.names.index(move.bundle)]
        fewer = np.flatnonzero(
            pieces.movable & (pieces.sizes > TINY) & (pieces.throughput < most)
        ).tolist()
        for row in sorted(fewer, key=lambda row: (pieces.throughput[row], pieces.names[row])):
            trial = _with_bundle(brokers, moves, at, row)
            if trial is not None and _keeps(brokers, trial, spread):
                moves = trial
                break
    return moves


def _keeps(brokers: LoadedBrokers, moves: Sequence[PlannedMove], spread: float) -> bool:
    """Whether the moves reach this spread, none of them making its destination fuller than its
    source was, or distribution by number less even.
    """
    usage, numbers = brokers.usage.copy(), Numbers(brokers)
    for move in moves:
        if not move.exchange and not numbers.allow(move.bundle, move.source, move.destination):
            return False
        numbers.count(move.bundle, move.source, move.destination)
        room = usage[move.source] + brokers.ceiling(move.source, move.destination)
        usage[move.source] -= move.size / brokers.capacity[move.source]
        usage[move.destination] += move.size / brokers.capacity[move.destination]
        if usage[move.destination] > room:
            return False
    return unsure_spread(*after_moves(brokers, moves)) <= spread
