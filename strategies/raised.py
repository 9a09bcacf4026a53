"""What becomes of an error that a rule raises: a sentence on the records, and no change of the
cluster's state (decision 0253).

One cluster's records are folded beside those of others: an error of a strategy, or of a rule that
meets figures it was not written for, sets aside what it belongs to, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from traceback import walk_tb
from typing import Any, Final

from strategies.errors import StateVersionError
from strategies.model import Command, Skip
from strategies.state import ClusterState
from strategies.store import BrokerState, StateStore

#: Code of the rejected record, and of the skip of a round.
RAISED: Final = "rule-raised"
#: An error of the stored state: what comes after it cannot be folded.
NOT_OF_RULES = (StateVersionError,)
_LONGEST = 300
#: Differs from process to process.
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")


def raised_text(error: Exception) -> str:
    """The error's type, its text and the line that raised it. Without what differs from process to
    process: addresses, and texts that are made of other objects.
    """
    *_, (frame, line) = walk_tb(error.__traceback__)
    place = f"{frame.f_globals.get('__name__', '?')}, line {line}"
    plain = all(isinstance(part, str | int | float) for part in error.args)
    said = _said(error) if plain else ""
    return f"{type(error).__name__} in {place}" + (f": {said}" if said else "")


def _said(error: Exception) -> str:
    try:
        return _ADDRESS.sub("at …", " ".join(str(error).split()))[:_LONGEST]
    except Exception:  # an error whose text raises, too
        return ""


def check_plain(commands: Iterable[Command], skips: Iterable[Skip]) -> None:
    """Checks what strategies write into records: texts are texts, and evidence is plain and
    finite. Raises TypeError, ValueError: records of a topic have nothing else.
    """
    some: list[Command | Skip] = [*commands, *skips]
    for one in some:
        texts: list[Any] = [one.code, one.text, *one.evidence]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError(f"code, text and names of evidence must be texts, got {texts!r}")
        values: Mapping[str, Any] = one.evidence
        for key, value in values.items():
            if value is not None and not isinstance(value, str | int | float):
                raise TypeError(f"evidence {key!r} must be a text or a number")
            if isinstance(value, float) and not isfinite(value):
                raise ValueError(f"evidence {key!r} must be finite, got {value!r}")


class RecordChanges:
    """A view of a store that keeps the changes of one record until `apply`: without it, the store
    is as it was. See StateStore.
    """

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._cluster: ClusterState | None = None
        self._removed: dict[str, None] = {}
        self._brokers: dict[str, BrokerState] = {}
        self._tables: dict[str, bytes] = {}
        self._owned: dict[str, bytes | None] = {}

    def apply(self) -> None:
        """Makes the changes in the store."""
        for name in self._removed:
            self._store.remove_broker(name)
        for broker in self._brokers.values():
            self._store.put_broker(broker)
        for name, table in self._tables.items():
            self._store.put_table(name, table)
        for name, owned in self._owned.items():
            if owned is None:
                self._store.remove_owned(name)
            else:
                self._store.put_owned(name, owned)
        if self._cluster is not None:
            self._store.put_cluster(self._cluster)

    def get_broker(self, broker: str) -> BrokerState | None:
        if broker in self._brokers:
            return self._brokers[broker]
        return None if broker in self._removed else self._store.get_broker(broker)

    def put_broker(self, state: BrokerState) -> None:
        self._brokers[state.broker] = state

    def remove_broker(self, broker: str) -> None:
        self._removed[broker] = None
        self._brokers.pop(broker, None)
        self._tables.pop(broker, None)

    def brokers(self) -> Iterator[BrokerState]:
        if not (self._removed or self._brokers):
            return self._store.brokers()
        return iter(
            [
                *(
                    state
                    for state in self._store.brokers()
                    if state.broker not in self._removed and state.broker not in self._brokers
                ),
                *self._brokers.values(),
            ]
        )

    def get_table(self, broker: str) -> bytes | None:
        if broker in self._tables:
            return self._tables[broker]
        return None if broker in self._removed else self._store.get_table(broker)

    def put_table(self, broker: str, table: bytes) -> None:
        self._tables[broker] = table

    def get_owned(self, broker: str) -> bytes | None:
        return self._owned[broker] if broker in self._owned else self._store.get_owned(broker)

    def put_owned(self, broker: str, owned: bytes) -> None:
        self._owned[broker] = owned

    def remove_owned(self, broker: str) -> None:
        self._owned[broker] = None

    def get_cluster(self) -> ClusterState:
        return self._store.get_cluster() if self._cluster is None else self._cluster

    def put_cluster(self, state: ClusterState) -> None:
        self._cluster = state
