"""Folds a log's first records, before the first round closes: by the best known time, and again
when a better one is known (`log_start` finds it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from strategies.cluster.clock import Clock
from strategies.cluster.log_start import LONGEST_LOG_START, EarlyRecord, corrected_time
from strategies.cluster.model import Event, Rejection, Sweep, TelemetryRecord
from strategies.cluster.state import ClusterState
from strategies.cluster.store import StateStore
from strategies.fold.producer_votes import clock_rejection


@dataclass(frozen=True, slots=True)
class StartFold:
    """Folds the records of a log's start. `jump_ms`: the setting max_clock_jump_ms; `fold_timed`:
    folds one record by the clock of the cluster's state.
    """

    jump_ms: int
    fold_timed: Callable[[TelemetryRecord, StateStore], list[Event]]

    def fold(
        self,
        record: TelemetryRecord,
        early: tuple[EarlyRecord, ...],
        store: StateStore,
    ) -> list[Event]:
        """Before the first round closes: folds all records so far by the best known time; `early`:
        the records before this one, from the state.
        """
        state, times = store.get_cluster(), [*(one.ts for one in early), record.ts]
        time = corrected_time(times, state.clock, self.jump_ms, swept=isinstance(record, Sweep))
        if not early and isinstance(record, Sweep) and not record.brokers:
            time = record.ts  # an empty cluster has no figures that a wrong time could affect
        if time is not None:
            return self._replay([*(one.record for one in early), record], time, store)
        if state.clock is not None:
            return self._continue(record, store)
        store.put_cluster(replace(state, early=(*early, EarlyRecord.of(record, far=True))))
        return []

    def _replay(
        self, records: Sequence[TelemetryRecord], time: int, store: StateStore
    ) -> list[Event]:
        """Folds the log's first records, again if necessary, by a clock that starts with the first
        record near `time`.
        """
        before = store.get_cluster()
        for broker in store.brokers():
            store.remove_broker(broker.broker)
        start = next(record.ts for record in records if abs(record.ts - time) <= self.jump_ms)
        store.put_cluster(
            ClusterState(
                clock=Clock(start),
                round_at_ms=start,
                intents=before.intents,
                bulkhead=before.bulkhead,
            )
        )
        return [event for record in records for event in self._continue(record, store)]

    def _continue(self, record: TelemetryRecord, store: StateStore) -> list[Event]:
        """Folds one more record of a log start with a known time. The first round ends it and
        rejects records that were too far away.
        """
        state = store.get_cluster()
        if state.early is None or state.clock is None:
            return self.fold_timed(record, store)
        far = abs(record.ts - state.clock.now_ms) > self.jump_ms
        events = [] if far else self.fold_timed(record, store)
        refused = any(isinstance(event, Rejection) for event in events)
        early = state.early if refused else (*state.early, EarlyRecord.of(record, far))
        state = store.get_cluster()
        if state.round == 0 and len(early) < LONGEST_LOG_START:
            store.put_cluster(replace(state, early=early))
            return events
        store.put_cluster(replace(state, early=None))
        outside = (one.record for one in early if one.far)
        return [
            *events,
            *(
                clock_rejection(one, state.now_ms, "ahead" if one.ts > state.now_ms else "behind")
                for one in outside
            ),
        ]
