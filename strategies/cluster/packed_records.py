"""Packs decoded records as bytes, for those that the engine keeps in a cluster's state.

Layout, compressed with zlib: 4-byte length, JSON header, 4-byte length, origin; of load reports
with bundles also float64[n, 4] and 2 × int64[n]. Lengths are little-endian.
"""

import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from operator import attrgetter
from typing import Any

import numpy as np

from strategies.cluster import model
from strategies.cluster.intent_records_and_states import Intent
from strategies.cluster.move_cost import MoveCost

_LENGTH = struct.Struct("<I")
_RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
_NUMBERS = attrgetter(
    *(f"{resource}.{figure}" for resource in _RESOURCES for figure in ("usage", "limit")),
    "traffic.msg_rate_in",
    "traffic.msg_rate_out",
    "traffic.msg_throughput_in",
    "traffic.msg_throughput_out",
    "bundle_count",
    "usage_average",
    "throughput_average",
    "updated_at_ms",
)
#: The types of records that a state keeps, by name.
_KINDS: Mapping[str, Callable[..., model.TelemetryRecord]] = {
    kind.__name__: kind
    for kind in (
        model.LoadReport,
        model.Tombstone,
        model.Sweep,
        model.OutcomeReport,
        model.Policies,
        model.Owned,
        model.Note,
        Intent,
    )
}


@dataclass(frozen=True, slots=True)
class EarlyRecord:
    """A record from the log's start, which the cluster's state holds until the first round."""

    #: Time of the record.
    ts: int
    #: See `pack_record`.
    compressed: bytes
    #: It is too far from the cluster's time, and therefore not folded.
    far: bool

    @staticmethod
    def of(record: model.TelemetryRecord, far: bool) -> "EarlyRecord":
        """Packs a record."""
        return EarlyRecord(record.ts, pack_record(record), far)

    @property
    def record(self) -> model.TelemetryRecord:
        """The record: the inverse of `of`."""
        return unpack_record(self.compressed)


def pack_record(record: model.TelemetryRecord) -> bytes:
    """Packs a record, origin included; equal records give equal bytes."""
    header = {"kind": type(record).__name__} | {
        field.name: getattr(record, field.name) for field in fields(record)
    }
    origin, body = header.pop("origin"), b""
    match record:
        case model.LoadReport(figures=figures):
            header["figures"] = None if figures is None else figures_to_list(figures)
            stats = header.pop("bundles")
            header["names"] = None if stats is None else stats.names
            if stats is not None:
                body = stats.traffic.tobytes() + stats.topics.tobytes() + stats.sessions.tobytes()
        case model.OutcomeReport(outcome=outcome):
            header["outcome"] = asdict(outcome)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    packed = (_LENGTH.pack(len(text)), text, _LENGTH.pack(len(origin)), origin, body)
    return zlib.compress(b"".join(packed), 1)


def unpack_record(data: bytes) -> model.TelemetryRecord:
    """Unpacks a record: the inverse of `pack_record`. Also reads headers that leave out what has a
    default, as earlier versions wrote them.
    """
    data = zlib.decompress(data)
    header_end = 4 + _LENGTH.unpack_from(data, 0)[0]
    header: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in json.loads(data[4:header_end]).items()
    }
    body_start = header_end + 4 + _LENGTH.unpack_from(data, header_end)[0]
    kind = _KINDS[header.pop("kind")]
    if kind is model.LoadReport:
        numbers, names = header["figures"], header.pop("names")
        header["figures"] = None if numbers is None else figures_from_list(numbers)
        header["bundles"] = None if names is None else _bundle_stats(names, data[body_start:])
    elif kind is model.OutcomeReport:
        outcome = header["outcome"]
        # Versions before the cost of a move was measured left it out.
        outcome["cost"] = MoveCost(**outcome.get("cost", {}))
        header["outcome"] = model.Outcome(**outcome)
    return kind(**header, origin=data[header_end + 4 : body_start])


def figures_to_list(figures: model.Figures) -> list[float | None]:
    """Returns 18 numbers: usage and limit of the five resources, four traffic totals, the number of
    bundles, and three that only reports of the extensible load manager have.
    """
    return list(_NUMBERS(figures))


def figures_from_list(numbers: Sequence[Any]) -> model.Figures:
    """Returns the figures of 18 numbers: the inverse of `figures_to_list`."""
    cpu, cpus, memory, memories, direct, directs, inbound, inbounds, outbound, outbounds = numbers[
        :10
    ]
    return model.Figures(
        model.Resource(cpu, cpus),
        model.Resource(memory, memories),
        model.Resource(direct, directs),
        model.Resource(inbound, inbounds),
        model.Resource(outbound, outbounds),
        model.Traffic(*numbers[10:14]),
        *numbers[14:18],
    )


def _bundle_stats(names: tuple[str, ...], body: bytes) -> model.BundleStats:
    n = len(names)
    traffic = np.frombuffer(body, dtype=np.float64, count=4 * n).reshape(n, 4)
    counts = np.frombuffer(body, dtype=np.int64, count=2 * n, offset=32 * n)
    return model.BundleStats(names, traffic, counts[:n], counts[n:])
