"""Finds bundles that something else moved, from the lists of bundles that brokers report.

A list may be older than its report, and the two brokers of a move report at different times. So a
bundle that one list loses and another one gains is only a suspect, until later sweeps show that the
broker that lost it is alive. Bundles of brokers that died, shut down, or lost their session had to
go: Pulsar placed them elsewhere. A broker that shuts down leaves the list of brokers before it
gives its bundles up, so two sweeps must find it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from strategies.bundles import is_system_bundle
from strategies.cluster.cluster_state import ClusterState, StateStore, newest_entries
from strategies.cluster.model import REPEATED, Rejection, Sweep
from strategies.cluster.rival_state import (
    AGE_MS,
    MOST,
    ForeignMove,
    OwnMove,
    Rivals,
    Sighting,
    Suspect,
)

#: Time (ms) in which the second half of a move must follow the first one.
HALF_MS = 600_000
#: Time (ms) in which a bundle is new: its broker may unload it before all lists show it.
NEW_MS = 2 * AGE_MS
#: Largest difference (ms) between the clocks of a broker and the collector at which a restart is
#: still found.
_CLOCKS_MS = 30_000
#: No shedder takes at least this number and more than this part of a broker's bundles at once.
_MANY, _LARGE_PART = 3, 1 / 3
#: Maximum number of suspects in a state: further ones replace the oldest.
MOST_SUSPECTS = 1_000
#: Number of sweeps that must find the source alive before a suspect counts as a foreign move.
_PASSES = 2
#: A pause between two sweeps is a gap if it is longer than twice the usual one plus this (ms).
_GAP_MS = 10_000


@dataclass(frozen=True, slots=True)
class Listing:
    """A broker's new list of bundles. Times in ms since the epoch."""

    broker: str
    ts: int
    #: The list before; None if this is the first one.
    before: tuple[str, ...] | None
    now: tuple[str, ...]
    #: When the list before was last reported.
    seen_ms: int
    #: When the broker started, by its own clock; None where reports do not say it.
    started_ms: int | None


def learn_list(rivals: Rivals, listing: Listing) -> Rivals:
    """Adds a broker's new list of bundles to the evidence."""
    if rivals.ours:
        rivals = _suspect_returned(rivals, listing)
    restarted = _has_restarted(listing)
    if restarted:
        rivals = replace(rivals, absent={**rivals.absent, listing.broker: listing.ts})
    if listing.before == listing.now:
        return rivals
    before, now = frozenset(listing.before or ()), frozenset(listing.now)
    matching = _Matching(listing, dict(rivals.left), dict(rivals.arrived))
    lost = (name for name in listing.before or () if name not in now)
    matching.lose(
        _movable_bundles(lost), explained=restarted or _may_have_lost_bundles(rivals, listing)
    )
    matching.gain(_movable_bundles(name for name in listing.now if name not in before))
    suspects = [
        suspect
        for suspect in matching.moves
        if explains(rivals.ours.get(suspect.move.bundle, ()), suspect, listing.ts) is not True
    ]
    return replace(
        rivals,
        left=newest_entries(matching.left, MOST),
        arrived=newest_entries(matching.arrived, MOST),
        suspects=(*rivals.suspects, *suspects)[-MOST_SUSPECTS:],
    )


@dataclass
class _Matching:
    """Matches the bundles that left brokers with those that appeared on others."""

    listing: Listing
    left: dict[str, Sighting]
    arrived: dict[str, Sighting]
    moves: list[Suspect] = field(default_factory=list)

    def lose(self, bundles: Sequence[str], *, explained: bool) -> None:
        """Matches bundles that the broker no longer lists. A bundle without an earlier broker is
        new, such as the half of a split, which brokers may unload at once.
        """
        broker, ts = self.listing.broker, self.listing.ts
        for bundle in bundles:
            sighting = self.arrived.pop(bundle, None)
            if sighting is None or sighting.broker == broker:
                new = sighting is not None and ts - sighting.ts <= NEW_MS
                self.left[bundle] = Sighting(broker, ts, explained or new)
            elif not explained:
                move = ForeignMove(bundle, broker, sighting.broker, ts)
                self.moves.append(Suspect(move, sighting.ts, ts))

    def gain(self, bundles: Sequence[str]) -> None:
        """Matches bundles that the broker lists for the first time. The first list of a broker
        does not show when it got its bundles, so they are no first halves of moves.
        """
        broker, ts = self.listing.broker, self.listing.ts
        arrival = Sighting(broker, ts)
        for bundle in bundles:
            sighting = self.left.pop(bundle, None)
            if sighting is None:
                if self.listing.before is not None:
                    self.arrived[bundle] = arrival
            elif sighting.broker != broker and not sighting.explained:
                move = ForeignMove(bundle, sighting.broker, broker, ts)
                self.moves.append(Suspect(move, sighting.ts, sighting.ts))


