"""Carries out one command on the cluster and sees whether it took effect. Whether it may is decided
in strategies/executor/admission.py.

An unload is not repeated on a guess. When its result is unknown (the answer was lost, the process
died), or ownership is changing (another unload is under way), the applier looks up the owner of the
bundle and repeats the unload only if nothing happened. It never repeats a release without a
destination, because the bundle may have been released and have come back.

A move is done when its bundle has arrived. A modular leader keeps a destination for one look-up:
of several clients that look up at once, the second is sent to another broker, and whichever broker
is first to take the bundle has it. So the applier claims a released bundle for its destination, and
unloads a bundle that was lost all the same once more: two unloads at most for a command.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from sinks.executor.outcome_status_and_reason import (
    MOST_UNLOADS,
    Allowance,
    Effect,
    MoveOnItsWay,
    Place,
    effect_of_failed_call,
    effect_of_move,
    effect_of_split,
)
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.admin_errors import Unanswered
from sinks.pulsar_api.http import Wait
from strategies.cluster.model import Command
from strategies.errors import AdminError, CallFailed, NotOwned

_FIRST_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to look for a released bundle at its new broker, and how often and after which pause
    a failed call is tried again.
    """

    arrival_ms: int = 5_000
    attempts: int = 3
    backoff_ms: int = 200


