"""The quota of one cluster in front of its state."""

from __future__ import annotations

from strategies.cluster.quota import OverQuota, UnreadRecord, admit
from strategies.cluster.quota_settings import BulkheadSettings
from strategies.cluster.store import StateStore
from strategies.fold.quick_replace import quick_replace

#: A record above this size leaves a window in the state of any cluster that it names.
_LARGE_BYTES = 2**16


def admits(
    arrival: UnreadRecord, store: StateStore, settings: BulkheadSettings
) -> tuple[bool, OverQuota | None]:
    """Whether the record is to be folded, and what was set aside before its window began.

    A cluster without any usable record has no quota until it sends a large one: names that are
    made up leave no state.
    """
    state = store.get_cluster()
    unknown = state.clock is None and not state.early and not state.bulkhead.windows
    if unknown and arrival.size <= _LARGE_BYTES:
        return True, None
    bulkhead, admitted, earlier = admit(state.bulkhead, arrival, state.live, settings)
    store.put_cluster(quick_replace(state, bulkhead=bulkhead))
    return admitted, earlier
