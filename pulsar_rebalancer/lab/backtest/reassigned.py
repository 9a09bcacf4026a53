"""Recorded loads of bundles, assigned to other brokers than the recorded ones.

Rule: a bundle moves its share of its recorded broker's traffic and resources, in absolute figures,
exactly as the engine estimates a move (`strategies.figures.usage_after_moves`); the idle usage of a
broker, where it is given, stays. When a broker leaves the recording, its bundles return to their
recorded brokers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from math import nan
from operator import itemgetter

import numpy as np

from sinks.recordings.columnar import KINDS
from sinks.recordings.columnar_reading import Block, ReadTraffic
from strategies.bundles import THROUGHPUT_IN, THROUGHPUT_OUT, Bools, Floats, Ints

_REPORT, _SWEEP = KINDS.index("report"), KINDS.index("sweep")
#: Figures that follow traffic: usage of CPU, direct memory and bandwidth, and the four totals. Heap
#: memory and limits stay.
_FOLLOWING = [0, 4, 6, 8, 10, 11, 12, 13]
_IN, _OUT, _COUNT = 12, 13, 14
#: Columns of the usage of CPU and of direct memory, and of their limits.
USAGES, LIMITS = [0, 4], [1, 5]
#: Usage of CPU and of direct memory without traffic, as parts of a machine.
Idle = tuple[float, float]
NONE_IDLE: Idle = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class _Reassigned:
    """Bundles that a report loses, or gains from another report of the same pass (`column`);
    positions in the lists of these reports.
    """

    column: int
    positions: Ints


@dataclass(frozen=True, slots=True)
class _EqualPasses:
    """Passes with the same reports of the same bundles in the same order. `rows`: int64[passes,
    reports].

    `changes`: column of a report → its lost and gained bundles; the part of its own column is the
    lost ones.
    """

    rows: Ints
    changes: Mapping[int, list[_Reassigned]]


@dataclass(frozen=True)
class Reassigned:
    """The records of `block`, with bundles of `cluster` on the brokers of `owners` (bundle →
    broker); other bundles stay as recorded.

    Clusters that replicate each other have bundles of the same name, so each cluster is processed
    alone.
    """

    block: Block
    cluster: str
    owners: Mapping[str, str]
    idle: Idle = NONE_IDLE
    #: By code of a list of bundles.
    _displaced_by_list: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    _places_by_list: dict[int, dict[str, int]] = field(default_factory=dict)

    def made(self) -> Block:
        """The block after reassignment; the same object if no bundle is on another broker."""
        changed = [alike for alike in self._equal_passes if alike.changes]
        if not changed:
            return self.block
        block = self.block
        figures, digests, bundles, counts = (
            block.figures.copy(),
            block.digests.copy(),
            block.bundles.copy(),
            block.counts.copy(),
        )
        names, numbers = _Texts(block.texts["bundles"]), _Texts(block.texts["bundle_counts"])
        for alike in changed:
            for column, parts in alike.changes.items():
                rows = alike.rows[:, column]
                for part in parts:
                    self._burden(
                        figures, rows, alike.rows[:, part.column], part, takes=part.column != column
                    )
                digests[rows] = self._digests(alike, column, parts)
                bundles[rows] = names.codes(block.bundles, alike, column, parts)
                counts[rows] = numbers.codes(block.counts, alike, column, parts)
        texts = {**block.texts, "bundles": names.every, "bundle_counts": numbers.every}
        return replace(
            block,
            read_traffic=_Moved(block.read_traffic, changed).read,
            texts=texts,
            figures=figures,
            digests=digests,
            bundles=bundles,
            counts=counts,
        )

    def reported(self, bundle: str, row: int) -> tuple[float, float]:
        """Bytes/s in + out of a bundle, and its producers and consumers, in the pass that ends with
        record `row`; NaN if no broker reported it.
        """
        for report in self._rows_of_pass.get(int(self._passes[row]), {}).values():
            at = self._places(report).get(bundle)
            stats = None if at is None else self.block.stats(report)
            if stats is not None:
                throughput = stats.traffic[at, THROUGHPUT_IN] + stats.traffic[at, THROUGHPUT_OUT]
                return float(throughput), float(stats.sessions[at])
        return nan, nan

    @cached_property
    def _equal_passes(self) -> list[_EqualPasses]:
        reports = self._reports
        groups: dict[tuple[bytes, bytes], list[Ints]] = {}
        ends = np.flatnonzero(np.diff(self._passes[reports])) + 1
        for rows in np.split(reports, ends) if self.owners and len(reports) else ():
            seen = self.block.brokers[rows].tobytes(), self.block.bundles[rows].tobytes()
            groups.setdefault(seen, []).append(rows)
        return [_EqualPasses(np.stack(rows), self._changes(rows[0])) for rows in groups.values()]

    def _changes(self, rows: Ints) -> dict[int, list[_Reassigned]]:
        """The changes of one pass. Of several reports of one broker, the newest counts."""
        names, changes = self.block.texts["broker"], dict[int, list[_Reassigned]]()
        columns = {
            names[code]: column for column, code in enumerate(self.block.brokers[rows].tolist())
        }
        away = {
            column: self._away(int(rows[column]), broker, columns)
            for broker, column in columns.items()
        }
        newest = self._newest(rows, columns)
        for column, bundles in away.items():
            if not bundles:
                continue
            taken: dict[str, list[int]] = {}
            for bundle, position in bundles:
                if newest[bundle] == column:
                    taken.setdefault(self.owners[bundle], []).append(position)
            changes.setdefault(column, []).insert(
                0,
                _Reassigned(
                    column, np.array([position for _, position in bundles], dtype=np.int64)
                ),
            )
            for owner, positions in taken.items():
                changes.setdefault(columns[owner], []).append(
                    _Reassigned(column, np.array(positions, dtype=np.int64))
                )
        return changes

    def _away(self, row: int, broker: str, columns: Mapping[str, int]) -> list[tuple[str, int]]:
        """Bundles of a broker's report whose owner is another present broker, and their
        positions.
        """
        return [
            pair
            for pair in self._displaced(row)
            if self.owners[pair[0]] != broker and self.owners[pair[0]] in columns
        ]

    def _newest(self, rows: Ints, columns: Mapping[str, int]) -> dict[str, int]:
        """Bundle → the report whose figures of it apply: that of its owner if it lists the bundle,
        otherwise the newest.

        While Pulsar moves a bundle, two brokers list it.
        """
        named = [
            (bundle, broker, column)
            for broker, column in columns.items()
            for bundle, _ in self._displaced(int(rows[column]))
        ]
        return {
            bundle: column
            for bundle, broker, column in sorted(
                named, key=lambda one: (self.owners[one[0]] == one[1], one[2])
            )
        }

    @cached_property
    def _ours(self) -> Bools:
        """Mask of the records of the cluster."""
        names = self.block.texts["cluster"]
        return np.asarray(
            self.block.clusters
            == (names.index(self.cluster) if self.cluster in names else len(names))
        )

    @cached_property
    def _reports(self) -> Ints:
        """Rows of the reports with bundles."""
        return np.flatnonzero(
            self._ours & (self.block.kinds == _REPORT) & (self.block.bundles >= 0)
        )

    @cached_property
    def _passes(self) -> Ints:
        """int64[records]: number of the cluster's sweeps before each record."""
        return np.concatenate(([0], np.cumsum(self._ours & (self.block.kinds == _SWEEP))[:-1]))

    @cached_property
    def _rows_of_pass(self) -> dict[int, dict[str, int]]:
        """Pass → broker → its newest report with bundles."""
        result: dict[int, dict[str, int]] = {}
        reports, names = self._reports, self.block.texts["broker"]
        for row, number, code in zip(
            reports.tolist(),
            self._passes[reports].tolist(),
            self.block.brokers[reports].tolist(),
            strict=True,
        ):
            result.setdefault(number, {})[names[code]] = row
        return result

    def _displaced(self, row: int) -> list[tuple[str, int]]:
        code = int(self.block.bundles[row])
        if code not in self._displaced_by_list:
            places = self._places(row)
            self._displaced_by_list[code] = sorted(
                ((bundle, places[bundle]) for bundle in places.keys() & self.owners.keys()),
                key=itemgetter(1),
            )
        return self._displaced_by_list[code]

    def _places(self, row: int) -> dict[str, int]:
        code = int(self.block.bundles[row])
        if code not in self._places_by_list:
            text = self.block.texts["bundles"][code]
            self._places_by_list[code] = (
                {name: place for place, name in enumerate(text.split("\n"))} if text else {}
            )
        return self._places_by_list[code]

    def _burden(
        self, figures: Floats, rows: Ints, theirs: Ints, part: _Reassigned, *, takes: bool
    ) -> None:
        """Adds the part's share of the figures of `theirs` to the reports `rows`, or subtracts
        it.
        """
        source, sign = self.block.figures[theirs], 1.0 if takes else -1.0
        idle = np.array(self.idle) * source[:, LIMITS]
        source[:, USAGES] -= np.minimum(idle, source[:, USAGES])
        traffic, starts = self.block.traffic
        moved = traffic[starts[theirs][:, None] + part.positions]
        total = source[:, _IN] + source[:, _OUT]
        figures[rows, _COUNT] = np.maximum(0.0, figures[rows, _COUNT] + sign * len(part.positions))
        busy = total > 0
        amount = moved[busy][..., THROUGHPUT_IN].sum(axis=1) + moved[busy][..., THROUGHPUT_OUT].sum(
            axis=1
        )
        share = np.fmin(1.0, amount / total[busy])
        cells = rows[busy][:, None], _FOLLOWING
        figures[cells] = np.maximum(
            figures[cells] + (sign * share)[:, None] * source[busy][:, _FOLLOWING], 0.0
        )

    def _digests(self, alike: _EqualPasses, column: int, parts: list[_Reassigned]) -> list[int]:
        """New digests, from the recorded digests and the changes."""
        digests = self.block.digests[alike.rows].astype("<u8")
        seen = [digests[:, [column]]]
        for part in parts:
            seen += [
                digests[:, [part.column]],
                np.broadcast_to(part.positions.astype("<u8"), (len(digests), len(part.positions))),
            ]
        return [
            int.from_bytes(blake2b(row.tobytes(), digest_size=8).digest(), "little")
            for row in np.hstack(seen)
        ]


