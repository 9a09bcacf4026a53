"""Layout of columnar recordings (Parquet): one row per telemetry record, in the order of the log.

The figures of a load report are columns. Bundle names and their numbers of topics and sessions
repeat from report to report: they are texts that the dictionary encoding stores once. Traffic of
bundles is a list of doubles. Other records are kept as their original JSON.
"""

from __future__ import annotations

from typing import Any

#: Columns of `packing.figures_to_list`, in its order.
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
