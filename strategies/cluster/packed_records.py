"""Packs decoded records as bytes, for exchange between processes and for the records that the
engine keeps.

Layout: 4-byte length, JSON header, 4-byte length, origin; of load reports with bundles also
float64[n, 4] and 2 × int64[n]. Lengths are little-endian.
"""

import json
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from strategies.cluster import model
from strategies.cluster.intent_records_and_states import Intent
from strategies.cluster.move_cost import NOT_MEASURED, MoveCost
from strategies.errors import ContractError

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


@dataclass(frozen=True, slots=True)
class EarlyRecord:
    """A record from the log's start, which the cluster's state holds until the first round."""

    #: Time of the record.
    ts: int
    #: See `compress_record`.
    compressed: bytes
    #: It is too far from the cluster's time, and therefore not folded.
    far: bool

    @staticmethod
    def of(record: model.TelemetryRecord, far: bool) -> "EarlyRecord":
        """Compresses a record."""
        return EarlyRecord(record.ts, compress_record(record), far)

    @property
    def record(self) -> model.TelemetryRecord:
        """The record: the inverse of `of`."""
        return decompress_record(self.compressed)


def pack_record(record: model.TelemetryRecord) -> bytes:
    """Packs a record, origin included; equal records give equal bytes. Raises ContractError for an
    unknown type.
    """
    header, body = _header(record)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return b"".join(
        (_LENGTH.pack(len(text)), text, _LENGTH.pack(len(record.origin)), record.origin, body)
    )


def unpack_record(data: bytes) -> model.TelemetryRecord:
    """Unpacks a record: the inverse of `pack_record`."""
    header_end = 4 + _LENGTH.unpack_from(data, 0)[0]
    header = json.loads(data[4:header_end])
    body_start = header_end + 4 + _LENGTH.unpack_from(data, header_end)[0]
    origin = data[header_end + 4 : body_start]
    return replace(_READERS[header.pop("kind")](header, data[body_start:]), origin=origin)


def compress_record(record: model.TelemetryRecord) -> bytes:
    """Packs a record in the form in which a cluster's state keeps it (zlib)."""
    return zlib.compress(pack_record(record), 1)


def decompress_record(data: bytes) -> model.TelemetryRecord:
    """Unpacks a record of a state: the inverse of `compress_record`."""
    return unpack_record(zlib.decompress(data))


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


def _header(record: model.TelemetryRecord) -> tuple[dict[str, Any], bytes]:
    head: dict[str, Any] = {
        "kind": type(record).__name__,
        "cluster": record.cluster,
        "ts": record.ts,
    }
    match record:
        case model.LoadReport():
            head |= {"broker": record.broker, "digest": record.digest}
            head["figures"] = None if record.figures is None else figures_to_list(record.figures)
            head |= {
                name: value
                for name in ("started_ms", "left_out")
                if (value := getattr(record, name)) not in (None, ())
            }
            stats = record.bundles
            head["names"] = None if stats is None else stats.names
            return (
                head,
                b""
                if stats is None
                else stats.traffic.tobytes() + stats.topics.tobytes() + stats.sessions.tobytes(),
            )
        case model.Tombstone():
            head["broker"] = record.broker
        case model.Sweep():
            head |= {
                "sweep": record.sweep,
                "brokers": record.brokers,
                "missing": dict(record.missing),
                **{
                    name: value
                    for name in ("answering", "leader", "shedding")
                    if (value := getattr(record, name)) not in (None, ())
                },
            }
        case model.OutcomeReport():
            head["outcome"] = _outcome_tree(record.outcome)
        case model.Policies():
            head["snapshot"] = record.snapshot
        case model.Owned():
            head |= {"broker": record.broker, "bundles": record.bundles}
        case Intent():
            head |= asdict(replace(record, origin=b""))
            del head["origin"]
        case model.Note():
            pass
        case _:
            raise ContractError(
                f"no packing for records of type {type(record).__name__}: please report this"
            )
    return head, b""


def _load_report(header: dict[str, Any], body: bytes) -> model.LoadReport:
    figures = None if header["figures"] is None else figures_from_list(header["figures"])
    stats = None if header["names"] is None else _bundle_stats(tuple(header["names"]), body)
    return model.LoadReport(
        header["cluster"],
        header["broker"],
        header["ts"],
        figures,
        stats,
        header["digest"],
        started_ms=header.get("started_ms"),
        left_out=tuple(header.get("left_out", ())),
    )


def _bundle_stats(names: tuple[str, ...], body: bytes) -> model.BundleStats:
    n = len(names)
    traffic = np.frombuffer(body, dtype=np.float64, count=4 * n).reshape(n, 4)
    counts = np.frombuffer(body, dtype=np.int64, count=2 * n, offset=32 * n)
    return model.BundleStats(names, traffic, counts[:n], counts[n:])


def _sweep(header: dict[str, Any], _body: bytes) -> model.Sweep:
    return model.Sweep(
        header["cluster"],
        header["ts"],
        header["sweep"],
        tuple(header["brokers"]),
        header["missing"],
        answering=tuple(header.get("answering", ())),
        leader=header.get("leader"),
        shedding=header.get("shedding"),
    )


def _outcome(header: dict[str, Any], _body: bytes) -> model.OutcomeReport:
    values = dict(header["outcome"])
    cost = MoveCost(**values.pop("cost", {}))
    return model.OutcomeReport(header["cluster"], header["ts"], model.Outcome(**values, cost=cost))


def _outcome_tree(outcome: model.Outcome) -> dict[str, Any]:
    tree = asdict(outcome)
    if outcome.cost == NOT_MEASURED:
        del tree["cost"]  # as in versions before it
    return tree


def _intent(header: dict[str, Any], _body: bytes) -> Intent:
    lists = {name: tuple(header.get(name, ())) for name in ("brokers", "positions")}
    return Intent(**{**header, **lists})


_READERS: dict[str, Callable[[dict[str, Any], bytes], model.TelemetryRecord]] = {
    "LoadReport": _load_report,
    "Tombstone": lambda header, _body: model.Tombstone(**header),
    "Sweep": _sweep,
    "OutcomeReport": _outcome,
    "Policies": lambda header, _body: model.Policies(**header),
    "Intent": _intent,
    "Owned": lambda header, _body: model.Owned(**{**header, "bundles": tuple(header["bundles"])}),
    "Note": lambda header, _body: model.Note(**header),
}
