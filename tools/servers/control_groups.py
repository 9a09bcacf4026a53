"""A control group for each broker: it measures and limits the CPU of this broker alone, as if the
broker had a machine of its own.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

#: Of version 1; what a Java of today reads from a process's own group.
_ROOT, _KINDS = Path("/sys/fs/cgroup"), ("cpu", "cpuacct")
_PERIOD_US = 100_000
_ENTER = (
    'for kind in cpu cpuacct; do echo $$ > "/sys/fs/cgroup/$kind/$0/cgroup.procs"; done; exec "$@"'
)


@dataclass(frozen=True)
class ControlGroup:
    """A group by its name."""

    name: str

    @property
    def entering(self) -> tuple[str, ...]:
        """Words before a command, which put its process into the group from the first moment."""
        return ("sh", "-c", _ENTER, self.name)

    def limit(self, cores: float) -> None:
        """The CPU that its processes get from now on; they report their usage as part of it."""
        (_ROOT / "cpu" / self.name / "cpu.cfs_quota_us").write_text(str(int(cores * _PERIOD_US)))

    @property
    def used_s(self) -> float:
        """CPU seconds so far."""
        return int((_ROOT / "cpuacct" / self.name / "cpuacct.usage").read_text()) / 1e9

    def _folders(self) -> list[Path]:
        return [_ROOT / kind / self.name for kind in _KINDS]

    @contextmanager
    def made(self) -> "Iterator[ControlGroup]":
        """Removed at the end, when its processes have ended."""
        for folder in self._folders():
            folder.mkdir()
        try:
            yield self
        finally:
            for folder in self._folders():
                with suppress(OSError):  # a process is still in it
                    folder.rmdir()


def can_make_groups() -> bool:
    """Whether this machine has control groups of version 1, and we may make some."""
    return all(
        os.access(_ROOT / kind, os.W_OK) and (_ROOT / kind / "tasks").exists() for kind in _KINDS
    )


@contextmanager
def control_groups(prefix: str, count: int) -> Iterator[tuple[ControlGroup, ...]]:
    """New groups, which no other process of the machine uses."""
    with ExitStack() as stack:
        names = [f"{prefix}-{os.getpid()}-{number}" for number in range(1, count + 1)]
        yield tuple(stack.enter_context(ControlGroup(name).made()) for name in names)
