"""Reads unit files of systemd: sections with their assignments, which may repeat a name."""

import shlex
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit file; `lines` are section, name and value of every assignment, in order."""

    name: str
    lines: tuple[tuple[str, str, str], ...]

    def values(self, section: str, name: str) -> list[str]:
        """All values of an assignment; empty if it does not exist."""
        return [value for place, key, value in self.lines if (place, key) == (section, name)]

    def value(self, section: str, name: str) -> str:
        """The only value of an assignment. Raises ValueError if it exists not exactly once."""
        (value,) = self.values(section, name)
        return value

    @property
    def command(self) -> tuple[str, ...]:
        """The command line of a service, program first."""
        return tuple(shlex.split(self.value("Service", "ExecStart")))


def read_unit(file: Path) -> Unit:
    """A unit file without comments. Lines that are no assignment raise ValueError."""
    section, found = "", []
    for line in file.read_text("utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith(("#", ";")):
            name, value = line.split("=", 1)
            found.append((section, name, value))
    return Unit(file.name, tuple(found))


def commented(file: Path) -> list[str]:
    """The lines of a file that become valid without their comment sign, which has no blank or
    three after it.
    """
    lines = [line for line in file.read_text("utf-8").splitlines() if line.startswith("#")]
    return [
        line.removeprefix("#").removeprefix("   ")
        for line in lines
        if not line.startswith("# ") or line.startswith("#   ")
    ]