def _has_restarted(listing: Listing) -> bool:
    """True if the broker has started since its last report. Where reports have no start time: if it
    has lost all or many of its bundles at once, as in a restart or a shutdown.
    """
    if listing.before is None:
        return False
    if listing.started_ms is not None:
        return listing.started_ms > listing.seen_ms - _CLOCKS_MS
    had, lost = len(listing.before), len(set(listing.before) - set(listing.now))
    return lost > 0 and (lost == had or (lost >= _MANY and lost > had * _LARGE_PART))


def _may_have_lost_bundles(rivals: Rivals, listing: Listing) -> bool:
    """True if the broker may have lost bundles while it was away, or in a gap between sweeps."""
    if rivals.watching_ms < 0 or listing.seen_ms < rivals.watching_ms + AGE_MS:
        return True
    absent = rivals.absent.get(listing.broker)
    return absent is not None and listing.seen_ms < absent + AGE_MS


def _suspect_returned(rivals: Rivals, listing: Listing) -> Rivals:
    """Suspects a move back for bundles that the broker still lists, although an outcome named
    another owner long enough ago to be visible in the list. Bundles that two commands may have
    moved are left out: they may rightly be here.
    """
    broker, ts = listing.broker, listing.ts
    still = frozenset(listing.before or ()) & frozenset(listing.now)
    returned = {
        bundle: live[0]
        for bundle, commands in rivals.ours.items()
        if bundle in still
        and len(live := [own for own in commands if own.until_ms >= ts]) == 1
        and _must_be_visible(live[0], rivals, broker, ts)
    }
    if not returned:
        return rivals
    suspected = {
        move.bundle
        for move in (*rivals.moves, *rivals.news, *(suspect.move for suspect in rivals.suspects))
        if move.bundle in returned and move.ts > returned[move.bundle].issued_ms
    }
    returned = {bundle: own for bundle, own in returned.items() if bundle not in suspected}
    suspects = [
        Suspect(ForeignMove(bundle, str(own.destination), broker, ts), ts, ts)
        for bundle, own in returned.items()
    ]
    return replace(rivals, suspects=(*rivals.suspects, *suspects)[-MOST_SUSPECTS:])


def _must_be_visible(own: OwnMove, rivals: Rivals, broker: str, ts: int) -> bool:
    """True if a list of the broker at this time must show that the bundle left and stayed with its
    new owner.
    """
    if not own.confirmed or own.answered_ms is None or own.destination in (None, broker):
        return False
    if rivals.absent.get(str(own.destination), -1) >= own.answered_ms - AGE_MS:
        return False
    return own.answered_ms + AGE_MS <= ts


def explains(commands: Sequence[OwnMove], suspect: Suspect, now_ms: int) -> bool | None:
    """True if commands for its bundle explain a suspect; None while an outcome that explains it may
    still come.
    """
    answers = [_explains(own, suspect, now_ms) for own in commands]
    return True if True in answers else None if None in answers else False


def _explains(own: OwnMove, suspect: Suspect, now_ms: int) -> bool | None:
    """True if this command explains a suspect; None while it may.

    An executor may unload a bundle twice, so that it passes over a third broker; but no command
    takes it away from the owner that the outcome names. Without an outcome the bundle may be
    anywhere, and so it may if its new owner died before it listed the bundle.
    """
    source = suspect.move.source
    if not (own.issued_ms < suspect.began_ms and suspect.left_ms <= own.until_ms):
        return False
    if own.answered_ms is not None:
        return source != own.destination
    if now_ms <= own.until_ms:
        return None
    return source == own.source


def _movable_bundles(bundles: Iterable[str]) -> list[str]:
    """Returns the bundles except Pulsar's own, sorted, without duplicates, which notes may have.
    Most brokers list their bundles almost in order: a list of them sorts faster than a set.
    """
    return sorted(dict.fromkeys(bundle for bundle in bundles if not is_system_bundle(bundle)))


