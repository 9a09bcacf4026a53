"""How much may move: bundles and throughput, within one round and within an hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

from strategies.filters.contract import Refusal
from strategies.limits.settings import LimitSettings
from strategies.model import MIB

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Spent:
    """What a round has moved: when it closed, how many bundles, and their throughput (bytes/s)."""

    ts: int
    bundles: int
    throughput: float


def within_the_hour(spent: Sequence[Spent], now_ms: int) -> tuple[Spent, ...]:
    """What still counts; a round exactly an hour ago does not."""
    return tuple(one for one in spent if one.ts > now_ms - HOUR_MS)


def given_back(spent: Sequence[Spent], ts: int, throughput: float) -> tuple[Spent, ...]:
    """What counts when one bundle with this throughput (bytes/s) of the round at `ts` turns out not to move."""
    at = next((index for index, one in enumerate(spent) if one.ts == ts), None)
    if at is None:
        return tuple(spent)
    # Without a bundle left nothing remains, not even the last bit of a difference.
    left = Spent(ts, spent[at].bundles - 1, spent[at].throughput - (throughput if isfinite(throughput) else 0.0))
    return (*spent[:at], *([left] if left.bundles > 0 else []), *spent[at + 1 :])


class Budget:
    """What is left to move in this round. Commands count when they are given, until a dry run answers them."""

    def __init__(self, settings: LimitSettings, spent: Sequence[Spent], now_ms: int) -> None:
        """`spent`: by earlier rounds."""
        self._settings, self._now_ms = settings, now_ms
        earlier = within_the_hour(spent, now_ms)
        self._earlier = sum(one.bundles for one in earlier), sum(one.throughput for one in earlier)
        self._bundles, self._throughput = 0, 0.0

    @property
    def spent(self) -> Spent | None:
        """What this round moves; None for nothing."""
        return Spent(self._now_ms, self._bundles, self._throughput) if self._bundles else None

    def refuses(self, throughputs: Sequence[float]) -> Refusal | None:
        """Why bundles that carry so much (bytes/s) may not move together now; None when they may."""
        settings = self._settings
        bundles, traffic = self._bundles + len(throughputs), (self._throughput + _total(throughputs)) / MIB
        hour_bundles, hour_traffic = bundles + self._earlier[0], traffic + self._earlier[1] / MIB
        for spent, limit, name in (
            (bundles, settings.moves_per_round, "moves_per_round"),
            (hour_bundles, settings.moves_per_hour, "moves_per_hour"),
            (traffic, settings.moved_mib_per_round, "moved_mib_per_round"),
            (hour_traffic, settings.moved_mib_per_hour, "moved_mib_per_hour"),
        ):
            if 0 < limit < spent:
                return Refusal("budget", f"would exceed limits.{name} = {limit:g}")
        return None

    def spend(self, throughputs: Sequence[float]) -> None:
        """These bundles move."""
        self._bundles += len(throughputs)
        self._throughput += _total(throughputs)


def _total(throughputs: Sequence[float]) -> float:
    """What is no sensible figure is more than any budget."""
    return sum(max(0.0, one) if isfinite(one) else inf for one in throughputs)
