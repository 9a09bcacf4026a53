"""Decides which bundles rest, so that no strategy selects them: those that were moved or split less
than `round.cool_down_ms` ago, by a command or by something else, and those that are on their way.
Cool-downs map a bundle to when its last one began (ms since the epoch).
"""

from collections.abc import Collection, Iterable, Mapping

from strategies.cluster.cluster_state import ClusterState, InFlight
from strategies.cluster.model import Command
from strategies.cluster.remembered_intents import DRAIN
from strategies.cluster.rival_state import Rivals


def begin(cooling: Mapping[str, int], commands: Iterable[Command], now_ms: int) -> dict[str, int]:
    """Returns the cool-downs after a round's commands. Bundles with advice only do not rest, nor do
    those that leave a drained broker: the operator moves them, and the strategy may have to move
    them on to balance the load.
    """
    bundles = [
        command.bundle
        for command in commands
        if command.action != "throttle" and command.code != DRAIN
    ]
    return {**cooling, **dict.fromkeys(bundles, now_ms)}


def resume(cooling: Mapping[str, int], bundle: str, since_ms: int) -> dict[str, int]:
    """Returns the cool-downs with that of a bundle that moved after a dry run had ended it."""
    return {**cooling, bundle: max(since_ms, cooling.get(bundle, 0))}


def drop_expired(cooling: Mapping[str, int], now_ms: int, cool_down_ms: int) -> dict[str, int]:
    """Returns the cool-downs that last. A bundle that moved exactly `cool_down_ms` ago still rests,
    as in Pulsar's ModularLoadManagerImpl.
    """
    return {bundle: since for bundle, since in cooling.items() if since >= now_ms - cool_down_ms}


def of_foreign_moves(rivals: Rivals, now_ms: int, cool_down_ms: int) -> dict[str, int]:
    """Returns the cool-downs of bundles that something else moved and that still rest."""
    return {move.bundle: move.ts for move in rivals.moves if move.ts >= now_ms - cool_down_ms}


def of_all_moves(state: ClusterState, now_ms: int, cool_down_ms: int) -> dict[str, int]:
    """Returns the cool-downs of all bundles that rest, by commands and by something else."""
    return {**of_foreign_moves(state.rivals, now_ms, cool_down_ms), **state.cooling}


def bundles_at_rest(
    cooling: Collection[str], in_flight: Collection[str], leaving: Mapping[str, InFlight]
) -> frozenset[str]:
    """Returns the bundles that a strategy must not select. Those on their way are among them,
    because the cool-down may be shorter than a command's lifetime, and a bundle must not get a
    second command while the first one may still be carried out. `leaving`: bundles that leave
    draining brokers in this round.
    """
    return frozenset([*cooling, *in_flight, *leaving])
