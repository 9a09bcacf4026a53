"""Settings of the log lines that long-running commands print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How `run`, `collect` and `execute` print."""

    format: Annotated[
        Literal["text", "json"], Setting("Lines of run, collect and execute: text with the time (UTC) in front, or one JSON object each")
    ] = "text"
