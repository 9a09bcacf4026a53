"""Decides which bundles rest: those that were moved or split less than `round.cool_down_ms` ago, by
a command or by something else, and those that are on their way.
"""

from collections.abc import Collection, Iterable, Mapping

from strategies.cluster.intent_state import DRAIN
from strategies.cluster.model import Command
from strategies.cluster.rival_state import Rivals
from strategies.cluster.state import ClusterState, InFlight


def begun(cooling: Mapping[str, int], commands: Iterable[Command], now_ms: int) -> dict[str, int]:
    """The cool-downs after a round's commands. Bundles with advice only do not rest, nor do those
    that leave a drained broker: the operator moves them, and the strategy may have to move them on
    to even out the load.
    """
    bundles = [
        command.bundle
        for command in commands
        if command.action != "throttle" and command.code != DRAIN
    ]
    return {**cooling, **dict.fromkeys(bundles, now_ms)}


def resumed(cooling: Mapping[str, int], bundle: str, since_ms: int) -> dict[str, int]:
    """The cool-downs with that of a bundle that has moved although a dry run had ended it."""
    return {**cooling, bundle: max(since_ms, cooling.get(bundle, 0))}


def unexpired(cooling: Mapping[str, int], now_ms: int, cool_down_ms: int) -> dict[str, int]:
    """The cool-downs that last. A bundle whose move is exactly the cool-down ago still rests, as in
    ModularLoadManagerImpl.
    """
    return {bundle: since for bundle, since in cooling.items() if since >= now_ms - cool_down_ms}


def of_foreign_moves(rivals: Rivals, now_ms: int, cool_down_ms: int) -> dict[str, int]:
    """Bundle → when something else moved it, of the bundles that rest."""
    return {move.bundle: move.ts for move in rivals.moves if move.ts >= now_ms - cool_down_ms}


def of_all_moves(state: ClusterState, now_ms: int, cool_down_ms: int) -> dict[str, int]:
    """Bundle → when it was moved, by a command or by something else, of the bundles that rest."""
    return {**of_foreign_moves(state.rivals, now_ms, cool_down_ms), **state.cooling}


def resting(
    cooling: Collection[str], in_flight: Collection[str], leaving: Mapping[str, InFlight]
) -> frozenset[str]:
    """The bundles that a strategy must not select. The cool-down may be shorter than a command's
    lifetime; while a command may be carried out, its bundle must not get another one.
    """
    return frozenset([*cooling, *in_flight, *leaving])
