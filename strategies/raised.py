"""What becomes of an error that a rule raises: a sentence on the records, and no change of the
cluster's state (decision 0253).

One cluster's records are folded beside those of others: an error of a strategy, or of a rule that
meets figures it was not written for, sets aside what it belongs to, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from traceback import walk_tb
from typing import Final

from strategies.errors import StateVersionError
from strategies.state import ClusterState
from strategies.store import BrokerState, StateStore

#: Code of the rejected record, and of the skip of a round.
RAISED: Final = "rule-raised"
#: Errors of the machine or of the stored state: the record is folded again by the next start.
NOT_OF_RULES = (MemoryError, StateVersionError)
_LONGEST = 300
#: Differs from process to process.
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")


def raised_text(error: Exception) -> str:
    """The error's type, its text and the line that raised it. The same error gives the same text,
    on every machine.
    """
    *_, (frame, line) = walk_tb(error.__traceback__)
    place = f"{frame.f_globals.get('__name__', '?')}, line {line}"
    said = _ADDRESS.sub("at …", " ".join(str(error).split()))[:_LONGEST]
    return f"{type(error).__name__} in {place}" + (f": {said}" if said else "")


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
