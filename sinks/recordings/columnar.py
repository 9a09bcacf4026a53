"""The layout of columnar recordings: one row per telemetry record, in the order of the log.

A load report's figures are columns of their own; what its bundles are called and how many topics and sessions they have are texts that
repeat from report to report and are stored once; their traffic is one list of doubles. Everything else is kept as the JSON it came as.
"""

from __future__ import annotations

from typing import Any

#: Columns of `packing.figures_to_list`, in its order.
FIGURES = (
    *(f"{name}_{part}" for name in ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out") for part in ("usage", "limit")),
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
#: What changes with every report, and what hardly ever does.
TRAFFIC = "bundle_traffic"
REPEATED = ("kind", "cluster", "broker", "bundles", "bundle_counts")
#: `report`: figures, bundles or both; `sweep`, `other`: the JSON in `original`; `rejected`: bytes in `original` that could not be decoded.
KINDS = ("report", "sweep", "other", "rejected")
ENDING = ".parquet"
#: In the file's own metadata; raised when the meaning of a column changes.
VERSION_KEY, VERSION = b"pulsar-rebalancer", b"recording/1"


def schema() -> Any:
    """As pyarrow has it. `bundles`: names, one per line; `bundle_counts`: a line `topics sessions` for each of them; `bundle_traffic`:
    msg_rate_in, msg_rate_out, msg_throughput_in, msg_throughput_out of the first bundle, of the second … All null where a report
    holds figures only. `digest`: what tells a new sample from a repeated one."""
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
