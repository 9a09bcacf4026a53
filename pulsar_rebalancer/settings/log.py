"""Settings of the log lines of long-running commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Format of the output of `run`, `collect`, `execute` and `notify`."""

    format: Annotated[
        Literal["text", "json"],
        Setting(
            "Log format of run, collect, execute and notify: text with a UTC timestamp, or one "
            "JSON object per line"
        ),
    ] = "text"
