"""Publishes the messages of a starting job about its attempts: to its log and, in a file of its
checkpoint, to `watch`, `demo` and the live page. Imports no Spark.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: File in the checkpoint with the lines of a start in progress, oldest first.
START_LINES = "start.txt"


class StartLines:
    """The lines of one start, which are removed when the job works or ends."""

    def __init__(
        self,
        folder: Path,
        log: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`folder`: the checkpoint; `log`: gets the lines too."""
        self.log = log
        self._file, self._clock = folder / START_LINES, clock
        self._since: float | None = None

    def say(self, text: str) -> None:
        """Adds a line."""
        self._since = self._clock() if self._since is None else self._since
        self.log(f"start: {text}")
        # A full disk costs the line, not the job.
        with suppress(OSError), self._file.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def works(self) -> None:
        """Removes the lines, and logs the duration of the start; the next line begins a new one."""
        if self._since is not None:
            self.log(f"start: the job runs after {self._clock() - self._since:.0f} s")
            self._since = None
            self.remove()

    def remove(self) -> None:
        """Removes the lines."""
        with suppress(OSError):
            self._file.unlink(missing_ok=True)


@contextmanager
def start_lines(folder: Path, log: Callable[[str], None]) -> Iterator[StartLines]:
    """Makes the lines of a start that begins now."""
    lines = StartLines(folder, log)
    lines.remove()  # a killed job leaves its own
    try:
        yield lines
    finally:
        lines.remove()


def read_start_lines(folder: Path) -> list[str]:
    """Returns the lines of a start in progress; none without one, or if this user may not read
    them.
    """
    with suppress(OSError):
        return (folder / START_LINES).read_text("utf-8").splitlines()
    return []


class StartNews:
    """The lines of a start that were added since the last look."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known = 0

    def look(self) -> list[str]:
        """Returns the new lines."""
        lines = read_start_lines(self._folder)
        new = lines[self._known :] if len(lines) >= self._known else lines
        self._known = len(lines)
        return new