class _Texts:
    """The bundle lists of a block, one line per bundle, and the lists after moves."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.every = texts
        self._made: dict[str, int] = {}
        self._split: dict[int, list[str]] = {}

    def codes(
        self, codes: Ints, alike: _EqualPasses, column: int, parts: list[_Reassigned]
    ) -> list[int]:
        """Codes of a report's lists in each pass, without lost and with gained bundles. `codes`:
        those of the recorded lists.
        """
        seen = [
            tuple(row)
            for row in codes[alike.rows[:, [column, *(part.column for part in parts)]]].tolist()
        ]
        made = {row: self._code(self._joined(row, column, parts)) for row in dict.fromkeys(seen)}
        return [made[row] for row in seen]

    def _joined(self, seen: tuple[int, ...], column: int, parts: list[_Reassigned]) -> str:
        away = {
            place for part in parts if part.column == column for place in part.positions.tolist()
        }
        lines = [line for place, line in enumerate(self._lines(seen[0])) if place not in away]
        for part, code in zip(parts, seen[1:], strict=True):
            if part.column != column:
                theirs = self._lines(code)
                lines += [theirs[place] for place in part.positions.tolist()]
        return "\n".join(lines)

    def _lines(self, code: int) -> list[str]:
        if code not in self._split:
            self._split[code] = self.every[code].split("\n") if self.every[code] else []
        return self._split[code]

    def _code(self, text: str) -> int:
        if text not in self._made:
            self._made[text] = len(self.every)
            self.every = (*self.every, text)
        return self._made[text]


@dataclass(frozen=True)
class _Moved:
    """The traffic column, with the same bundles moved between the same reports."""

    read_traffic: ReadTraffic
    changed: Sequence[_EqualPasses]

    def read(self) -> tuple[Floats, Ints]:
        traffic, starts = self.read_traffic()
        lengths = np.diff(starts)
        lists = [
            (alike, column, _arranged(alike, column, lengths))
            for alike in self.changed
            for column in alike.changes
        ]
        made = lengths.copy()
        for alike, column, (places, _) in lists:
            made[alike.rows[:, column]] = len(places)
        after = np.concatenate(([0], np.cumsum(made)))
        index = np.arange(after[-1]) + np.repeat(starts[:-1] - after[:-1], made)
        for alike, column, (places, columns) in lists:
            cells = after[alike.rows[:, column]][:, None] + np.arange(len(places))
            index[cells] = starts[alike.rows[:, columns]] + places
        return traffic[index], after


def _arranged(alike: _EqualPasses, column: int, lengths: Ints) -> tuple[Ints, Ints]:
    """A report's bundles after moves: positions in recorded lists, and the columns of these
    lists.
    """
    own = np.arange(lengths[alike.rows[0, column]])
    parts = alike.changes[column]
    for part in parts:
        if part.column == column:
            own = np.delete(own, part.positions)
    taken = [part for part in parts if part.column != column]
    places = np.concatenate([own, *(part.positions for part in taken)])
    columns = np.repeat(
        [column, *(part.column for part in taken)],
        [len(own), *(len(part.positions) for part in taken)],
    )
    return places, columns
