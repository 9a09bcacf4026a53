"""Recorded loads of bundles, put on other brokers than those that carried them.

Rule: a bundle takes along its share of its recorded broker's traffic and resources, in absolute figures, exactly as the engine estimates a
move (`strategies.estimate`). A broker that has gone gives its bundles back to whoever carried them in the recording.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np

from sinks.columnar import KINDS
from sinks.columnar_reading import Block, Column
from strategies.bundle_loads import THROUGHPUT_IN, THROUGHPUT_OUT, Floats, Ints

_REPORT, _SWEEP = KINDS.index("report"), KINDS.index("sweep")
#: Figures that follow traffic: usage of CPU, direct memory and bandwidth, and the four totals. Heap memory and limits stay.
_FOLLOWING = [0, 4, 6, 8, 10, 11, 12, 13]
_IN, _OUT, _COUNT = 12, 13, 14


@dataclass(frozen=True, slots=True)
class _Part:
    """Bundles that a report has too many (`gives`) or that come from another report of the same pass (`row`); positions in their lists."""

    row: int
    positions: Ints


@dataclass(frozen=True)
class Reassigned:
    """The records of `block`, with bundles where `owners` (bundle → broker) has them; others stay with their recorded broker."""

    block: Block
    owners: Mapping[str, str]

    def made(self) -> Block:
        """The block as it would have been; the very same one where nothing is elsewhere."""
        changes = self._changes
        if not changes:
            return self.block
        block = self.block
        traffic, starts = block.traffic
        figures, digests, bundles, counts = block.figures.copy(), block.digests.copy(), block.bundles.copy(), block.counts.copy()
        names, numbers = dict[str, int](), dict[str, int]()
        for row, parts in changes.items():
            for part in parts:
                self._burden(figures, row, part, traffic, starts)
            seen = b"".join(int(block.digests[part.row]).to_bytes(8, "little") + part.positions.tobytes() for part in parts)
            own = int(block.digests[row]).to_bytes(8, "little")
            digests[row] = int.from_bytes(blake2b(own + seen, digest_size=8).digest(), "little")
            bundles[row] = len(block.texts["bundles"]) + names.setdefault(self._joined(row, parts, "bundles"), len(names))
            counts[row] = len(block.texts["bundle_counts"]) + numbers.setdefault(self._joined(row, parts, "bundle_counts"), len(numbers))
        texts = {
            **block.texts,
            "bundles": (*block.texts["bundles"], *names),
            "bundle_counts": (*block.texts["bundle_counts"], *numbers),
        }
        column = _Moved(block.column, changes)
        return replace(block, column=column, texts=texts, figures=figures, digests=digests, bundles=bundles, counts=counts)

    def throughput(self, bundle: str, row: int) -> float:
        """Bytes/s in + out of a bundle in the pass that ends with record `row`; NaN if nobody reported it."""
        for broker in self._rows_of_pass[int(self._passes[row])].values():
            if bundle in self._places(broker):
                traffic, starts = self.block.traffic
                at = int(starts[broker]) + self._places(broker)[bundle]
                return float(traffic[at, THROUGHPUT_IN] + traffic[at, THROUGHPUT_OUT])
        return float("nan")

    @cached_property
    def _changes(self) -> dict[int, list[_Part]]:
        """Row of a report → what is different about it; a part of its own row is what it gives away."""
        block, changes = self.block, dict[int, list[_Part]]()
        if not self.owners:
            return changes
        for rows in self._rows_of_pass.values():
            for broker, row in rows.items():
                taken: dict[str, list[int]] = {}
                for bundle, position in self._displaced(row):
                    owner = self.owners[bundle]
                    if owner != broker and owner in rows:
                        taken.setdefault(owner, []).append(position)
                if not taken:
                    continue
                gone = np.array(sorted(position for positions in taken.values() for position in positions), dtype=np.int64)
                changes.setdefault(row, []).insert(0, _Part(row, gone))
                for owner, positions in taken.items():
                    changes.setdefault(rows[owner], []).append(_Part(row, np.array(positions, dtype=np.int64)))
        assert all(block.kinds[row] == _REPORT for row in changes)
        return changes

    @cached_property
    def _passes(self) -> Ints:
        """int64[records]: how many sweeps came before each record."""
        return np.concatenate(([0], np.cumsum(self.block.kinds == _SWEEP)[:-1]))

    @cached_property
    def _rows_of_pass(self) -> dict[int, dict[str, int]]:
        """Pass → broker → its newest report with bundles."""
        result: dict[int, dict[str, int]] = {}
        reports = np.flatnonzero((self.block.kinds == _REPORT) & (self.block.bundles >= 0))
        names = self.block.texts["broker"]
        for row, number, code in zip(reports.tolist(), self._passes[reports].tolist(), self.block.brokers[reports].tolist(), strict=True):
            result.setdefault(number, {})[names[code]] = row
        return result

    def _displaced(self, row: int) -> list[tuple[str, int]]:
        code = int(self.block.bundles[row])
        if code not in self._displaced_by_list:
            places = self._places(row)
            self._displaced_by_list[code] = [(bundle, places[bundle]) for bundle in places.keys() & self.owners.keys()]
        return self._displaced_by_list[code]

    @cached_property
    def _displaced_by_list(self) -> dict[int, list[tuple[str, int]]]:
        return {}

    def _places(self, row: int) -> dict[str, int]:
        code = int(self.block.bundles[row])
        if code not in self._places_by_list:
            text = self.block.texts["bundles"][code]
            self._places_by_list[code] = {name: place for place, name in enumerate(text.split("\n"))} if text else {}
        return self._places_by_list[code]

    @cached_property
    def _places_by_list(self) -> dict[int, dict[str, int]]:
        return {}

    def _burden(self, figures: Floats, row: int, part: _Part, traffic: Floats, starts: Ints) -> None:
        source = self.block.figures[part.row]
        moved = traffic[int(starts[part.row]) + part.positions]
        total = float(source[_IN] + source[_OUT])
        sign = -1.0 if part.row == row else 1.0
        figures[row, _COUNT] = max(0.0, figures[row, _COUNT] + sign * len(part.positions))
        if total > 0:
            share = min(1.0, float(moved[:, THROUGHPUT_IN].sum() + moved[:, THROUGHPUT_OUT].sum()) / total)
            changed = figures[row, _FOLLOWING] + sign * share * source[_FOLLOWING]
            figures[row, _FOLLOWING] = np.maximum(changed, 0.0)

    def _joined(self, row: int, parts: list[_Part], text: str) -> str:
        """The lines of a report's list without what it gives away, and with what it takes."""
        codes = self.block.bundles if text == "bundles" else self.block.counts
        lines = [self.block.texts[text][codes[part.row]].split("\n") for part in parts]
        away = {place for part in parts if part.row == row for place in part.positions.tolist()}
        own = self.block.texts[text][codes[row]].split("\n") if self.block.texts[text][codes[row]] else []
        kept = [line for place, line in enumerate(own) if place not in away]
        for part, theirs in zip(parts, lines, strict=True):
            if part.row != row:
                kept += [theirs[place] for place in part.positions.tolist()]
        return "\n".join(kept)


@dataclass(frozen=True)
class _Moved:
    """The traffic column with the same bundles taken from and added to the same reports."""

    column: Column
    changes: Mapping[int, list[_Part]]

    def read(self) -> tuple[Floats, Ints]:
        traffic, starts = self.column.read()
        parts = [traffic[begin:end] for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]
        made = list(parts)
        for row, changed in self.changes.items():
            own = parts[row]
            for part in changed:
                if part.row == row:
                    own = np.delete(own, part.positions, axis=0)
            made[row] = np.concatenate([own, *(parts[part.row][part.positions] for part in changed if part.row != row)])
        lengths = np.array([len(part) for part in made])
        return np.concatenate(made), np.concatenate(([0], np.cumsum(lengths)))
