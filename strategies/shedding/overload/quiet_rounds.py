"""Finds the rounds in which OverloadShedder decides nothing, which back-tests skip."""

from collections.abc import Sequence

from strategies.cluster.model import Skip
from strategies.cluster.strategy_memory import Memory
from strategies.shedding.contract import QuietScreen, RoundColumns
from strategies.shedding.overload.settings import OverloadSettings


def quiet(settings: OverloadSettings) -> QuietScreen:
    """Finds rounds in which no broker is overloaded; the strategy has no memory."""

    def screen(rounds: RoundColumns, memory: Memory) -> tuple[Sequence[tuple[Skip, ...]], Memory]:
        hot = ~(rounds.usage < settings.threshold_percent / 100).all(axis=1)
        return [()] * (int(hot.argmax()) if hot.any() else len(rounds.usage)), memory

    return screen
