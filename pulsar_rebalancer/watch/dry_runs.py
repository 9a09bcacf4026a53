"""Answers every command with a dry run, so that the next round decides without it: a watch carries
nothing out, and asks the cluster nothing about a command.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from sinks.topics.access import Consumer, Publisher
from sinks.wire.codec import decode_command
from sinks.wire.encoding import encode_outcome, encode_outcome_telemetry
from strategies.cluster.model import Command, Outcome
from strategies.errors import WireError


class DryRuns:
    """The executor of a watch. Raises SinkError."""

    def __init__(
        self,
        commands: Consumer,
        outcomes: Publisher,
        telemetry: Publisher,
        clock_ms: Callable[[], int],
    ) -> None:
        """`clock_ms`: ms since the epoch."""
        self._commands, self._outcomes, self._telemetry = commands, outcomes, telemetry
        self._clock_ms = clock_ms

    def step(self) -> list[Command]:
        """Answers the commands that are there, and returns them."""
        answered = []
        while records := self._commands.poll(100, 0):
            for record in records:
                with suppress(WireError):  # the job wrote it, so only a torn line is none
                    answered.append(decode_command(record.value))
                    self._answer(answered[-1])
            self._outcomes.flush()
            self._telemetry.flush()
            self._commands.commit(records[-1])
        return answered

    def close(self) -> None:
        """Closes the topics."""
        for topic in (self._commands, self._outcomes, self._telemetry):
            topic.close()

    def _answer(self, command: Command) -> None:
        outcome = dry_run(command, self._clock_ms())
        self._outcomes.publish(command.cluster, encode_outcome(outcome))
        self._telemetry.publish(command.cluster, encode_outcome_telemetry(outcome))


def dry_run(command: Command, now_ms: int) -> Outcome:
    """The outcome of a command that a watch has seen. The owner is not looked up."""
    where = "" if command.destination is None else f" to {command.destination}"
    reason = (
        f"dry-run: would {command.action} {command.bundle} from {command.source}{where}; a watch "
        "changes nothing"
    )
    return Outcome(
        command.id, command.cluster, command.bundle, "dry-run", reason, None, None, 0, now_ms
    )
