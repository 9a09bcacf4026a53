"""The operator's own numbers of cores and Gbit/s of brokers, in place of the limits in reports."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Annotated

import numpy as np

from strategies.bundles import Floats
from strategies.cluster.model import Figures, Resource
from strategies.errors import SettingsError
from strategies.patterns_and_windows import patterns
from strategies.settings import Setting

#: Reports have CPU in percent of one core, and bandwidth in kbit/s: units per core and per Gbit/s.
_PERCENT, _KBIT = 100.0, 1_000_000.0
#: Largest number of cores, and of Gbit/s, that a setting may name.
_MOST = 1_000_000.0


@dataclass(frozen=True, slots=True)
class CapacitySettings:
    """Capacities of brokers that replace those in their reports, in `fixed` mode."""

    nic_gbps: Annotated[
        str,
        Setting(
            "Network speed of brokers in each direction, in Gbit/s, in place of the one in their "
            "reports: host:port=10, * matches any text, separated by commas; the first that "
            "matches a broker counts"
        ),
    ] = ""
    cores: Annotated[
        str,
        Setting(
            "Number of CPU cores of brokers, in place of the one in their reports: host:port=8"
        ),
    ] = ""


#: Patterns of broker names with a number, in their order.
_Numbers = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Capacities:
    """`CapacitySettings`, parsed."""

    nic_gbps: _Numbers = ()
    cores: _Numbers = ()

    def __bool__(self) -> bool:
        return bool(self.nic_gbps or self.cores)

    def apply(self, broker: str, figures: Figures) -> Figures:
        """Returns the figures of a broker with the operator's limits."""
        cpu, _, bandwidth, _ = self._limits(broker)
        if not (cpu or bandwidth):
            return figures
        return replace(
            figures,
            cpu=_with_limit(figures.cpu, cpu),
            bandwidth_in=_with_limit(figures.bandwidth_in, bandwidth),
            bandwidth_out=_with_limit(figures.bandwidth_out, bandwidth),
            usage_average=None,  # the broker computed it with its own limits
        )

    def limits(self, brokers: Sequence[str], used: Floats, limit: Floats) -> Floats:
        """Does for columns what `apply` does for one broker: returns the limits. `used`, `limit`:
        float64[rounds, brokers, 4] of CPU, direct memory, bandwidth in and out.
        """
        own = np.array([self._limits(broker) for broker in brokers]).reshape(-1, 4)
        return np.where((own > 0) & (used >= 0), own, limit)

    def _limits(self, broker: str) -> tuple[float, float, float, float]:
        """Returns the operator's limits in the units of reports; 0 where there is none."""
        cpu, bandwidth = _first_match(self.cores, broker), _first_match(self.nic_gbps, broker)
        return cpu * _PERCENT, 0.0, bandwidth * _KBIT, bandwidth * _KBIT


def read_capacities(settings: CapacitySettings) -> Capacities:
    """Parses the settings. Raises SettingsError with all complaints."""
    complaints = list[str]()
    capacities = Capacities(
        _numbers(settings.nic_gbps, "capacities.nic_gbps", complaints),
        _numbers(settings.cores, "capacities.cores", complaints),
    )
    if complaints:
        raise SettingsError(complaints)
    return capacities


def _numbers(text: str, path: str, complaints: list[str]) -> _Numbers:
    numbers = list[tuple[str, float]]()
    for entry in patterns(text):
        pattern, _, number = (part.strip() for part in entry.rpartition("="))
        try:
            value = float(number)
        except ValueError:
            value = 0.0
        if pattern and 0 < value <= _MOST:
            numbers.append((pattern, value))
        else:
            complaints.append(
                f"{path}: {entry!r} is no capacity; write it as broker-*:8080=10, with a number "
                f"above 0 and at most {_MOST:,.0f}"
            )
    return tuple(numbers)


@lru_cache(maxsize=2**15)
def _first_match(numbers: _Numbers, broker: str) -> float:
    return next((value for pattern, value in numbers if fnmatchcase(broker, pattern)), 0.0)


def _with_limit(resource: Resource, limit: float) -> Resource:
    """Sets the limit of a resource, unless there is none (0) or the resource has no usage."""
    return Resource(resource.usage, limit) if limit and resource.usage >= 0 else resource
