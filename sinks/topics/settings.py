"""The six topics, each parsed once: where the settings are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from sinks.topics.uri import TopicUri, file_topic
from strategies.settings import Setting

_HOME = Path("/var/lib/pulsar-rebalancer")


@dataclass(frozen=True, slots=True)
class Topics:
    """Where records come from and where they go; every topic is a URI and means the same
    everywhere.
    """

    telemetry: Annotated[TopicUri, Setting("Load reports, sweeps and outcomes")] = file_topic(
        _HOME / "telemetry"
    )
    commands: Annotated[TopicUri, Setting("Commands (the control topic)")] = file_topic(
        _HOME / "commands"
    )
    rounds: Annotated[TopicUri, Setting("One record per round: its input and decisions")] = (
        file_topic(_HOME / "rounds")
    )
    rejected: Annotated[TopicUri, Setting("Records that could not be used, with the reason")] = (
        file_topic(_HOME / "rejected")
    )
    outcomes: Annotated[TopicUri, Setting("Outcomes of commands, reported by executors")] = (
        file_topic(_HOME / "outcomes")
    )
    approvals: Annotated[
        TopicUri,
        Setting("Approvals of plans, pauses and resumes; used by executors with an approvals key"),
    ] = file_topic(_HOME / "approvals")

    def named(self) -> Iterator[tuple[str, TopicUri]]:
        """All six by the names of their settings, in this order."""
        for field in fields(self):
            yield field.name, getattr(self, field.name)
