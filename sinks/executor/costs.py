"""What a move costs the clients of its bundle: how many topics it has, and how long the first of
them waits for a message. Measured with few calls; a call that fails ends the measuring.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import Any

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.http import Wait
from sinks.pulsar_api.modular_or_extensible import LoadManager, configured_manager
from strategies.bundles.ranges import parse_bundle, topic_hash
from strategies.errors import AdminError, NotFound, NotOwned

#: Topics of a bundle that are looked at before a move.
_LOOKED_AT = 3
#: A topic with fewer messages a second may be silent for as long as it is looked at.
_LEAST_MSGS = 1.0
_FIRST_LOOK_S, _LONGEST_PAUSE_S = 0.05, 0.4


@dataclass(frozen=True, slots=True)
class BundleUse:
    """How a bundle is used before it moves. `topics`: None if unknown; `busiest`: of the topics
    that were looked at, the one with the most messages, None if none has any. `manager`: of the
    cluster, None if unknown.
    """

    topics: int | None = None
    had_clients: bool = False
    busiest: str | None = None
    manager: LoadManager | None = None


class WaveTopics:
    """The topics of the bundles of a wave. Moves of a wave run side by side and are mostly of few
    namespaces: each of these is listed once, and a list that failed is not asked for again.
    """

    def __init__(self, admin: PulsarAdmin) -> None:
        self._admin, self._lock = admin, Lock()
        self._listed: dict[str, Future[tuple[str, ...]]] = {}

    def of_bundle(self, bundle: str) -> tuple[str, ...]:
        """Names of its persistent topics, in the order of the list; none for a name that is no
        bundle's. Raises AdminError.
        """
        parsed = parse_bundle(bundle)
        if parsed is None:
            return ()
        namespace, range_ = parsed
        return tuple(name for name in self._of(namespace) if topic_hash(name) in range_)

    def _of(self, namespace: str) -> tuple[str, ...]:
        with self._lock:
            is_first = namespace not in self._listed
            listed = self._listed.setdefault(namespace, Future())
        if is_first:
            try:
                listed.set_result(self._admin.persistent_topics(namespace))
            except Exception as error:
                listed.set_exception(error)  # the others wait for an answer
        return listed.result()


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
        self._topics = WaveTopics(admin)

    def begin_wave(self) -> None:
        """Forgets the lists of topics: they may have changed since the last wave."""
        self._topics = WaveTopics(self._admin)

    def before(self, bundle: str, owner: str) -> BundleUse:
        """The use of a bundle that this broker owns."""
        if self._measure_s == 0:
            return BundleUse()
        try:
            manager = self._load_manager(owner)
            topics = self._topics.of_bundle(bundle)
        except AdminError:
            return BundleUse(manager=self._manager)
        found: list[tuple[float, str]] = []
        clients = False
        for topic in topics[:_LOOKED_AT]:
            try:
                figures = self._admin.topic_figures(topic, owner)
            except (NotFound, NotOwned):
                continue
            except AdminError:
                break
            found.append((_number(figures, "msgRateIn"), topic))
            clients = clients or _has_clients(figures)
        rate, busiest = max(found, default=(0.0, ""))
        return BundleUse(len(topics), clients, busiest if rate >= _LEAST_MSGS else None, manager)

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


def _has_clients(figures: dict[str, Any]) -> bool:
    subscriptions = figures.get("subscriptions")
    readers = subscriptions.values() if isinstance(subscriptions, dict) else ()
    return bool(figures.get("publishers")) or any(
        isinstance(one, dict) and bool(one.get("consumers")) for one in readers
    )
