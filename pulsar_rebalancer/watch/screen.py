"""What a watch prints: where its page and files are, then a line per change."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TextIO

from pulsar_rebalancer.cli.intents import progress_of
from pulsar_rebalancer.cli.lines import put
from pulsar_rebalancer.decisions.explain.sentences import points
from pulsar_rebalancer.decisions.intents import what_of
from pulsar_rebalancer.watch.folder import WatchFolder
from strategies.cluster.model import Command, Round
from strategies.figures.describe import counted_with, expected_spread, reported_spread

#: Commands of a round that are printed.
_MOST_COMMANDS = 5


class WatchScreen:
    """Prints to standard output. `clock`: of the lines."""

    def __init__(
        self, file: TextIO | None = None, clock: Callable[[], datetime] = datetime.now
    ) -> None:
        self._file, self._clock = file or sys.stdout, clock
        self._said: dict[str, tuple[object, ...]] = {}
        self._intents: dict[str, dict[str, str]] = {}

    def begin(self, subjects: Sequence[str], folder: WatchFolder, page: str) -> None:
        """The first lines; `subjects`: one per cluster."""
        places = (
            f"settings   {folder.settings_file}",
            f"logs       {folder.log('*').parent}",
            f"page       {page}",
            "Spark takes about 20 seconds to start. Ctrl-C stops all processes.",
        )
        for text in (*(f"cluster    {subject}" for subject in subjects), *places):
            put(text, self._file)

    def line(self, text: str) -> None:
        """A line with the time of day."""
        put(f"{self._clock():%H:%M:%S}  {text}", self._file)

    def rounds(self, done: Sequence[Round], commands: Mapping[str, Command]) -> None:
        """A line for each round whose state differs from that of the round before, and the moves
        of a round that differ from the moves before; a line for each drain and roll whose state
        has changed. `commands`: by id.
        """
        for one in done:
            self._drains(one)
            code = "decided" if one.state is None else one.state.code
            moves = [commands[name] for name in one.commands if name in commands]
            said = (code, *((move.action, move.bundle, move.destination) for move in moves))
            if self._said.get(one.cluster) == said:
                continue
            self._said[one.cluster] = said
            for text in _round_lines(one, code, moves):
                self.line(text)

    def _drains(self, done: Round) -> None:
        """The drains and rolls of a round whose state is not that of the round before."""
        before = self._intents.get(done.cluster, {})
        self._intents[done.cluster] = {one.id: one.state for one in done.intents}
        for one in done.intents:
            if before.get(one.id) != one.state:
                self.line(f"{done.cluster}, {what_of(one)}: {progress_of(one)}")


def _round_lines(one: Round, code: str, moves: Sequence[Command]) -> Iterator[str]:
    spread = f"spread {points(reported_spread(one))} points"
    after = ""
    if moves or one.counted:
        after = f", {points(expected_spread(one))} after its moves{counted_with(one.counted)}"
    text = code if one.state is None else f"{code}: {one.state.text}"
    yield f"{one.cluster}, round {one.round}: {spread}{after}; {text}"
    for move in moves[:_MOST_COMMANDS]:
        where = "" if move.destination is None else f" → {move.destination}"
        yield f"  {move.action} {move.bundle}: {move.source}{where}"
    if len(moves) > _MOST_COMMANDS:
        yield f"  and {len(moves) - _MOST_COMMANDS} more"