class Applier:
    """Threads may share it, each with a bundle of its own."""

    def __init__(
        self,
        admin: PulsarAdmin,
        retry: RetryPolicy,
        wait: Wait,
        clock: Callable[[], float] = time.monotonic,
        claiming: PulsarAdmin | None = None,
        *,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """`wait` sleeps between two calls; True from it means that the program is to end. `sleep`:
        between two looks at a bundle, also when the program is to end: a bundle that is released is
        brought to its destination. `clock`: seconds that pass while they sleep. `claiming`: for
        claims, which a broker that hangs must not hold up for long; None = `admin`.
        """
        self._admin = admin
        self._claiming = claiming or admin
        self._retry = retry
        self._wait = wait
        self._sleep = sleep
        self._clock = clock

    def apply(self, command: Command, allowance: Allowance) -> Effect:
        """Calls Pulsar until the command took effect, or cannot. Raises Unauthorized, and what
        `allowance.begin` raises.
        """
        move = MoveOnItsWay(command, allowance, allowance.unloads)
        for attempt in range(1, self._retry.attempts + 1):
            failure = self._call(move)
            if failure is None:
                return self._arrival(move)
            final = (
                attempt == self._retry.attempts
                or not failure.retryable
                or move.unloads >= MOST_UNLOADS
            )
            effect = self._after_failure(move, failure, final)
            if effect is not None:
                return effect
            pause_s = self._retry.backoff_ms / 1000 * 2 ** (attempt - 1)
            if self._wait(pause_s) or not allowance.may_go_on():
                return effect_of_failed_call(failure, command.source)
        raise AssertionError("the last attempt has an effect")

    def after_interruption(self, command: Command, allowance: Allowance) -> Effect | None:
        """The effect of a command that was being carried out when the process died; None if it
        certainly had none and may be applied.
        """
        move = MoveOnItsWay(command, allowance, allowance.unloads)
        place = self._watch(move, move.is_released)
        if not place.known:
            return Effect(
                "failed",
                "interrupted: the process died meanwhile, and the cluster does not report the "
                "result",
                None,
            )
        if move.is_released(place):
            return self._arrival(move)
        if move.is_plain or (not move.is_split and move.unloads >= MOST_UNLOADS):
            return Effect(
                "failed",
                "interrupted: the process died meanwhile; the bundle is at its source, where "
                "it never left or came back to",
                place.owner,
                unloads=move.unloads,
            )
        return None

    def _call(self, move: MoveOnItsWay) -> AdminError | None:
        """Splits or unloads. An unload counts from the moment before its call, unless a broker has
        certainly not carried it out.
        """
        command = move.command
        try:
            if move.is_split:
                self._admin.split(
                    command.bundle,
                    command.algorithm,
                    command.boundaries or None,
                )
            else:
                move.allowance.begin(move.unloads + 1)
                self._admin.unload(command.bundle, command.destination)
                move.unloads += 1
                move.released_s = self._clock()
        except CallFailed as error:
            move.unloads += isinstance(error, Unanswered) and not move.is_split
            return error
        return None

    def _after_failure(self, move: MoveOnItsWay, failure: AdminError, final: bool) -> Effect | None:
        """The effect in spite of, or because of, a failed call; None when it may be tried again."""
        unsure = isinstance(failure, Unanswered | NotOwned)
        place = self._watch(move, move.is_released) if unsure else self._look(move)
        if place.known and move.is_released(place):
            return self._arrival(move)
        if final or not place.known or (unsure and move.is_plain):
            return effect_of_failed_call(failure, place.owner, move.unloads or None)
        return None

    def _arrival(self, move: MoveOnItsWay) -> Effect:
        """Where a bundle went that Pulsar has released, or what became of one that was split."""
        place = self._watch(move, move.is_settled, claims=True)
        if move.is_split:
            return effect_of_split(place, move.command.source)
        if move.is_lost(place) and self._may_repair(move, str(place.owner)):
            place = self._repair(move, place)
        return effect_of_move(move, place, self._retry.arrival_ms / 1000)

    def _may_repair(self, move: MoveOnItsWay, owner: str) -> bool:
        if move.unloads >= MOST_UNLOADS:
            move.unrepaired = f"that was done {MOST_UNLOADS} times"
            return False
        move.unrepaired = move.allowance.refuse_repair(owner)
        return not move.unrepaired

    def _repair(self, move: MoveOnItsWay, lost: Place) -> Place:
        """The bundle's place after one more unload, from the broker that has it."""
        move.lost_to, move.owned_s = lost.owner, None
        failure = self._call(move)
        if failure is not None and not isinstance(failure, Unanswered):
            move.lost_to, move.unrepaired = None, str(failure)
            return self._look(move)
        return self._watch(move, lambda place: place.owner == move.destination, claims=True)

    def _watch(
        self, move: MoveOnItsWay, enough: Callable[[Place], bool], *, claims: bool = False
    ) -> Place:
        """Looks ever more rarely until it has seen enough or `arrival_ms` have passed. `claims`:
        whether a bundle without an owner is claimed for its destination.
        """
        deadline = self._clock() + self._retry.arrival_ms / 1000
        pause = _FIRST_LOOK_S
        place = Place(None)
        while True:
            if claims and place == Place(None) and self._claimed(move):
                return Place(move.destination)
            place = self._look(move)
            left = deadline - self._clock()
            if (place.known and enough(place)) or left <= 0:
                return place
            self._sleep(min(pause, left))
            pause *= 2

    def _claimed(self, move: MoveOnItsWay) -> bool:
        """True if the destination says that it owns the bundle, after it was asked to take it."""
        if move.destination is None or not move.allowance.claims:
            return False
        try:
            owns = self._claiming.claim(move.command.bundle, move.destination)
        except AdminError:
            return False  # the next look says where the bundle is
        if owns:
            move.owned_s = move.owned_s or self._clock()
        return owns

    def _look(self, move: MoveOnItsWay) -> Place:
        command = move.command
        namespace, _, range_ = command.bundle.rpartition("/")
        try:
            if move.is_split:
                return Place(command.source, split=range_ not in self._admin.ranges(namespace))
            likely = filter(None, (command.destination, command.source))
            owner = self._admin.owner(command.bundle, likely)
        except CallFailed:
            return Place(None, known=False)
        if owner is not None and move.released_s is not None:
            move.owned_s = move.owned_s or self._clock()
        return Place(owner)
