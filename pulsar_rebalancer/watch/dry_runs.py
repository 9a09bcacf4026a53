"""Answers every command with a dry run, so that the next round decides without it: a watch carries
nothing out, and asks the cluster nothing about a command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from sinks.topics.access import Consumer, open_consumer, open_publisher
from sinks.topics.readable import Skipped, readable
from sinks.topics.settings import Topics
from sinks.wire.codec import decode_command
from sinks.wire.encoding import encode_outcome, encode_outcome_telemetry
from strategies.cluster.model import Command, Outcome

T = TypeVar("T")
#: Consumer group of a watch.
GROUP = "rebalancer-watch"


class DryRuns:
    """The executor of a watch. Raises SinkError."""

    def __init__(self, topics: Topics, positions: Path, clock_ms: Callable[[], int]) -> None:
        """`positions`: folder of the position on the commands; `clock_ms`: ms since the epoch."""
        self._commands = open_consumer(topics.commands, GROUP, positions)
        self._outcomes = open_publisher(topics.outcomes)
        self._telemetry = open_publisher(topics.telemetry)
        self._clock_ms = clock_ms

    def step(self) -> list[Command]:
        """Answers the commands that are there, and returns them."""
        answered = list[Command]()
        for commands in new_records(self._commands, decode_command):
            for command in commands:
                self._answer(command)
            self._outcomes.flush()
            self._telemetry.flush()
            answered += commands
        return answered

    def close(self) -> None:
        """Closes the topics."""
        for topic in (self._commands, self._outcomes, self._telemetry):
            topic.close()

    def _answer(self, command: Command) -> None:
        """The owner is not looked up."""
        where = "" if command.destination is None else f" to {command.destination}"
        reason = (
            f"dry-run: would {command.action} {command.bundle} from {command.source}{where}; a "
            "watch changes nothing"
        )
        outcome = Outcome(
            command.id,
            command.cluster,
            command.bundle,
            "dry-run",
            reason,
            None,
            None,
            0,
            self._clock_ms(),
        )
        self._outcomes.publish(command.cluster, encode_outcome(outcome))
        self._telemetry.publish(command.cluster, encode_outcome_telemetry(outcome))


def new_records(topic: Consumer, decode: Callable[[bytes], T]) -> Iterator[list[T]]:
    """The records that are there, in parts, each of which is committed when the next one is asked
    for. The job wrote them, so only a torn line is none. Raises SinkError.
    """
    while records := topic.poll(100, 0):
        yield [record for _, record in readable(records, decode, Skipped("", ""))]
        topic.commit(records[-1])
