"""Short and long term averages of bundles (Pulsar: TimeAverageMessageData, BundleData), as one
table per broker.

Each round adds one sample. The newest figures of the open round are kept beside the averages and
enter them only when figures of a later round arrive, so more frequent polling changes nothing. The
averages of a bundle that moves pass as a row to the broker that lists the bundle, or wait until one
does.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from strategies.bundles import BundleLoads, Floats, Ints, TableSummary
from strategies.cluster.cluster_state import (
    ClusterState,
    Departed,
    Gained,
    StateStore,
    newest_entries,
)
from strategies.cluster.model import BundleStats
from strategies.errors import StateVersionError

SHORT_SAMPLES = 10
LONG_SAMPLES = 1000

_CAPS = np.array([SHORT_SAMPLES, LONG_SAMPLES])
_VERSION = 2
_HEAD = struct.Struct("<BqI")
#: short average, long average (4 columns each), their sample counts, without the pending sample
_COLUMNS = 10
Row = tuple[float, ...]


def advance(average: Floats, samples: Ints, cap: int | Ints, sample: Floats) -> tuple[Floats, Ints]:
    """Averages float64[n, 4] and sample counts int64[n] after one more sample float64[n, 4]; arrays
    may have more leading dimensions.

    Plain mean up to `cap` samples, then an EMA of weight 1/cap. Operations and their order are
    those of TimeAverageMessageData.update, so the results are bit-identical.
    """
    counts = np.minimum(samples + 1, cap)
    weights = counts.astype(np.float64)[..., None]
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # absurd traffic is averaged as in Java, without warnings
        return ((weights - 1.0) * average + sample) / weights, counts


@dataclass(frozen=True, slots=True, eq=False)
class BundleHistory:
    """The bundles of one broker: newest figures, and the averages without them. `base`: float64[n,
    10], see `_COLUMNS`.
    """

    newest: BundleStats
    base: Floats
    sampled_round: int

    def loads(self) -> BundleLoads:
        """The table that strategies use: averages with the newest figures as their last sample."""
        rows = self._advanced()
        return BundleLoads(
            names=self.newest.names,
            short=rows[:, 0:4],
            long=rows[:, 4:8],
            short_samples=rows[:, 8].astype(np.int64),
            long_samples=rows[:, 9].astype(np.int64),
            topics=self.newest.topics,
            sessions=self.newest.sessions,
            current=self.newest.traffic,
        )

    def summary(self) -> TableSummary:
        """Sums and maxima of `loads`, bit-identical to computing them from it."""
        newest = self.newest
        if not newest.names:
            return TableSummary()
        base, traffic = np.asfortranarray(self.base[:, 4:]), np.asfortranarray(newest.traffic)
        long, _ = advance(base[:, 0:4], base[:, 5].astype(np.int64), LONG_SAMPLES, traffic)
        rate_in, rate_out = np.add.accumulate(long[:, :2])[-1].tolist()
        rate, throughput = np.fmax.reduce(long[:, 0::2] + long[:, 1::2]).tolist()
        topics, most_topics = (
            int(np.add.reduce(newest.topics)),
            int(np.maximum.reduce(newest.topics)),
        )
        return TableSummary(
            rate_in,
            rate_out,
            topics,
            most_topics,
            int(np.maximum.reduce(newest.sessions)),
            rate,
            throughput,
        )

    def after(self, newest: BundleStats, round_: int) -> "BundleHistory":
        """The table after a report of `round_`: replaces newest figures of the same round; those of
        an earlier one enter the averages.
        """
        base = self.base if round_ == self.sampled_round else self._advanced()
        if newest.names == self.newest.names:
            return BundleHistory(newest, base, round_)
        # Behind the last row of `base`, one for bundles that are new.
        rows = {name: i for i, name in enumerate(self.newest.names)}
        padded = np.vstack((base, np.zeros((1, _COLUMNS))))
        where = [rows.get(name, len(rows)) for name in newest.names]
        return BundleHistory(newest, padded[np.array(where, dtype=np.intp)], round_)

    def departing(self, remaining: BundleStats | None) -> dict[str, Row]:
        """Averages, newest figures included, of the bundles that `remaining` does not list; of all
        bundles if it is None.
        """
        stay = set() if remaining is None else set(remaining.names)
        leaving = [i for i, name in enumerate(self.newest.names) if name not in stay]
        if not leaving:
            return {}
        rows = self._advanced()
        return {self.newest.names[i]: tuple(rows[i].tolist()) for i in leaving}

    def adopt(self, rows: Mapping[str, Row]) -> "BundleHistory":
        """The table with averages that arrive later than their bundles; samples taken since the
        bundles arrived are added to them.
        """
        base = self.base.copy()
        for i, name in enumerate(self.newest.names):
            if name in rows:
                base[i] = _continued(np.array(rows[name]), base[i])
        return replace(self, base=base)

    def pack(self) -> bytes:
        """Versioned bytes."""
        newest = self.newest
        names = _names_as_bytes(newest.names)
        arrays = (newest.traffic, newest.topics, newest.sessions, self.base)
        return (
            _HEAD.pack(_VERSION, self.sampled_round, len(names))
            + names
            + b"".join(array.tobytes() for array in arrays)
        )

    def _advanced(self) -> Floats:
        """`base` plus the newest figures, short and long averages in one pass; column by column,
        which is faster than in rows of four.
        """
        base, traffic = np.asfortranarray(self.base), np.asfortranarray(self.newest.traffic)
        averages, samples = base[:, 0:8].reshape(-1, 2, 4), base[:, 8:10].astype(np.int64)
        averages, samples = advance(averages, samples, _CAPS, traffic[:, None, :])
        return np.hstack((averages.reshape(-1, 8), samples))


def first_history(newest: BundleStats, round_: int) -> BundleHistory:
    """The table of a broker seen for the first time: no averages yet, so the first sample becomes
    the average.
    """
    return BundleHistory(newest, np.zeros((len(newest.names), _COLUMNS)), round_)


def unpack_history(data: bytes, expected: tuple[str, ...] = ()) -> BundleHistory:
    """Inverse of `BundleHistory.pack`; faster when the names are those in `expected`. Raises
    StateVersionError for another format.
    """
    version, round_, length = _HEAD.unpack_from(data, 0)
    if version != _VERSION:
        raise StateVersionError(
            f"bundle tables of format {version} cannot be read: start with a new checkpoint folder"
        )
    start = _HEAD.size + length
    packed_names = data[_HEAD.size : start]
    names = (
        expected if packed_names == _names_as_bytes(expected) else _names_from_bytes(packed_names)
    )
    n = len(names)
    traffic = np.frombuffer(data, np.float64, 4 * n, start).reshape(n, 4)
    counts = np.frombuffer(data, np.int64, 2 * n, start + 32 * n)
    base = np.frombuffer(data, np.float64, _COLUMNS * n, start + 48 * n).reshape(n, _COLUMNS)
    return BundleHistory(BundleStats(names, traffic, counts[:n], counts[n:]), base, round_)


def bundles_of(data: bytes, namespace: str) -> int:
    """Number of bundles of a packed table in a namespace. Usually none, which a search of the bytes
    finds without reading single names.
    """
    length = _HEAD.unpack_from(data, 0)[2]
    names, begin = data[_HEAD.size : _HEAD.size + length], f"{namespace}/".encode()
    if not namespace:  # `namespace_of` returns this for a name without a slash
        return sum(name != b"" and b"/" not in name for name in names.split(b"\n"))
    if begin not in names:
        return 0
    return sum(
        b"/" not in name[len(begin) :] for name in names.split(b"\n") if name.startswith(begin)
    )


def _names_as_bytes(names: tuple[str, ...]) -> bytes:
    """Names joined by line ends. Names of bundles are never empty and contain no line ends, so the
    result is unambiguous.
    """
    return "\n".join(names).encode()


def _names_from_bytes(data: bytes) -> tuple[str, ...]:
    return tuple(data.decode().split("\n")) if data else ()


def _continued(prior: Floats, since: Floats) -> Floats:
    """Averages `prior` plus the samples that `since` averages, each counted as the mean of
    `since`.
    """
    result = prior.copy()
    for columns, count, cap in ((slice(0, 4), 8, SHORT_SAMPLES), (slice(4, 8), 9, LONG_SAMPLES)):
        average, samples = prior[None, columns], prior[count : count + 1].astype(np.int64)
        for _ in range(int(since[count])):
            average, samples = advance(average, samples, cap, since[None, columns])
        result[columns], result[count] = average[0], samples[0]
    return result


#: Maximum number of bundles between two brokers whose averages a state keeps, also when half a
#: cluster leaves. Further ones replace the oldest, whose averages start again.
MOVING_AT_MOST = 10_000


def take_table(
    broker: str, newest: BundleStats, state: ClusterState, store: StateStore
) -> tuple[TableSummary, tuple[str, ...] | None, ClusterState]:
    """Stores a broker's new table. Returns its summary, the bundles of the table before, and the
    state.
    """
    before: tuple[str, ...] | None = None
    packed = store.get_table(broker)
    if packed is None:
        table = first_history(newest, state.round + 1)
    else:
        history = unpack_history(packed, newest.names)
        table, before = history.after(newest, state.round + 1), history.newest.names
        if newest.names != before:
            state = hand_over(history.departing(newest), broker, state, store)
    if newest.names != before:
        arrived = set(newest.names).difference(before or ())
        table, state = _take_in(broker, arrived, table, state)
    store.put_table(broker, table.pack())
    return table.summary(), before, state


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
