"""The quota of one cluster in front of its state: a record that is admitted costs a count, which
reaches the state when something depends on it.
"""

from __future__ import annotations

from dataclasses import replace

from strategies.cluster.quota import OverQuota, UnreadRecord, admit, admits_one_more, counted_bytes
from strategies.cluster.quota_settings import BulkheadSettings
from strategies.cluster.store import StateStore

#: A record above this size leaves a window in the state of any cluster that it names.
_LARGE_BYTES = 2**16


class QuotaGate:
    """Judges a cluster's records in their order. `close` before the state is kept."""

    def __init__(self, settings: BulkheadSettings, store: StateStore) -> None:
        self._settings = settings
        self._store = store
        self._more = (0, 0)

    def admits(self, arrival: UnreadRecord) -> tuple[bool, OverQuota | None]:
        """Whether the record is to be folded, and what was set aside before its window began.

        A cluster without any usable record has no quota until it sends a large one: names that are
        made up leave no state.
        """
        state = self._store.get_cluster()
        unknown = state.clock is None and not state.early and not state.bulkhead.windows
        if unknown and arrival.size <= _LARGE_BYTES:
            return True, None
        if admits_one_more(state.bulkhead, arrival, self._more, state.live, self._settings):
            self._more = (self._more[0] + 1, self._more[1] + counted_bytes(arrival.size))
            return True, None
        bulkhead = state.bulkhead.with_more(*self._more)
        self._more = (0, 0)
        bulkhead, admitted, earlier = admit(bulkhead, arrival, state.live, self._settings)
        self._store.put_cluster(replace(state, bulkhead=bulkhead))
        return admitted, earlier

    def close(self) -> None:
        """Brings the counts into the state."""
        if self._more != (0, 0):
            state = self._store.get_cluster()
            bulkhead = state.bulkhead.with_more(*self._more)
            self._store.put_cluster(replace(state, bulkhead=bulkhead))
            self._more = (0, 0)
