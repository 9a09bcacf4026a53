"""The processes of a watch: live page, collector, streaming job; started and stopped together."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from pulsar_rebalancer.cli.child_process import STOP_SECONDS, ChildProcess, rebalancer_command
from pulsar_rebalancer.watch.folder import WatchFolder
from sinks.metrics.settings import ListenAddress
from strategies.errors import SinkError

_LOOK_S = 0.1
#: An address that stands for all addresses of this machine → one that can be reached.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
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

    def wait_for(self, address: ListenAddress, wait: Callable[[float], bool]) -> None:
        """Returns when a process listens at the address, or `wait` says that the program is to
        end. Raises ChildFailed.
        """
        host = _LOOPBACK.get(address.host, address.host)
        while not wait(_LOOK_S):
            self.check()
            with suppress(OSError), socket.create_connection((host, address.port), timeout=1):
                return

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


def with_port(address: ListenAddress) -> ListenAddress:
    """The address with a free port instead of port 0, so that the settings file names it. Raises
    SinkError if the address cannot be used: another page may answer there, for example that of
    another watch.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        with socket.create_server(tuple(address), family=family) as probe:
            return ListenAddress(address.host, probe.getsockname()[1])
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]
        raise SinkError(
            f"serve.listen: {address} cannot be used ({reason}); name a free port of this machine, "
            "for example --listen 127.0.0.1:8086, or --listen 127.0.0.1:0 for any free port"
        ) from error
