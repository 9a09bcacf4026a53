"""Figures of the drains and rolls of a run: how long they took, what they moved, and how full the
brokers were meanwhile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite, nan

import numpy as np

from pulsar_rebalancer.lab.simulation.timeline import Move, Timeline
from strategies.cluster.intent_records_and_states import IntentStateCode, IntentStatus

#: Row of the timeline → what its round says about intents.
Said = Mapping[int, Sequence[IntentStatus]]
_OVER = ("drained", "done", "cancelled", "refused")


@dataclass(frozen=True, slots=True)
class Operation:
    """A drain or a roll. `what`: such as `drain of b1:8080`; `state`, `text`: what the last round
    about it says; `finished`: whether it reached its end: drained, or the roll is done.

    `rounds`: from the first round about it until then, or until the last round; NaN if it was
    refused. `evacuated`: bundles that left draining brokers by commands; `moved`: all bundles that
    commands moved meanwhile; `moved_mib`: traffic of these (MiB/s in + out); `highest`, `before`:
    highest usage of a broker without noise (percent), meanwhile and in the round before.
    """

    what: str
    state: IntentStateCode
    text: str
    finished: bool
    rounds: float
    evacuated: float
    moved: float
    moved_mib: float
    highest: float
    before: float

    def known(self) -> dict[str, str | bool | float | None]:
        """All fields by name; None for unknown figures."""
        return {
            name: None if isinstance(value, float) and not isfinite(value) else value
            for name, value in asdict(self).items()
        }


def operations_of(timeline: Timeline, said: Said) -> tuple[Operation, ...]:
    """The drains and rolls of a run in order of their first round. The drains of a roll are part of
    the roll.
    """
    rows: dict[str, list[tuple[int, IntentStatus]]] = {}
    for row, statuses in sorted(said.items()):
        for one in statuses:
            if one.action == "roll" or (one.action == "drain" and one.roll is None):
                rows.setdefault(one.id, []).append((row, one))
    return tuple(_operation(timeline, found) for found in rows.values())


def _operation(timeline: Timeline, found: Sequence[tuple[int, IntentStatus]]) -> Operation:
    first, (last_row, last) = found[0][0], found[-1]
    reached = next((row for row, one in found if one.state in _OVER), None)
    end = last_row if reached is None else reached
    # What the round of the first record decides comes after its own figures.
    moves = [move for move in timeline.moved() if first <= move.round <= end]
    done = any(one.state in ("drained", "done") for _, one in found)
    refused = found[0][1].state == "refused"
    return Operation(
        _named(last),
        last.state,
        last.text,
        done,
        nan if refused else float(end - first),
        float(sum(1 for move in moves if move.is_drain)),
        float(len(moves)),
        _mib(moves),
        _highest(timeline, first, end),
        _highest(timeline, max(0, first - 1), max(0, first - 1)),
    )


def _named(one: IntentStatus) -> str:
    return f"drain of {one.broker}" if one.action == "drain" else f"roll of {len(one.phases)}"


def _mib(moves: Sequence[Move]) -> float:
    return float(np.nansum([move.traffic for move in moves])) / 2**20


def _highest(timeline: Timeline, first: int, last: int) -> float:
    figures = timeline.lasting[first : last + 1]
    known = figures[np.isfinite(figures)]
    return 100.0 * float(known.max()) if len(known) else nan
