"""The lines of processes that run for long: with the time in front, or one JSON object each."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from rebalancer.cli.errors import reported
from rebalancer.settings.log import LogSettings

Level = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened. `text`: for people; `event`: its kind, for programs; `fields`: figures and names of the text.

    `cluster`: which of several it is about; empty where there is one.
    """

    text: str
    event: str = "note"
    level: Level = "info"
    fields: Mapping[str, Any] = field(default_factory=dict)
    cluster: str = ""

    def __str__(self) -> str:
        parts = (self.cluster, "" if self.level == "info" else self.level, self.text)
        return ": ".join(part for part in parts if part)


Say = Callable[[Line | str], None]


@dataclass(frozen=True, slots=True)
class Log:
    """Prints lines as the settings want them. `clock`: the time of a line."""

    settings: LogSettings
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def say(self, told: Line | str) -> None:
        """On standard error; a text alone is a note."""
        self._print(told if isinstance(told, Line) else Line(told), sys.stderr)

    def warn(self, text: str) -> None:
        """A warning about a cluster's addresses, on standard error."""
        self.say(Line(text, "admin-urls", "warning"))

    def show(self, line: Line) -> None:
        """On standard output, where the line is what the process is for."""
        self._print(line, sys.stdout)

    @contextmanager
    def errors(self, *, debug: bool) -> Iterator[None]:
        """What ends the process is its last line; see `rebalancer.cli.errors.reported`."""
        with reported(debug, complain=lambda text: self.say(Line(text, "error", "error"))):
            yield

    def _print(self, line: Line, file: TextIO) -> None:
        now = self.clock().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self.settings.format == "json":
            where = {"cluster": line.cluster} if line.cluster else {}
            told = {"ts": now, "level": line.level, "event": line.event, "text": line.text, **where, **line.fields}
            print(json.dumps(told, separators=(",", ":"), default=str), file=file, flush=True)
        else:
            print(f"{now} {line}", file=file, flush=True)
