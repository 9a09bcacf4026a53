"""Reads a columnar recording block by block, in the order of the log. A block is one row group; at
most a few are in memory.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from math import isnan
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from sinks.recordings.columnar import (
    FIGURES,
    KINDS,
    REPEATED,
    TRAFFIC,
    VERSION,
    VERSION_KEY,
    pyarrow_and_parquet,
    schema,
)
from sinks.recordings.json_lines import open_recorded
from sinks.wire.record_decoding import decode
from sinks.wire.signing_keys import SigningKey
from strategies.bundles import Floats, Ints
from strategies.cluster.model import BundleStats, Figures, LoadReport, TelemetryRecord
from strategies.cluster.packed_records import figures_from_list
from strategies.errors import SinkError, WireError

_REPORT, _SWEEP, _OTHER, _REJECTED = range(len(KINDS))
#: Index of the first optional figure, and indexes of the integer figures.
_OPTIONAL, _COUNT = 15, 14
#: Limits of a row group; those of `rebalancer convert` are far below.
_MOST_ROWS, _LARGEST_COLUMN = 65_536, 256 * 2**20


#: Reads the traffic of a block's bundles: float64[rows, 4], and the index of each record's first
#: row, int64[records + 1]. Raises SinkError.
ReadTraffic = Callable[[], tuple[Floats, Ints]]


class _Handle:
    """One open file with a lock: a pyarrow file hangs or crashes if two threads use it at once."""

    def __init__(self, path: Path) -> None:
        _, parquet = pyarrow_and_parquet()
        # Dictionary encoding also for originals: a value that repeats thousands of times is stored
        # once.
        self._file = parquet.ParquetFile(path, read_dictionary=[*REPEATED, "original"])
        self._lock = Lock()
        self.groups = int(self._file.num_row_groups)

    def check_sizes(self, path: Path) -> None:
        """Raises SinkError for a row group that needs more memory than any that `rebalancer
        convert` writes.
        """
        for number in range(self.groups):
            group = self._file.metadata.row_group(number)
            columns = [group.column(index) for index in range(group.num_columns)]
            size = max(
                [
                    0,
                    *(
                        max(column.total_uncompressed_size, 8 * column.num_values)
                        for column in columns
                    ),
                ]
            )
            if group.num_rows > _MOST_ROWS or size > _LARGEST_COLUMN:
                raise SinkError(
                    f"{path}: row group {number} has {group.num_rows} records and a column of "
                    f"{size >> 20} MiB, more than {_MOST_ROWS} "
                    f"or {_LARGEST_COLUMN >> 20} MiB; make it with `rebalancer convert` from "
                    "the JSON Lines."
                )

    def read(self, group: int, columns: Sequence[str]) -> Any:
        """Columns of one row group; one thread at a time."""
        with self._lock:
            return self._file.read_row_group(group, columns=list(columns), use_threads=False)


def _in_file(file: _Handle, group: int) -> tuple[Floats, Ints]:
    """Traffic that stays in the file until it is read."""
    try:
        column = file.read(group, [TRAFFIC])[TRAFFIC].combine_chunks()
    except OSError as error:
        raise SinkError(
            f"row group {group} of the recording is damaged ({error}); copy it again, or convert "
            "it again."
        ) from error
    values = column.values.to_numpy(zero_copy_only=True).reshape(-1, 4)
    return values, column.offsets.to_numpy().astype(np.int64) // 4


def _in_range(read: ReadTraffic, begin: int, end: int) -> tuple[Floats, Ints]:
    """The traffic of a range of records."""
    traffic, starts = read()
    first, last = int(starts[begin]), int(starts[end])
    return traffic[first:last], starts[begin : end + 1] - first


def _in_memory(traffic: tuple[Floats, Ints]) -> tuple[Floats, Ints]:
    return traffic


@dataclass(frozen=True)
class Block:
    """Records of one row group as columns; row i of every array is the i-th record."""

    #: Traffic of the records' bundles, read when it is needed.
    read_traffic: ReadTraffic
    #: Name of a column of indices → its distinct texts.
    texts: dict[str, tuple[str, ...]]
    #: int8: an index of KINDS.
    kinds: Ints
    #: int32: an index of `texts["cluster"]`, -1 for null.
    clusters: Ints
    #: int32: an index of `texts["broker"]`, -1 for null.
    brokers: Ints
    #: int32: an index of `texts["bundles"]`, -1 for null.
    bundles: Ints
    #: int32: an index of `texts["bundle_counts"]`, -1 for null.
    counts: Ints
    #: int64: ms since the epoch.
    ts: Ints
    #: uint64: of what makes a report a new sample.
    digests: Any
    #: float64[n, 18]: in the order of FIGURES, NaN for null.
    figures: Floats
    #: Bytes of the records that are no load reports, as an Arrow column.
    originals: Any
    #: Intents must be signed with it; None = unchecked.
    intents_key: SigningKey | None = None

    def __len__(self) -> int:
        return len(self.ts)

    @cached_property
    def traffic(self) -> tuple[Floats, Ints]:
        """Traffic as `read_traffic` returns it; read on first use."""
        return self.read_traffic()

    def loaded(self) -> "Block":
        """The block with its traffic in memory, for readers that use it several times or in
        parts.
        """
        return replace(self, read_traffic=partial(_in_memory, self.traffic))

    def figures_of(self, row: int) -> Figures:
        """The broker's figures in a load report."""
        return figures_of(self.figures[row : row + 1])[0]

    def between(self, begin: int, end: int) -> "Block":
        """The records from `begin` to `end`, exclusive."""
        if (begin, end) == (0, len(self)):
            return self
        part = slice(begin, end)
        return replace(
            self,
            read_traffic=partial(_in_range, self.read_traffic, begin, end),
            kinds=self.kinds[part],
            clusters=self.clusters[part],
            brokers=self.brokers[part],
            bundles=self.bundles[part],
            counts=self.counts[part],
            ts=self.ts[part],
            digests=self.digests[part],
            figures=self.figures[part],
            originals=self.originals.slice(begin, end - begin),
        )

    def original(self, row: int) -> bytes:
        """The original bytes of a record that is not a load report."""
        return bytes(self.originals[row].as_py() or b"")

    def record(self, row: int) -> TelemetryRecord | None:
        """The record as the engine folds it; None for what the job rejects."""
        if self.kinds[row] == _REPORT:
            return self._report(row)
        try:
            return decode(self.original(row), b"", intents_key=self.intents_key)
        except WireError:
            return None

    def _report(self, row: int) -> LoadReport:
        figures = None if np.isnan(self.figures[row, 0]) else self.figures_of(row)
        broker, cluster = (
            self.texts["broker"][self.brokers[row]],
            self.texts["cluster"][self.clusters[row]],
        )
        return LoadReport(
            cluster,
            broker,
            int(self.ts[row]),
            figures,
            self.stats(row),
            f"{int(self.digests[row]):016x}",
        )

    def stats(self, row: int) -> BundleStats | None:
        """The bundles of a load report."""
        if self.bundles[row] < 0:
            return None
        traffic, starts = self.traffic
        topics, sessions = counts_of(self.texts["bundle_counts"][self.counts[row]])
        names = _names(self.texts["bundles"][self.bundles[row]])
        return BundleStats(names, traffic[starts[row] : starts[row + 1]], topics, sessions)


