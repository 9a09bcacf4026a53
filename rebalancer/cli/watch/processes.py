"""The processes of a watch: live page, collector, streaming job; started and stopped together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rebalancer.cli.child_process import STOP_SECONDS, ChildProcess, rebalancer_command
from rebalancer.cli.watch.folder import WatchFolder

#: Command → its name in errors. The page comes first: it shows what the others wait for.
WHAT = {"serve": "the live page", "collect": "the collector", "run": "the Spark job"}


class Processes:
    """The running processes."""

    def __init__(self, children: Sequence[ChildProcess]) -> None:
        self._children = children

    def check(self) -> None:
        """Raises ChildFailed when one of them has ended."""
        for child in self._children:
            child.check()

    def stop(self) -> None:
        """Asks all of them to end, then waits for each: they finish their work side by side."""
        for child in self._children:
            child.terminate()
        until = time.monotonic() + STOP_SECONDS
        for child in self._children:
            child.stop(max(0.0, until - time.monotonic()))


@contextmanager
def started(folder: WatchFolder, commands: Sequence[str]) -> Iterator[Processes]:
    """Starts commands of `WHAT` with the folder's settings file; all of them end with the
    context.
    """
    children: list[ChildProcess] = []
    processes = Processes(children)
    try:
        for name in commands:
            command = rebalancer_command(name, folder.settings_file)
            children.append(ChildProcess(WHAT[name], command, folder.log(name)).__enter__())
        yield processes
    finally:
        processes.stop()
