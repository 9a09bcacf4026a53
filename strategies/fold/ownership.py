"""Finds bundles that changed owners, from the lists of bundles that brokers report.

A list may be older than its report, and the two brokers of a move report at different times. So a
bundle that one list loses and another one gains is a suspicion, which later sweeps confirm
(`census`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from strategies.bundles import is_system_bundle
from strategies.cluster.rival_state import (
    AGE_MS,
    MOST,
    ForeignMove,
    OwnMove,
    Rivals,
    Sighting,
    Suspect,
    newest_entries,
)

#: How long the first half of a move waits for the second one.
HALF_MS = 600_000
#: How long a bundle is new: its broker may unload it before all lists show it.
NEW_MS = 2 * AGE_MS
#: Difference between the clocks of a broker and the collector that a restart may hide behind.
_CLOCKS_MS = 30_000
#: A loss of at least this number of bundles, and of more than this part, is no work of a shedder.
_MANY, _LARGE_PART = 3, 1 / 3
#: Maximum number of suspicions that are kept: further ones replace the oldest.
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
    restarted = _restarted(listing)
    if restarted:
        rivals = replace(rivals, absent={**rivals.absent, listing.broker: listing.ts})
    if listing.before == listing.now:
        return rivals
    before, now = frozenset(listing.before or ()), frozenset(listing.now)
    matching = _Matching(listing, dict(rivals.left), dict(rivals.arrived))
    lost = (name for name in listing.before or () if name not in now)
    matching.loses(_movable(lost), explained=restarted or _explained(rivals, listing))
    matching.gains(_movable(name for name in listing.now if name not in before))
    found = [
        one
        for one in matching.moves
        if explains(rivals.ours.get(one.move.bundle, ()), one, listing.ts) is not True
    ]
    return replace(
        rivals,
        left=newest_entries(matching.left, MOST),
        arrived=newest_entries(matching.arrived, MOST),
        suspects=(*rivals.suspects, *found)[-MOST_SUSPECTS:],
    )


@dataclass
class _Matching:
    """Puts the two halves of moves together."""

    listing: Listing
    left: dict[str, Sighting]
    arrived: dict[str, Sighting]
    moves: list[Suspect] = field(default_factory=list)

    def loses(self, bundles: Sequence[str], *, explained: bool) -> None:
        """A bundle that appeared from nowhere a short while ago is a new one, such as the half of a
        split: brokers may unload it at once.
        """
        broker, ts = self.listing.broker, self.listing.ts
        for bundle in bundles:
            there = self.arrived.pop(bundle, None)
            if there is None or there.broker == broker:
                new = there is not None and ts - there.ts <= NEW_MS
                self.left[bundle] = Sighting(broker, ts, explained or new)
            elif not explained:
                move = ForeignMove(bundle, broker, there.broker, ts)
                self.moves.append(Suspect(move, there.ts, ts))

    def gains(self, bundles: Sequence[str]) -> None:
        """The first list of a broker does not show when it got its bundles, but that it has them
        now.
        """
        broker, ts = self.listing.broker, self.listing.ts
        here = Sighting(broker, ts)
        for bundle in bundles:
            gone = self.left.pop(bundle, None)
            if gone is None:
                if self.listing.before is not None:
                    self.arrived[bundle] = here
            elif gone.broker != broker and not gone.explained:
                move = ForeignMove(bundle, gone.broker, broker, ts)
                self.moves.append(Suspect(move, gone.ts, gone.ts))


def _restarted(listing: Listing) -> bool:
    """Whether the broker has started since its last report, or, where reports do not say it, has
    lost all or many of its bundles at once, as in a restart or a shutdown.
    """
    if listing.before is None:
        return False
    if listing.started_ms is not None:
        return listing.started_ms > listing.seen_ms - _CLOCKS_MS
    had, lost = len(listing.before), len(set(listing.before) - set(listing.now))
    return lost > 0 and (lost == had or (lost >= _MANY and lost > had * _LARGE_PART))


def _explained(rivals: Rivals, listing: Listing) -> bool:
    """Whether the broker may have lost bundles because it was away, or because no one watched."""
    if rivals.watching_ms < 0 or listing.seen_ms < rivals.watching_ms + AGE_MS:
        return True
    absent = rivals.absent.get(listing.broker)
    return absent is not None and listing.seen_ms < absent + AGE_MS


def _with_takings_back(rivals: Rivals, listing: Listing) -> Rivals:
    """Suspects bundles that the broker still has although an outcome, old enough to be visible in
    its list, named another owner. Where two commands may have moved it, nothing is clear.
    """
    broker, ts = listing.broker, listing.ts
    still = frozenset(listing.before or ()) & frozenset(listing.now)
    back = {
        bundle: live[0]
        for bundle, some in rivals.ours.items()
        if bundle in still
        and len(live := [own for own in some if own.until_ms >= ts]) == 1
        and _must_be_visible(live[0], rivals, broker, ts)
    }
    if not back:
        return rivals
    known = {
        move.bundle
        for move in (*rivals.moves, *rivals.news, *(one.move for one in rivals.suspects))
        if move.bundle in back and move.ts > back[move.bundle].issued_ms
    }
    back = {bundle: own for bundle, own in back.items() if bundle not in known}
    found = [
        Suspect(ForeignMove(bundle, str(own.destination), broker, ts), ts, ts)
        for bundle, own in back.items()
    ]
    return replace(rivals, suspects=(*rivals.suspects, *found)[-MOST_SUSPECTS:])


def _must_be_visible(own: OwnMove, rivals: Rivals, broker: str, ts: int) -> bool:
    """Whether a list of the broker at this time must show that the bundle went elsewhere, and
    stayed there.
    """
    if not own.confirmed or own.answered_ms is None or own.destination in (None, broker):
        return False
    if rivals.absent.get(str(own.destination), -1) >= own.answered_ms - AGE_MS:
        return False
    return own.answered_ms + AGE_MS <= ts


def ended(some: Sequence[OwnMove]) -> tuple[OwnMove, ...]:
    """The commands once something else has moved their bundle: they explain nothing any more."""
    return tuple(replace(own, until_ms=-1) for own in some)


def explains(some: Sequence[OwnMove], suspect: Suspect, now_ms: int) -> bool | None:
    """Whether commands for its bundle explain a change of owners; None while an outcome may still
    come.
    """
    found = [_explains(own, suspect, now_ms) for own in some]
    return True if True in found else None if None in found else False


def _explains(own: OwnMove, suspect: Suspect, now_ms: int) -> bool | None:
    """An executor may release a bundle twice, so that it passes over a third broker; from the owner
    that the outcome names no command takes it away. Without an outcome, the bundle may have ended
    anywhere; so it may after its new owner has died before it listed the bundle.
    """
    source = suspect.move.source
    if not (own.issued_ms < suspect.began_ms and suspect.left_ms <= own.until_ms):
        return False
    if own.answered_ms is not None:
        return source != own.destination
    if now_ms <= own.until_ms:
        return None
    return source == own.source


def _movable(bundles: Iterable[str]) -> list[str]:
    """Each once, in order. Most brokers list their bundles nearly so, which costs less to sort than
    a set; a note may list one twice.
    """
    return sorted(dict.fromkeys(bundle for bundle in bundles if not is_system_bundle(bundle)))
