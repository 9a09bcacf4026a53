"""Budgets of moves: bundles and throughput, per round and per hour (`limits.*`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

from strategies.cluster.model import MIB
from strategies.ordered_sum import ordered_sum
from strategies.settings import LimitSettings
from strategies.states_and_advice_of_codes import Meaning, Refusal

#: The reason codes of this module.
MEANINGS = (
    Meaning("budget", "not-allowed", 310, "Wait, or raise the limit that the reason names."),
)

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Spent:
    """The part of the budgets that one round used."""

    #: When the round closed (ms since the epoch).
    ts: int
    #: Number of bundles that it moved.
    bundles: int
    #: Throughput of these bundles (bytes/s).
    throughput: float


def entries_of_last_hour(spent: Sequence[Spent], now_ms: int) -> tuple[Spent, ...]:
    """Returns the entries of the last hour, without that of a round exactly an hour ago."""
    return tuple(entry for entry in spent if entry.ts > now_ms - HOUR_MS)


def merge_later_entries(spent: Sequence[Spent], now_ms: int) -> tuple[Spent, ...]:
    """Returns the entries after the cluster's time went back to `now_ms`: those of later times
    become one entry of now, because `give_back` finds an entry by its time.
    """
    later = [entry for entry in spent if entry.ts >= now_ms]
    if not later:
        return tuple(spent)
    bundles, throughput = (
        ordered_sum(entry.bundles for entry in later),
        ordered_sum(entry.throughput for entry in later),
    )
    return (*(entry for entry in spent if entry.ts < now_ms), Spent(now_ms, bundles, throughput))


def give_back(spent: Sequence[Spent], ts: int, throughput: float) -> tuple[Spent, ...]:
    """Returns the entries without one bundle of the round at `ts`, of this throughput (bytes/s),
    that does not move after all.
    """
    at = next((index for index, entry in enumerate(spent) if entry.ts == ts), None)
    if at is None:
        return tuple(spent)
    # An entry without bundles goes, so that no rounding error of the differences stays.
    rest = Spent(
        ts,
        spent[at].bundles - 1,
        spent[at].throughput - (throughput if isfinite(throughput) else 0.0),
    )
    return (*spent[:at], *([rest] if rest.bundles > 0 else []), *spent[at + 1 :])


class Budget:
    """The budget that remains in one round. A command counts from when it is issued until a dry
    run answers it, so that rounds do not spend the same budget while executors work.
    """

    def __init__(self, settings: LimitSettings, spent: Sequence[Spent], now_ms: int) -> None:
        """`spent`: the entries of earlier rounds."""
        self._settings, self._now_ms = settings, now_ms
        earlier = entries_of_last_hour(spent, now_ms)
        self._earlier = (
            ordered_sum(entry.bundles for entry in earlier),
            ordered_sum(entry.throughput for entry in earlier),
        )
        self._bundles, self._throughput = 0, 0.0

    @property
    def spent(self) -> Spent | None:
        """The entry of this round; None if it moves nothing."""
        return Spent(self._now_ms, self._bundles, self._throughput) if self._bundles else None

    def refuses(self, throughputs: Sequence[float]) -> Refusal | None:
        """Returns the refusal of bundles that may not move together now; None when they may.
        `throughputs`: of each of them (bytes/s).
        """
        settings = self._settings
        bundles, traffic = (
            self._bundles + len(throughputs),
            (self._throughput + _total(throughputs)) / MIB,
        )
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
        """Counts bundles with these throughputs (bytes/s) as moved."""
        self._bundles += len(throughputs)
        self._throughput += _total(throughputs)


def _total(throughputs: Sequence[float]) -> float:
    """Returns the sum of the throughputs (bytes/s). An invalid figure makes it infinite, and thus
    above every limit.
    """
    return ordered_sum(
        max(0.0, throughput) if isfinite(throughput) else inf for throughput in throughputs
    )
