"""What a move costs the clients of its bundle: how many topics it has, and how long the first of
them waits for a message. Measured with few calls; a call that fails ends the measuring.

The topics of a bundle are those that its owner has loaded, from the figures that every broker keeps
in memory. No namespace is listed: it may have a million topics.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import msgspec

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.broker_facts import LoadManager, configured_manager
from sinks.pulsar_api.http import Wait
from strategies.errors import AdminError, NotFound, NotOwned

#: A topic with fewer messages a second may be silent for as long as it is looked at.
_LEAST_MSGS = 1.0
_FIRST_LOOK_S, _LONGEST_PAUSE_S = 0.05, 0.4


class _LoadedSubscription(msgspec.Struct):
    consumers: list[msgspec.Raw] = []


class _LoadedTopic(msgspec.Struct):
    """What counts of a topic's figures, in Pulsar's words."""

    msgRateIn: float = 0.0
    producerCount: int = 0
    publishers: list[msgspec.Raw] = []
    subscriptions: dict[str, _LoadedSubscription] = {}

    @property
    def has_clients(self) -> bool:
        return bool(
            self.producerCount
            or self.publishers
            or any(one.consumers for one in self.subscriptions.values())
        )


class _LoadedBundle(msgspec.Struct):
    persistent: dict[str, _LoadedTopic] = {}


@dataclass(frozen=True, slots=True)
class BundleUse:
    """How a bundle is used before it moves. `topics`: None if unknown; `busiest`: the topic with
    the most messages, None if none has any. `manager`: of the cluster, None if unknown.
    """

    topics: int | None = None
    had_clients: bool = False
    busiest: str | None = None
    manager: LoadManager | None = None


class WaveFigures:
    """The bundles that brokers serve. Moves of a wave run side by side and are mostly of few
    brokers: each of these is asked once, and one that failed is not asked again.
    """

    def __init__(self, admin: PulsarAdmin) -> None:
        self._admin, self._lock = admin, Lock()
        self._asked: dict[str, Future[Mapping[str, BundleUse]]] = {}

    def of_bundle(self, bundle: str, owner: str) -> BundleUse:
        """The use of a bundle, by its owner's figures; unknown of one that has no loaded topic, or
        is there for less than a minute. Raises AdminError.
        """
        with self._lock:
            is_first = owner not in self._asked
            asked = self._asked.setdefault(owner, Future())
        if is_first:
            try:
                asked.set_result(_uses(self._admin, owner))
            except Exception as error:
                asked.set_exception(error)  # the others wait for an answer
        return asked.result().get(bundle, BundleUse())


def _uses(admin: PulsarAdmin, broker: str) -> Mapping[str, BundleUse]:
    """By bundle. Raises AdminError."""
    tree = admin.loaded_topics(broker, dict[str, dict[str, _LoadedBundle]])
    return {
        f"{namespace}/{range_}": _use(bundle.persistent)
        for namespace, bundles in tree.items()
        for range_, bundle in bundles.items()
    }


def _use(topics: Mapping[str, _LoadedTopic]) -> BundleUse:
    rate, busiest = max(((one.msgRateIn, name) for name, one in topics.items()), default=(0.0, ""))
    return BundleUse(
        len(topics),
        any(one.has_clients for one in topics.values()),
        busiest if rate >= _LEAST_MSGS else None,
    )


class CostMeter:
    """Threads may share it."""

    def __init__(
        self,
        admin: PulsarAdmin,
        measure_ms: int,
        wait: Wait,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`admin`: with one attempt and a short deadline. `measure_ms`: how long a first message is
        waited for, 0 = nothing is measured. `clock`: the applier's.
        """
        self._admin, self._measure_s = admin, measure_ms / 1000
        self._wait, self._clock = wait, clock
        self._manager: LoadManager | None = None
        self._figures = WaveFigures(admin)

    def begin_wave(self) -> None:
        """Forgets the figures of before: they may have changed since the last wave."""
        self._figures = WaveFigures(self._admin)

    def before(self, bundle: str, owner: str) -> BundleUse:
        """The use of a bundle that this broker owns."""
        if self._measure_s == 0:
            return BundleUse()
        try:
            manager = self._load_manager(owner)
            return replace(self._figures.of_bundle(bundle, owner), manager=manager)
        except AdminError:
            return BundleUse(manager=self._manager)

    def first_message_ms(
        self, use: BundleUse, owner: str | None, released_s: float | None
    ) -> int | None:
        """From the release until the new owner has a message of the busiest topic; None if there
        is no such topic, or no message in time.
        """
        if use.busiest is None or owner is None or released_s is None:
            return None
        pause = _FIRST_LOOK_S
        while (passed_s := self._clock() - released_s) < self._measure_s:
            try:
                if _number(self._admin.topic_figures(use.busiest, owner), "msgInCounter") > 0:
                    return round((self._clock() - released_s) * 1000)
            except (NotFound, NotOwned):
                pass  # it is not loaded yet
            except AdminError:
                return None
            if self._wait(min(pause, self._measure_s - passed_s)):
                return None
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        return None

    def _load_manager(self, broker: str) -> LoadManager | None:
        """Asked once."""
        if self._manager is None:
            self._manager, _ = configured_manager(self._admin, broker)
        return self._manager


def _number(figures: dict[str, Any], name: str) -> float:
    value = figures.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
