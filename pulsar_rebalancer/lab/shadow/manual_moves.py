"""Moves that Pulsar's shedder cannot have made, so that a person or a script did; and bundles that
move back and forth.

Rules of Pulsar 4.2.4: every shedder takes bundles from brokers that are busier than others, and
does not unload a bundle again within `loadBalancerSheddingGracePeriodMinutes`
(`recentlyUnloadedBundles`). A move that follows both rules may still be a person's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pulsar_rebalancer.lab.shadow.ownership import Moved, TrafficWatch
from strategies.cluster.model import Round
from strategies.ordered_sum import ordered_sum

#: Time before a move from which figures are used: brokers report once a minute.
_BEFORE_MS = 300_000


@dataclass(frozen=True, slots=True)
class Wanderer:
    """A bundle that returned to a broker it had left. `path`: its owners, in order."""

    cluster: str
    bundle: str
    path: tuple[str, ...]

    @property
    def moves(self) -> int:
        return len(self.path) - 1


def by_people(
    moved: Sequence[Moved],
    rounds: Sequence[Round],
    grace_ms: int,
    traffic: TrafficWatch = TrafficWatch(),
) -> Mapping[Moved, str]:
    """Move → evidence that the shedder did not make it."""
    found: dict[Moved, str] = {}
    newest: dict[tuple[str, str], Moved] = {}
    for move in sorted(moved, key=lambda one: one.ts):
        why = (
            _noted(move, traffic)
            or _too_early(move, newest.get((move.cluster, move.bundle)), grace_ms)
            or _from_idle(move, rounds, traffic)
        )
        if why:
            found[move] = why
        newest[move.cluster, move.bundle] = move
    return found


def to_and_fro(moved: Sequence[Moved]) -> list[Wanderer]:
    """Bundles that returned to an earlier owner, those with the most moves first."""
    paths: dict[tuple[str, str], list[str]] = {}
    for move in sorted(moved, key=lambda one: one.ts):
        path = paths.setdefault((move.cluster, move.bundle), [move.source])
        path += [move.destination] if path[-1] == move.source else [move.source, move.destination]
    found = [
        Wanderer(cluster, bundle, tuple(path))
        for (cluster, bundle), path in paths.items()
        if len(set(path)) < len(path)
    ]
    return sorted(found, key=lambda one: (-one.moves, one.cluster, one.bundle))


def _noted(move: Moved, traffic: TrafficWatch) -> str:
    noted = traffic.unloaded(move.cluster, move.bundle, move.ts - _BEFORE_MS, move.ts)
    return "a note in the telemetry reports a manual unload" if noted else ""


def _too_early(move: Moved, before: Moved | None, grace_ms: int) -> str:
    if before is None or move.ts - before.ts >= grace_ms:
        return ""
    return (
        f"moved again after {(move.ts - before.ts) / 1000:.0f} s, within the shedder's grace "
        f"period of {grace_ms / 1000:.0f} s"
    )


def _from_idle(move: Moved, rounds: Sequence[Round], traffic: TrafficWatch) -> str:
    """Evidence that the source was idle: the usage in our rounds and the traffic in load reports of
    the last minutes must both show it.
    """
    since = move.ts - _BEFORE_MS
    judged = [
        one.usage
        for one in rounds
        if one.cluster == move.cluster and since <= one.ts <= move.ts and move.source in one.usage
    ]
    if not judged or not all(
        _idle(move, one) for one in [*judged, *traffic.between(move.cluster, since, move.ts)]
    ):
        return ""
    usage = judged[-1]
    return (
        f"left {move.source} at {usage[move.source]:.1%} for {move.destination}, which was "
        f"busier; the mean was {_mean(usage):.1%}"
    )


def _idle(move: Moved, figures: Mapping[str, float]) -> bool:
    """Whether the source is below the mean and below the destination."""
    source, destination = figures.get(move.source), figures.get(move.destination)
    return (
        source is not None
        and destination is not None
        and source < _mean(figures)
        and source < destination
    )


def _mean(figures: Mapping[str, float]) -> float:
    return ordered_sum(figures.values()) / len(figures)
