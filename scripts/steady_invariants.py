"""Invariants of SteadyShedder's commands in its own forecast; each violation is a sentence."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import isfinite

from strategies.cluster.cluster_state import StateStore
from strategies.cluster.model import Command
from strategies.cluster.strategy_memory import Memory
from strategies.shedding.steady.load_samples import load_of
from strategies.shedding.steady.memory_format import columns, histories_of
from strategies.shedding.steady.settings import SteadySettings

_MINUTE_MS = 60_000
#: As promised in STRATEGIES.md: after a gap of more points than this, and with `tight`, bundles
#: rest for this part of their time.
_URGENT_POINTS, _SHORT_REST = 20.0, 1 / 15
#: Points by which sums in another order may differ.
_ROUNDING = 1e-6


@dataclass(slots=True)
class SteadyInvariants:
    """Checks the commands of one cluster's rounds. `_moves`: bundle → time, source and destination
    of its moves, oldest first.
    """

    settings: SteadySettings
    _moves: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)

    def round(self, now_ms: int, commands: Sequence[Command], store: StateStore) -> list[str]:
        """The violations of a round with these moves, whose memory is in the store."""
        memory = Memory(
            {one.broker: one.memory for one in store.brokers()}, store.get_cluster().memory
        )
        broken = [*infinite_figures(memory), *_rises(commands, memory)]
        for command in commands:
            broken += self._returns(command, now_ms)
            self._moves.setdefault(command.bundle, []).append(
                (now_ms, command.source, command.destination or "")
            )
        return broken

    def failed(self, bundle: str) -> None:
        """Forgets the bundle's last move, which was not carried out."""
        if self._moves.get(bundle):
            self._moves[bundle].pop()

    def _returns(self, command: Command, now_ms: int) -> Iterator[str]:
        rest_ms = self.settings.rest_minutes * _MINUTE_MS
        urgent = float(command.evidence["gap_points"] or 0.0) > _URGENT_POINTS
        part = _SHORT_REST if urgent or self.settings.steadiness == "tight" else 1.0
        for at_ms, source, _ in self._moves.get(command.bundle, ()):
            minutes = (now_ms - at_ms) / _MINUTE_MS
            if now_ms - at_ms < part * rest_ms:
                yield f"{command.bundle} moves again after {minutes:g} min"
            if now_ms - at_ms < rest_ms and source == command.destination:
                yield f"{command.bundle} returns to {source} after {minutes:g} min"


def _rises(commands: Sequence[Command], memory: Memory) -> Iterator[str]:
    """Moves after which, or during which, a destination is above its source, and rises of the
    maximum, by the forecast of the commands in their order.
    """
    usage = {
        name: 100.0 * load.usage
        for name, one in histories_of(memory, memory.brokers).items()
        if (load := load_of(one)) is not None
    }
    highest = max(usage.values(), default=0.0) + _ROUNDING
    for command in commands:
        source, destination = command.source, command.destination or ""
        before = usage[source]
        # While the bundle moves, both brokers may carry it.
        usage[destination] += _points(command, "destination_gains_points")
        usage[source] -= _points(command, "source_loses_points")
        if usage[destination] > before + _ROUNDING:
            yield (
                f"{command.bundle} makes {destination} {usage[destination]:.2f} points full, "
                f"above the {before:.2f} of {source}"
            )
        if usage[destination] > highest:
            yield f"{command.bundle} makes {destination} fuller than any broker was"


def _points(command: Command, name: str) -> float:
    value = command.evidence[name]
    assert isinstance(value, float)
    return value


def infinite_figures(memory: Memory) -> list[str]:
    """The figures of the memory that are infinite or NaN."""
    kept: dict[str, Iterable[object]] = {
        name: (
            *chain.from_iterable(one.samples),
            *columns(one.packed_levels, 5).ravel().tolist(),
            one.changed_at_ms,
        )
        for name, one in histories_of(memory, memory.brokers).items()
    }
    kept |= {"moves": chain.from_iterable(memory.cluster.moves), "episode": memory.cluster.episode}
    return [
        f"the memory of {name} has {figure}"
        for name, figures in kept.items()
        for figure in figures
        if isinstance(figure, float) and not isfinite(figure)
    ]
