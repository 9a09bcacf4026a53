"""Averages of the bundles of many brokers, advanced together round by round. The doubles equal
those of `averages`, broker by broker.
"""

from collections.abc import Sequence

import numpy as np

from strategies.averages.bundle_averages import LONG_SAMPLES, SHORT_SAMPLES, BundleHistory
from strategies.bundles import Floats, Ints
from strategies.cluster.model import BundleStats

_CAPS = (SHORT_SAMPLES, LONG_SAMPLES)


class BulkAverages:
    """Concatenated tables of several brokers, valid until one of them gains or loses a bundle."""

    def __init__(self, histories: Sequence[BundleHistory]) -> None:
        self._rows = [len(history.newest.names) for history in histories]
        base = np.concatenate([history.base for history in histories])
        # Column-major: one contiguous column per figure instead of rows of four.
        self._averages = [
            np.ascontiguousarray(base[:, part].T) for part in (slice(0, 4), slice(4, 8))
        ]
        self._samples = [base[:, 8].copy(), base[:, 9].copy()]
        self._newest = np.ascontiguousarray(
            np.concatenate([history.newest.traffic for history in histories]).T
        )
        self._sampled = [history.sampled_round for history in histories]

    def sample(self, traffic: Floats, fresh: Sequence[bool], round_: int) -> None:
        """Newest figures float64[rows, 4] of a later round; brokers that are not `fresh` repeated
        theirs, which adds no sample.
        """
        if all(fresh):
            self._advance(None)
            self._newest = np.ascontiguousarray(traffic.T)
        else:
            rows = np.repeat(np.array(fresh), self._rows)
            self._advance(rows)
            self._newest[:, rows] = traffic.T[:, rows]
        self._sampled = [
            round_ if new else old for new, old in zip(fresh, self._sampled, strict=True)
        ]

    def histories(
        self, names: Sequence[tuple[str, ...]], counts: Sequence[tuple[Ints, Ints]]
    ) -> list[BundleHistory]:
        """The tables, one per broker; names and (topics, sessions) of its bundles are those of its
        newest report.
        """
        base = np.vstack((*self._averages, *self._samples)).T
        result, begin = [], 0
        for index, rows in enumerate(self._rows):
            part = slice(begin, begin + rows)
            newest = BundleStats(
                names[index], np.ascontiguousarray(self._newest[:, part].T), *counts[index]
            )
            result.append(
                BundleHistory(newest, np.ascontiguousarray(base[part]), self._sampled[index])
            )
            begin += rows
        return result

    def _advance(self, rows: np.ndarray[tuple[int], np.dtype[np.bool_]] | None) -> None:
        """Same operations in the same order as `averages.advance`."""
        for index, cap in enumerate(_CAPS):
            counts = np.minimum(self._samples[index] + 1.0, cap)
            average = (counts - 1.0) * self._averages[index]
            average += self._newest
            average /= counts
            if rows is None:
                self._averages[index], self._samples[index] = average, counts
            else:
                self._averages[index][:, rows] = average[:, rows]
                self._samples[index][rows] = counts[rows]
