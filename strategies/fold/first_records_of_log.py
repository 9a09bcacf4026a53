"""Folds a log's first records, before the first round closes, which may be old or come from a clock
that runs ahead.

Nothing is published before the first round closes. So the state keeps the first records, and they
are folded again when a better time is known: the time that most records are near or, before that,
the time of a sweep, which ends a pass of the collector.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from strategies.cluster.cluster_state import Clock, ClusterState, StateStore
from strategies.cluster.model import Event, Rejection, Sweep, TelemetryRecord
from strategies.cluster.packed_records import EarlyRecord
from strategies.fold.producer_votes import clock_rejection

#: Maximum number of records that a cluster's state keeps before the first round; then the time near
#: most of them counts.
MOST_EARLY_RECORDS = 256
#: Number of records near the time that a first round without a sweep needs: if all records are
#: near, and if some are not.
_ENOUGH, _ENOUGH_OF_MANY = 6, 16


@dataclass(frozen=True, slots=True)
class StartFold:
    """Folds the records of a log's start."""

    #: The setting `round.max_clock_jump_ms`.
    jump_ms: int
    #: Folds one record by the clock of the cluster's state.
    fold_timed: Callable[[TelemetryRecord, StateStore], list[Event]]

    def fold(
        self,
        record: TelemetryRecord,
        early: tuple[EarlyRecord, ...],
        store: StateStore,
    ) -> list[Event]:
        """Folds a record before the first round: alone, or with all records before it if a better
        time is known now. `early`: the records before it, from the state.
        """
        state, times = store.get_cluster(), [*(entry.ts for entry in early), record.ts]
        time = corrected_time(times, state.clock, self.jump_ms, swept=isinstance(record, Sweep))
        if not early and isinstance(record, Sweep) and not record.brokers:
            time = record.ts  # an empty cluster has no figures that a wrong time could affect
        if time is not None:
            return self._replay([*(entry.record for entry in early), record], time, store)
        if state.clock is not None:
            return self._continue(record, store)
        store.put_cluster(replace(state, early=(*early, EarlyRecord.of(record, far=True))))
        return []

    def _replay(
        self, records: Sequence[TelemetryRecord], time: int, store: StateStore
    ) -> list[Event]:
        """Removes the brokers of an earlier fold, then folds the log's first records by a clock
        that starts with the first one near `time`.
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
                topics=before.topics,
            )
        )
        return [event for record in records for event in self._continue(record, store)]

    def _continue(self, record: TelemetryRecord, store: StateStore) -> list[Event]:
        """Folds one more record by the known time. The first round ends the log's start, and
        rejects the records that were too far from the time.
        """
        state = store.get_cluster()
        if state.early is None or state.clock is None:
            return self.fold_timed(record, store)
        far = abs(record.ts - state.clock.now_ms) > self.jump_ms
        events = [] if far else self.fold_timed(record, store)
        refused = any(isinstance(event, Rejection) for event in events)
        early = state.early if refused else (*state.early, EarlyRecord.of(record, far))
        state = store.get_cluster()
        if state.round == 0 and len(early) < MOST_EARLY_RECORDS:
            store.put_cluster(replace(state, early=early))
            return events
        store.put_cluster(replace(state, early=None))
        outside = (entry.record for entry in early if entry.far)
        return [
            *events,
            *(
                clock_rejection(
                    far_record, state.now_ms, "ahead" if far_record.ts > state.now_ms else "behind"
                )
                for far_record in outside
            ),
        ]


def corrected_time(
    times: Sequence[int], clock: Clock | None, jump_ms: int, *, swept: bool
) -> int | None:
    """Returns the time by which to fold the log's start again; None if `clock` is right or no two
    records agree yet. `times`: of all records so far. `swept`: the last one is a sweep, whose time
    counts as soon as another record is near it.
    """
    ordered = sorted(times)
    if swept and _count_near(ordered, times[-1], jump_ms) > 1:
        best = times[-1]
    else:
        best = max(ordered, key=lambda ts: _count_near(ordered, ts, jump_ms))
        if _count_near(ordered, best, jump_ms) < max(
            2, 0 if clock is None else 1 + _count_near(ordered, clock.now_ms, jump_ms)
        ):
            return None
    return None if clock is not None and abs(best - clock.now_ms) <= jump_ms else best


def may_close_first_round(early: Sequence[EarlyRecord]) -> bool:
    """True if a first round may close without a sweep, at a record that is near the cluster's
    time.
    """
    far = sum(1 for entry in early if entry.far)
    near = len(early) + 1 - far
    return near >= (_ENOUGH_OF_MANY if far else _ENOUGH) and near > 2 * far


def _count_near(ordered: Sequence[int], ts: int, jump_ms: int) -> int:
    return bisect_right(ordered, ts + jump_ms) - bisect_left(ordered, ts - jump_ms)
