"""Columnar recordings (Parquet), their layout and writing: one row per telemetry record, in the
order of the log, in row groups of about an hour of a large cluster.

The figures of a load report are columns. Bundle names and their numbers of topics and sessions
repeat from report to report: they are texts that the dictionary encoding stores once. Traffic of
bundles is a list of doubles. Other records are kept as their original JSON.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sinks.recordings.json_lines import RecordingFile
from sinks.wire.record_decoding import DEFAULT_LIMITS, WireLimits, decode
from strategies.cluster.model import LoadReport, Sweep, TelemetryRecord
from strategies.cluster.packed_records import figures_to_list
from strategies.errors import SettingsError, WireError

#: Columns of `packed_records.figures_to_list`, in its order.
FIGURES = (
    *(
        f"{name}_{part}"
        for name in ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
        for part in ("usage", "limit")
    ),
    "msg_rate_in",
    "msg_rate_out",
    "msg_throughput_in",
    "msg_throughput_out",
    "bundle_count",
    "usage_average",
    "throughput_average",
    "updated_at_ms",
)
WHOLE = frozenset({"bundle_count", "updated_at_ms"})
#: `bundle_traffic` changes with every report, `bundles` and `bundle_counts` rarely.
TRAFFIC = "bundle_traffic"
REPEATED = ("kind", "cluster", "broker", "bundles", "bundle_counts")
#: `report`: figures, bundles or both; `sweep`, `other`: JSON in `original`; `rejected`: undecodable
#: bytes in `original`.
KINDS = ("report", "sweep", "other", "rejected")
ENDING = ".parquet"
#: Version in the file's metadata; incremented when the meaning of a column changes.
VERSION_KEY, VERSION = b"pulsar-rebalancer", b"recording/1"


def schema() -> Any:
    """The Arrow schema. `bundles`: names, one per line; `bundle_counts`: one line `topics sessions`
    per bundle; `bundle_traffic`: msg_rate_in, msg_rate_out, msg_throughput_in, msg_throughput_out
    of each bundle in turn. All three are null in a report with figures only. `digest`: equal for
    repeated samples.
    """
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string())
    fields = [
        pa.field("kind", text, nullable=False),
        pa.field("cluster", text),
        pa.field("broker", text),
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("digest", pa.uint64()),
        *(pa.field(name, pa.int64() if name in WHOLE else pa.float64()) for name in FIGURES),
        pa.field("bundles", text),
        pa.field("bundle_counts", text),
        pa.field(TRAFFIC, pa.list_(pa.float64())),
        pa.field("original", pa.binary()),
    ]
    return pa.schema(fields, metadata={VERSION_KEY: VERSION})


#: Records or bundles per row group: enough for fast reading, few enough that several groups fit
#: into memory.
_RECORDS, _BUNDLES, _ORIGINALS = 16_384, 600_000, 64 * 2**20
_NO_FIGURES: list[float | None] = [None] * len(FIGURES)


class ColumnarRecording(RecordingFile):
    """A columnar recording being written; a context manager. The file is complete after `close`.

    Raises SettingsError where pyarrow is missing, SinkError where the file cannot be written.
    """

    def __init__(self, path: Path, limits: WireLimits = DEFAULT_LIMITS) -> None:
        pa, parquet = pyarrow_and_parquet()
        self._pa, self._limits, self._path = pa, limits, path
        self._schema = schema()
        self._rows: list[list[Any]] = []
        self._bundles = self._bytes = 0
        #: Number of undecodable records.
        self.rejected = 0
        try:
            # A month has some hundred row groups; statistics of every column of each would cost
            # more than they save.
            self._file = parquet.ParquetWriter(
                path,
                self._schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=list(REPEATED),
                column_encoding={f"{TRAFFIC}.list.element": "BYTE_STREAM_SPLIT"},
                write_statistics=["ts"],
            )
        except OSError as error:
            raise self._failed(error) from error

    def append(self, values: Iterable[bytes]) -> None:
        """Appends one record per value, as on the TELEMETRY topic; undecodable ones are kept as
        they are.
        """
        for value in values:
            self.write(value, self._decoded(value))

    def write(self, value: bytes, record: TelemetryRecord | None) -> None:
        """Appends a record and its original bytes; None for undecodable bytes. The bytes of a load
        report are not kept, if all of it can be used.
        """
        if record is None:
            self.rejected += 1
            self._rows.append(
                ["rejected", None, None, 0, None, *_NO_FIGURES, None, None, None, value]
            )
        elif isinstance(record, LoadReport) and not record.left_out:
            self._rows.append(_report(record))
            self._bundles += 0 if record.bundles is None else len(record.bundles.names)
        else:
            kind = "sweep" if isinstance(record, Sweep) else "other"
            self._rows.append(
                [kind, record.cluster, None, record.ts, None, *_NO_FIGURES, None, None, None, value]
            )
        self._bytes += len(self._rows[-1][-1] or b"")
        fill = max(len(self._rows) / _RECORDS, self._bundles / _BUNDLES, self._bytes / _ORIGINALS)
        # A pass is in one group where that is possible: what moves within it is found there.
        if fill >= 2 or (fill >= 1 and isinstance(record, Sweep)):
            self._flush()

    def close(self) -> None:
        """Completes the file."""
        try:
            self._flush()
            self._file.close()
        except OSError as error:
            raise self._failed(error) from error

    def _decoded(self, value: bytes) -> TelemetryRecord | None:
        try:
            return decode(value, b"", self._limits)
        except WireError:
            return None

    def _flush(self) -> None:
        if not self._rows:
            return
        columns = list(zip(*self._rows, strict=True))
        arrays = [
            self._array(field, column) for field, column in zip(self._schema, columns, strict=True)
        ]
        self._rows, self._bundles, self._bytes = [], 0, 0
        try:
            self._file.write_table(
                self._pa.table(arrays, schema=self._schema), row_group_size=2 * _RECORDS
            )
        except OSError as error:
            raise self._failed(error) from error

    def _array(self, field: Any, column: tuple[Any, ...]) -> Any:
        pa = self._pa
        if field.name == TRAFFIC:
            return _lists(pa, column)
        if pa.types.is_dictionary(field.type):
            return pa.array(column, pa.string()).dictionary_encode()
        return pa.array(column, field.type)


def _report(record: LoadReport) -> list[Any]:
    figures = _NO_FIGURES if record.figures is None else figures_to_list(record.figures)
    head = ["report", record.cluster, record.broker, record.ts, int(record.digest, 16), *figures]
    stats = record.bundles
    if stats is None:
        return [*head, None, None, None, None]
    counts = "\n".join(
        f"{topics} {sessions}"
        for topics, sessions in zip(stats.topics.tolist(), stats.sessions.tolist(), strict=True)
    )
    return [*head, "\n".join(stats.names), counts, stats.traffic, None]


def _lists(pa: Any, column: tuple[Any, ...]) -> Any:
    """Tables float64[n, 4] as Arrow lists, without a Python object per double."""
    lengths = np.array([0 if table is None else table.size for table in column])
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    known = [table.ravel() for table in column if table is not None]
    values = np.concatenate(known) if known else np.empty(0)
    missing = pa.array([table is None for table in column])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), mask=missing)


def pyarrow_and_parquet() -> tuple[Any, Any]:
    """pyarrow and pyarrow.parquet. Raises SettingsError if they are not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise SettingsError(
            [
                "columnar recordings need pyarrow: pip install 'pulsar-rebalancer[report]', "
                "or use .jsonl.zst instead"
            ]
        ) from error
    return pyarrow, parquet


def write_table(path: Path, columns: Mapping[str, type], rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes a flat table as Parquet. `columns`: name → str, int or float. Raises SettingsError if
    pyarrow is not installed, OSError.
    """
    pa, parquet = pyarrow_and_parquet()
    types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    parquet.write_table(pa.Table.from_pylist([*rows], schema=schema), path)
