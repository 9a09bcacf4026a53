"""Carries out one command on the cluster and sees whether it took effect. Whether it may is decided
in strategies/admission.py.

An unload is not repeated on a guess. When its result is unknown (the answer was lost, the process
died), or ownership is changing (another unload is under way), the applier looks up the owner of the
bundle and repeats the unload only if nothing happened. It never repeats a release without a
destination, because the bundle may have been released and have come back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import UNSET

from sinks.executor.effect import Effect
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.answers import Unanswered
from sinks.pulsar_api.http import Wait
from sinks.wire.contracts.commands import CommandRecord
from strategies.errors import AdminError, BrokerUnavailable, NotFound, NotOwned, Unauthorized

_FIRST_LOOK_S = 0.1
#: Reason codes of failed calls; the first match counts.
_CODES: Mapping[type[Exception], str] = {
    Unanswered: "unanswered",
    BrokerUnavailable: "broker-unavailable",
    NotFound: "not-found",
    NotOwned: "not-owned",
}


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to look for a released bundle at its new broker, and how often and after which pause
    a failed call is tried again.
    """

    arrival_ms: int = 5_000
    attempts: int = 3
    backoff_ms: int = 200


class Place(NamedTuple):
    """Where a bundle is. `known`: the cluster said so; `split`: it exists no more."""

    owner: str | None
    known: bool = True
    split: bool = False


class Applier:
    """Threads may share it, each with a bundle of its own."""

    def __init__(
        self,
        admin: PulsarAdmin,
        retry: RetryPolicy,
        wait: Wait,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`wait` sleeps; True from it means that the program is to end, which is obeyed between two
        calls. `clock`: seconds that pass while it sleeps.
        """
        self._admin = admin
        self._retry = retry
        self._wait = wait
        self._clock = clock

    def apply(self, command: CommandRecord, may_go_on: Callable[[], bool]) -> Effect:
        """Calls Pulsar until it took effect, or cannot. `may_go_on` is asked before each
        repetition. Raises Unauthorized.
        """
        for attempt in range(1, self._retry.attempts + 1):
            failure = self._call(command)
            if failure is None:
                return self._arrival(command)
            effect = self._after_failure(
                command, failure, attempt == self._retry.attempts or not failure.retryable
            )
            if effect is not None:
                return effect
            if self._wait(self._retry.backoff_ms / 1000 * 2 ** (attempt - 1)) or not may_go_on():
                return _failed(failure, command.source)
        raise AssertionError("the last attempt has an effect")

    def after_interruption(self, command: CommandRecord) -> Effect | None:
        """The effect of a command that was being carried out when the process died; None if it
        certainly had none and may be applied.
        """
        place = self._watch(command, _released)
        if not place.known:
            return Effect(
                "failed",
                "interrupted: the process died meanwhile, and the cluster does not report the "
                "result",
                None,
            )
        if _released(command, place):
            return self._arrival(command)
        if _is_plain(command):
            return Effect(
                "failed",
                "interrupted: the process died meanwhile; the bundle is at its source, where "
                "it never left or came back to",
                place.owner,
            )
        return None

    def _call(self, command: CommandRecord) -> AdminError | None:
        try:
            if command.action == "split":
                self._admin.split(
                    command.bundle,
                    None if command.algorithm is UNSET else command.algorithm,
                    None if command.boundaries is UNSET else command.boundaries,
                )
            else:
                self._admin.unload(command.bundle, command.destination)
        except Unauthorized:
            raise
        except AdminError as error:
            return error
        return None

    def _after_failure(
        self, command: CommandRecord, failure: AdminError, final: bool
    ) -> Effect | None:
        """The effect in spite of, or because of, a failed call; None when it may be tried again."""
        unsure = isinstance(failure, Unanswered | NotOwned)
        place = self._watch(command, _released) if unsure else self._look(command)
        if place.known and _released(command, place):
            return self._arrival(command)
        if final or not place.known or (unsure and _is_plain(command)):
            return _failed(failure, place.owner)
        return None

    def _arrival(self, command: CommandRecord) -> Effect:
        """Where a bundle went that Pulsar has released, or what became of one that was split."""
        place = self._watch(command, _settled)
        if command.action == "split":
            if place.split or not place.known:
                return Effect(
                    "applied",
                    None if place.split else "unverified: the cluster does not report the bundles",
                    command.source,
                )
            return Effect(
                "failed",
                "nothing-split: Pulsar accepted the split and did nothing; it found no place "
                "to cut",
                place.owner,
            )
        if not place.known:
            return Effect(
                "applied",
                "unverified: Pulsar released the bundle; the cluster does not report its owner",
                None,
            )
        if place.owner is None:
            return Effect(
                "applied",
                "not-looked-up: Pulsar released the bundle; no client has looked it up yet",
                None,
            )
        if place.owner == command.source:
            return Effect(
                "failed",
                f"came-back: Pulsar released the bundle, and {command.source} has it again",
                place.owner,
            )
        if command.destination not in (None, place.owner):
            return Effect(
                "applied",
                f"elsewhere: the bundle went to {place.owner}, not to {command.destination}",
                place.owner,
            )
        return Effect("applied", None, place.owner)

    def _watch(
        self, command: CommandRecord, enough: Callable[[CommandRecord, Place], bool]
    ) -> Place:
        """Looks ever more rarely until it has seen enough or `arrival_ms` have passed."""
        deadline = self._clock() + self._retry.arrival_ms / 1000
        pause = _FIRST_LOOK_S
        while True:
            place = self._look(command)
            left = deadline - self._clock()
            if (
                (place.known and enough(command, place))
                or left <= 0
                or self._wait(min(pause, left))
            ):
                return place
            pause *= 2

    def _look(self, command: CommandRecord) -> Place:
        namespace, _, range_ = command.bundle.rpartition("/")
        try:
            if command.action == "split":
                return Place(command.source, split=range_ not in self._admin.ranges(namespace))
            likely = filter(None, (command.destination, command.source))
            return Place(self._admin.owner(command.bundle, likely))
        except Unauthorized:
            raise
        except AdminError:
            return Place(None, known=False)


def _released(command: CommandRecord, place: Place) -> bool:
    return place.split if command.action == "split" else place.owner != command.source


def _settled(command: CommandRecord, place: Place) -> bool:
    return place.split if command.action == "split" else place.owner not in (None, command.source)


def _is_plain(command: CommandRecord) -> bool:
    """A release after which any broker may own the bundle, its old one included."""
    return command.action != "split" and command.destination is None


def _failed(failure: AdminError, owner: str | None) -> Effect:
    codes = (code for kind, code in _CODES.items() if isinstance(failure, kind))
    return Effect("failed", f"{next(codes, 'refused-by-broker')}: {failure}", owner)
