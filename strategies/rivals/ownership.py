"""Finds bundles that changed owners, from the lists of bundles that brokers report.

A list may be older than its report, and the two brokers of a move report at different times. So a
bundle that one list loses and another one gains is a suspicion, which later sweeps confirm
(`census`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from strategies.bundles.system_bundles import is_system_bundle
from strategies.rivals.state import ForeignMove, OwnMove, Rivals, Sighting, Suspect

_T = TypeVar("_T")
#: A list may be this much older than its report: modular brokers count their bundles once a
#: minute.
AGE_MS = 90_000
#: How long the first half of a move waits for the second one.
HALF_MS = 600_000
#: How long a bundle is new: its broker may unload it before all lists show it.
_NEW_MS = 2 * AGE_MS
#: Difference between the clocks of a broker and the collector that a restart may hide behind.
_CLOCKS_MS = 30_000
#: Maximum number of bundles between two brokers, of suspicions, and of commands that are kept:
#: further ones replace the oldest.
MOST = 10_000
MOST_SUSPECTS = 1_000


@dataclass(frozen=True, slots=True)
class Listing:
    """A broker's new list of bundles. `before`: its list before, None for its first one; `seen_ms`:
    the last time that the list before was reported; `started_ms`: when the broker started, by its
    own clock, None where reports do not say it.
    """

    broker: str
    ts: int
    before: tuple[str, ...] | None
    now: tuple[str, ...]
    seen_ms: int
    started_ms: int | None


def listed(rivals: Rivals, listing: Listing) -> Rivals:
    """The evidence after a broker's list has changed."""
    if rivals.ours:
        rivals = _with_takings_back(rivals, listing)
    if listing.before == listing.now:
        return rivals
    before, now = frozenset(listing.before or ()), frozenset(listing.now)
    restarted = _restarted(listing)
    if restarted:
        rivals = replace(rivals, absent={**rivals.absent, listing.broker: listing.ts})
    matching = _Matching(listing, dict(rivals.left), dict(rivals.arrived))
    matching.loses(_movable(before - now), explained=restarted or _explained(rivals, listing))
    matching.gains(_movable(now - before))
    found = [one for one in matching.moves if not _is_ours(rivals.ours.get(one.bundle), one)]
    return replace(
        rivals,
        left=newest(matching.left, MOST),
        arrived=newest(matching.arrived, MOST),
        suspects=(*rivals.suspects, *map(Suspect, found))[-MOST_SUSPECTS:],
    )


@dataclass
class _Matching:
    """Puts the two halves of moves together."""

    listing: Listing
    left: dict[str, Sighting]
    arrived: dict[str, Sighting]
    moves: list[ForeignMove] = field(default_factory=list)

    def loses(self, bundles: Sequence[str], *, explained: bool) -> None:
        """A bundle that appeared from nowhere a short while ago is a new one, such as the half of a
        split: brokers may unload it at once.
        """
        broker, ts = self.listing.broker, self.listing.ts
        for bundle in bundles:
            there = self.arrived.pop(bundle, None)
            if there is None or there.broker == broker:
                new = there is not None and ts - there.ts <= _NEW_MS
                self.left[bundle] = Sighting(broker, ts, explained or new)
            elif not explained:
                self.moves.append(ForeignMove(bundle, broker, there.broker, ts))

    def gains(self, bundles: Sequence[str]) -> None:
        """The first list of a broker does not show when it got its bundles, but that it has them
        now.
        """
        broker, ts = self.listing.broker, self.listing.ts
        for bundle in bundles:
            gone = self.left.pop(bundle, None)
            if gone is None:
                if self.listing.before is not None:
                    self.arrived[bundle] = Sighting(broker, ts)
            elif gone.broker != broker and not gone.explained:
                self.moves.append(ForeignMove(bundle, gone.broker, broker, ts))


def _restarted(listing: Listing) -> bool:
    """Whether the broker has started since its last report, or, where reports do not say it, has
    lost all of its bundles at once, as only a restart or a shutdown does.
    """
    if listing.before is None:
        return False
    if listing.started_ms is not None:
        return listing.started_ms > listing.seen_ms - _CLOCKS_MS
    return len(listing.before) > 1 and not set(listing.before) & set(listing.now)


def _explained(rivals: Rivals, listing: Listing) -> bool:
    """Whether the broker may have lost bundles because it was away, or because no one watched."""
    if rivals.watching_ms < 0 or listing.seen_ms < rivals.watching_ms + AGE_MS:
        return True
    absent = rivals.absent.get(listing.broker)
    return absent is not None and listing.seen_ms < absent + AGE_MS


def _with_takings_back(rivals: Rivals, listing: Listing) -> Rivals:
    """Suspects bundles that the broker still or again has although an outcome, old enough to be
    visible in its list, named another owner.
    """
    broker, ts = listing.broker, listing.ts
    still = frozenset(listing.before or ()) & frozenset(listing.now)
    back = {
        bundle: own
        for bundle, own in rivals.ours.items()
        if own.confirmed
        and own.answered_ms is not None
        and own.answered_ms + AGE_MS <= ts <= own.until_ms
        and own.destination not in (None, broker)
        and bundle in still
    }
    known = {
        move.bundle
        for move in (*rivals.moves, *rivals.news, *(one.move for one in rivals.suspects))
        if back and move.bundle in back and move.ts > back[move.bundle].issued_ms
    }
    back = {bundle: own for bundle, own in back.items() if bundle not in known}
    if not back:
        return rivals
    found = [
        Suspect(ForeignMove(bundle, str(own.destination), broker, ts))
        for bundle, own in back.items()
    ]
    ended = {bundle: replace(own, until_ms=-1) for bundle, own in back.items()}
    return replace(
        rivals,
        ours={**rivals.ours, **ended},
        suspects=(*rivals.suspects, *found)[-MOST_SUSPECTS:],
    )


def explains(own: OwnMove | None, move: ForeignMove, now_ms: int) -> bool | None:
    """Whether a command explains a change of owners; None while its outcome may still come.

    An executor may release a bundle twice, so that it passes over a third broker; from the owner
    that the outcome names no command takes it away. Without an outcome, the bundle may have ended
    anywhere.
    """
    if own is None or not own.issued_ms < move.ts <= own.until_ms:
        return False
    if own.answered_ms is not None:
        return move.source != own.destination
    if now_ms <= own.until_ms:
        return None
    return move.source == own.source


def _is_ours(own: OwnMove | None, move: ForeignMove) -> bool:
    return explains(own, move, move.ts) is True


def _movable(bundles: Collection[str]) -> list[str]:
    return sorted(bundle for bundle in bundles if not is_system_bundle(bundle))


def newest(entries: Mapping[str, _T], most: int) -> Mapping[str, _T]:
    """At most the last `most` entries."""
    return entries if len(entries) <= most else dict(list(entries.items())[-most:])