def read_blocks(
    path: Path, *, with_traffic: bool = False, intents_key: SigningKey | None = None
) -> Iterator[Block]:
    """All blocks in order; reads the next block while one is in use. Raises SinkError, and at once
    SettingsError for a file that cannot be opened.

    `with_traffic`: for callers that use the traffic of every block, more than once. `intents_key`:
    as in `decode`.
    """
    pa, parquet = pyarrow_and_parquet()
    open_recorded(path).close()
    try:
        _check_columns(path, parquet.read_schema(path))
        # A second handle: a block's traffic is read on demand, while the first handle reads the
        # next block.
        file, traffic = _Handle(path), _Handle(path)
    except (OSError, pa.ArrowException) as error:
        raise SinkError(
            f"{path} cannot be read as Parquet ({error}); make it with `rebalancer convert`."
        ) from error
    file.check_sizes(path)

    def read(group: int) -> Block:
        block = replace(_block(file, traffic, group), intents_key=intents_key)
        return block.loaded() if with_traffic else block

    return _blocks(path, read, file.groups, pa)


def _check_columns(path: Path, found: Any) -> None:
    if (found.metadata or {}).get(VERSION_KEY) != VERSION:
        raise SinkError(
            f"{path} is not a columnar recording of this version; make it with `rebalancer "
            "convert` from the JSON Lines."
        )
    missing = [name for name in schema().names if name not in found.names]
    if missing:
        raise SinkError(
            f"{path} lacks the columns {', '.join(missing)}; make it again with `rebalancer "
            "convert` from the JSON Lines."
        )


