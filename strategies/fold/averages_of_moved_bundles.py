"""Averages of bundles that change brokers: they pass to the broker that lists the bundle, or wait
until one does.
"""

from collections.abc import Mapping
from dataclasses import replace

from strategies.averages.bundle_averages import BundleHistory, Row, next_table, unpack_history
from strategies.bundles import TableSummary
from strategies.cluster.cluster_state import ClusterState, Departed, Gained, newest_entries
from strategies.cluster.model import BundleStats
from strategies.cluster.state_store import StateStore

#: Maximum number of bundles between two brokers whose averages a state keeps, also when half a
#: cluster leaves. Further ones replace the oldest, whose averages start again.
MOVING_AT_MOST = 10_000


def take_table(
    broker: str, newest: BundleStats, state: ClusterState, store: StateStore
) -> tuple[TableSummary, tuple[str, ...] | None, ClusterState]:
    """Stores a broker's new table. Returns its summary, the bundles of the table before, and the
    state.
    """
    change = next_table(store.get_table(broker), newest, state.round + 1)
    table = change.table
    if newest.names != change.before:
        state = hand_over(change.left, broker, state, store)
        arrived = set(newest.names).difference(change.before or ())
        table, state = _take_in(broker, arrived, table, state)
    store.put_table(broker, table.pack())
    return table.summary(), change.before, state


def _take_in(
    broker: str, arrived: set[str], table: BundleHistory, state: ClusterState
) -> tuple[BundleHistory, ClusterState]:
    """Adds the averages of bundles that a broker has gained to its table. Bundles whose old broker
    still lists them get theirs when it no longer does (`ClusterState.gained`).

    Before the first round no bundle can have moved, so none waits.
    """
    rows = {bundle: state.departed[bundle].row for bundle in arrived if bundle in state.departed}
    if rows:
        table = table.adopt(rows)
        state = replace(
            state,
            departed={
                bundle: entry for bundle, entry in state.departed.items() if bundle not in rows
            },
        )
    if state.round == 0:
        return table, state
    waiting = dict.fromkeys(sorted(arrived - rows.keys()), Gained(broker, state.round + 1))
    if not waiting:
        return table, state
    gained = newest_entries({**state.gained, **waiting}, MOVING_AT_MOST)
    return table, replace(state, gained=gained)


def hand_over(
    rows: Mapping[str, Row], source: str, state: ClusterState, store: StateStore
) -> ClusterState:
    """Passes the averages of bundles that left `source` to the brokers that already report them,
    and keeps the others for the brokers that will (`ClusterState.departed`).
    """
    if not rows:
        return state
    gained, departed = dict(state.gained), dict(state.departed)
    for bundle, row in rows.items():
        gain = gained.pop(bundle, None)
        if gain is None or gain.broker == source or not _add_row(gain.broker, bundle, row, store):
            departed[bundle] = Departed(row, state.round + 1)
    return replace(state, gained=gained, departed=newest_entries(departed, MOVING_AT_MOST))


def _add_row(broker: str, bundle: str, row: Row, store: StateStore) -> bool:
    """Adds the averages of a bundle to the table of its new broker, which reported it before the
    old one lost it. Returns False if the new broker has left.
    """
    state, packed = store.get_broker(broker), store.get_table(broker)
    if state is None or packed is None:
        return False
    table = unpack_history(packed).adopt({bundle: row})
    store.put_table(broker, table.pack())
    store.put_broker(replace(state, table=table.summary()))
    return True