def accept_sweep(sweep: Sweep, store: StateStore) -> Rejection | None:
    """Applies a sweep to the cluster's state; returns its rejection if it cannot be used."""
    state = store.get_cluster()
    if sweep.ts <= state.sweep_at_ms:
        return _reject_sweep(sweep, state)
    brokers = [broker.broker for broker in store.brokers()]
    store.put_cluster(
        replace(
            state,
            sweep_at_ms=sweep.ts,
            sweep=sweep.sweep,
            missing=dict(sweep.missing),
            rivals=learn_sweep(state.rivals, sweep, state.sweep_at_ms, brokers),
        )
    )
    return None


def learn_sweep(rivals: Rivals, sweep: Sweep, last_ms: int, brokers: Collection[str]) -> Rivals:
    """Returns the evidence after a sweep. `last_ms`: time of the sweep before, -1 without one;
    `brokers`: all brokers that have reported.
    """
    passed = sweep.ts - last_ms
    if last_ms < 0 or rivals.watching_ms < 0 or is_gap(passed, rivals.pass_ms):
        rivals = replace(rivals, watching_ms=sweep.ts, left={}, arrived={}, suspects=())
    alive = {*sweep.brokers, *sweep.answering}
    not_found = {broker: sweep.ts for broker in sorted(brokers) if broker not in alive}
    oldest = sweep.ts - HALF_MS
    absent = {
        broker: ts
        for broker, ts in rivals.absent.items()
        if ts >= sweep.ts - NEW_MS and broker not in not_found
    }
    rivals = replace(
        rivals,
        pass_ms=usual_pause(passed, rivals.pass_ms) if last_ms >= 0 else 0,
        absent={**absent, **not_found},
        left={
            bundle: sighting
            for bundle, sighting in rivals.left.items()
            if sighting.ts >= oldest and sighting.broker in alive
        },
        arrived={
            bundle: sighting
            for bundle, sighting in rivals.arrived.items()
            if sighting.ts >= sweep.ts - NEW_MS and sighting.broker in alive
        },
        leader=sweep.leader,
        shedding=sweep.shedding,
    )
    return _confirm_suspects(rivals, alive, sweep.ts)


def usual_pause(passed_ms: int, usual_ms: int) -> int:
    """Returns the usual pause between sweeps (ms), after one of `passed_ms`."""
    return max(passed_ms, 3 * usual_ms // 4)


def is_gap(passed_ms: int, usual_ms: int) -> bool:
    """True if sweeps are missing in such a pause (ms)."""
    return usual_ms > 0 and passed_ms > 2 * usual_ms + _GAP_MS


def _confirm_suspects(rivals: Rivals, alive: Collection[str], now_ms: int) -> Rivals:
    """Turns suspects into foreign moves, or drops them. `alive`: brokers found by the sweep."""
    if not rivals.suspects:
        return rivals
    waiting, moves, ours = list[Suspect](), list[ForeignMove](), dict(rivals.ours)
    for suspect in rivals.suspects:
        move, commands = suspect.move, rivals.ours.get(suspect.move.bundle, ())
        explained = explains(commands, suspect, now_ms)
        was_away = rivals.absent.get(move.source, -1) >= move.ts - AGE_MS
        if explained or move.source not in alive or was_away:
            continue
        passes = suspect.passes + 1
        if explained is None or passes < _PASSES:
            waiting.append(replace(suspect, passes=passes))
            continue
        moves.append(replace(move, against=any(own.issued_ms < move.ts for own in commands)))
        if commands:  # after a foreign move of the bundle they explain no further one
            ours[move.bundle] = tuple(replace(own, until_ms=-1) for own in commands)
    return replace(rivals, suspects=tuple(waiting), news=(*rivals.news, *moves), ours=ours)


def _reject_sweep(record: Sweep, state: ClusterState) -> Rejection:
    if (record.ts, record.sweep, record.missing) == (state.sweep_at_ms, state.sweep, state.missing):
        return Rejection(
            REPEATED, f"pass {record.sweep} ended at {record.ts} already: nothing to do", record
        )
    text = (
        f"a sweep of {state.sweep_at_ms} came before this one of {record.ts}: it is late or a "
        "duplicate, nothing to do"
    )
    if record.sweep == state.sweep + 1:
        text = (
            f"pass {record.sweep} is stamped {record.ts}, pass {state.sweep} was stamped "
            f"{state.sweep_at_ms}: "
            "the collector's clock stands still or went back; check it"
        )
    return Rejection(
        "duplicate" if record.ts == state.sweep_at_ms else "out-of-order", text, record
    )