def figures_of(table: Floats) -> list[Figures]:
    """The figures of many brokers from float64[n, 18] in the order of FIGURES, NaN for null."""
    rows: list[list[Any]] = table.tolist()
    some = not np.isnan(table[:, _OPTIONAL:]).all()
    for row in rows:
        row[_COUNT] = int(row[_COUNT])
        row[_OPTIONAL:] = (
            [None if isnan(value) else value for value in row[_OPTIONAL:]]
            if some
            else (None, None, None)
        )
        if row[-1] is not None:
            row[-1] = int(row[-1])
    return [figures_from_list(row) for row in rows]


def _blocks(path: Path, read: Callable[[int], Block], groups: int, pa: Any) -> Iterator[Block]:
    with ThreadPoolExecutor(1) as ahead:
        coming = ahead.submit(read, 0) if groups else None
        for group in range(groups):
            assert coming is not None
            try:
                block = coming.result()
            except (OSError, pa.ArrowException) as error:
                raise SinkError(
                    f"{path} is damaged in row group {group} ({error}); copy or convert it again."
                ) from error
            coming = ahead.submit(read, group + 1) if group + 1 < groups else None
            yield block


def _block(file: _Handle, traffic: _Handle, group: int) -> Block:
    table = file.read(
        group,
        [
            "kind",
            "cluster",
            "broker",
            "ts",
            "digest",
            *FIGURES,
            "bundles",
            "bundle_counts",
            "original",
        ],
    )
    texts, codes = dict[str, tuple[str, ...]](), dict[str, Ints]()
    for name in ("kind", "cluster", "broker", "bundles", "bundle_counts"):
        column = table[name].combine_chunks()
        texts[name] = tuple(column.dictionary.to_pylist())
        codes[name] = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    kinds = np.array([KINDS.index(kind) for kind in texts["kind"]], dtype=np.int8)[codes["kind"]]
    figures = np.stack([table[name].to_numpy().astype(np.float64) for name in FIGURES], axis=1)
    return Block(
        partial(_in_file, traffic, group),
        texts,
        np.asarray(kinds),
        codes["cluster"],
        codes["broker"],
        codes["bundles"],
        codes["bundle_counts"],
        table["ts"].to_numpy(),
        table["digest"].fill_null(0).to_numpy(),
        figures,
        table["original"].combine_chunks(),
    )


@lru_cache(maxsize=1024)
def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n")) if text else ()


@lru_cache(maxsize=4096)
def counts_of(text: str) -> tuple[Ints, Ints]:
    """Topics and sessions, int64[n] each, of a text of `bundle_counts`."""
    table = np.array(text.split(), dtype=np.int64).reshape(-1, 2)
    return table[:, 0].copy(), table[:, 1].copy()
