"""Reads what is of use in a report that does not fit its contract: a figure that cannot be used is
left out by name, and a whole number may be written with a point.

Runs only after the decoder has refused a record. It builds no value that the contract does not
name, so that a record costs no more memory than one that fits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite, nan
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from sinks.wire.contracts.execution import LARGEST_FIGURE, LARGEST_INTEGER
from sinks.wire.contracts.telemetry import (
    NOT_MEASURED,
    BrokerLoadData,
    BrokerLoadRecord,
    BrokerRecord,
    LoadReportRecord,
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    TelemetryMessage,
    TopBundle,
    TopBundlesLoadData,
    TopBundlesRecord,
    is_measured_or_not,
)
from sinks.wire.names_and_times import check_utf8, quoted
from sinks.wire.nan_and_whole_numbers import NOT_A_NUMBER, with_plain_numbers
from strategies.cluster.model import LARGEST_TIME
from strategies.ordered_sum import ordered_sum

_RESOURCES = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
#: By the first of which a broker's own average is replaced that cannot be used.
_WEIGHTED = ("cpu", "bandwidthIn", "bandwidthOut")
_TRAFFIC = ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut")
_COUNTS = ("consumerCount", "producerCount", "topics")
#: The field with the figures of bundles.
TABLE = "lastStats"
#: The shortest name of a bundle, `t/n/0x00000000_0x80000000`: shorter ones are cheaper to write
#: than to keep.
_SHORTEST_NAME = 25
#: Longest integer that is read as one; longer ones are beyond every bound.
_LONGEST = 40
_MISSING, _NO_SCALAR = object(), object()


@dataclass(frozen=True, slots=True)
class Mended:
    """A record as its contract means it. `left_out`: name of a field → what is wrong with it, as a
    sentence.
    """

    message: TelemetryMessage
    left_out: Mapping[str, str]


class _UnparsedReport(BrokerRecord, frozen=True):
    """Any report; its fields are not parsed."""

    kind: Literal["load-report", "broker-load-data", "top-bundles-load-data"]
    report: Raw


class _UnparsedEntry(Struct):
    """A `TopBundle` with any figures."""

    bundleName: str
    stats: Raw = Raw()


class _UnparsedList(Struct):
    topBundlesLoadData: list[_UnparsedEntry]


def _unparsed(contract: type[Struct]) -> Callable[[bytes | Raw], dict[str, Raw]]:
    """Reads the fields that a contract names as they are written, missing ones as empty. Raises
    ValueError for what is no object.
    """
    fields = [(name, Raw, Raw()) for name in contract.__struct_fields__]
    decoder = msgspec.json.Decoder(msgspec.defstruct(contract.__name__, fields))
    return lambda value: msgspec.structs.asdict(decoder.decode(value))


_CONTRACT = msgspec.json.Decoder(TelemetryMessage)
_REPORT = msgspec.json.Decoder(_UnparsedReport)
_ROWS = msgspec.json.Decoder(dict[Annotated[str, Meta(min_length=_SHORTEST_NAME)], Raw])
_ROW = msgspec.json.Decoder(NamespaceBundleStats)
_TOP_BUNDLES = msgspec.json.Decoder(_UnparsedList)
_NAMES = msgspec.json.Decoder(list[str])
_of_load_report = _unparsed(LocalBrokerData)
_of_broker_load = _unparsed(BrokerLoadData)
_of_resource = _unparsed(ResourceUsage)
_of_row = _unparsed(NamespaceBundleStats)


def mended(value: bytes) -> Mended | None:
    """The record without what cannot be used of it; None where that leaves nothing."""
    try:
        check_utf8(value)
        plain = with_plain_numbers(value)
        return _mended_report(plain) or Mended(_CONTRACT.decode(plain), {})
    except (ValueError, RecursionError):
        return None


def _mended_report(plain: bytearray) -> Mended | None:
    """The report without figures that cannot be used; None if there are none, and for any other
    record. Raises ValueError where nothing of use is left.
    """
    try:
        said = _REPORT.decode(plain)
    except msgspec.ValidationError:
        return None
    if bytes(said.report) == b"null":
        return None
    left_out = dict[str, str]()
    record, mend = _KINDS[said.kind]
    report = mend(said.report, left_out)
    message = record(said.v, said.cluster, said.broker, said.ts, report)
    return Mended(message, left_out) if left_out else None


def _load_report(said: Raw, left_out: dict[str, str]) -> LocalBrokerData:
    fields = _of_load_report(said)
    rows, table = dict[str, NamespaceBundleStats](), fields[TABLE]
    if bytes(table).startswith(b"{"):
        rows = _mended_rows(_ROWS.decode(table), left_out)
    else:
        left_out[TABLE] = f"{TABLE} {_shown(_scalar(table))}"
    names = _names(fields["bundles"], left_out)
    started = _optional(fields, "startTimestamp", _is_integer, left_out)
    figures, of_use = _broker_figures(fields, rows, left_out)
    if not of_use and TABLE in left_out:
        raise ValueError("nothing is of use")
    return LocalBrokerData(**figures, lastStats=rows, bundles=names, startTimestamp=started)


def _names(listed: Raw, left_out: dict[str, str]) -> list[str] | None:
    said = _scalar(listed)
    if said is None or said is _MISSING:
        return None
    try:
        return _NAMES.decode(listed)
    except msgspec.ValidationError:
        left_out["bundles"] = f"bundles {_shown(said)}"
        return None


def _broker_load(said: Raw, left_out: dict[str, str]) -> BrokerLoadData:
    fields = _of_broker_load(said)
    figures, of_use = _broker_figures(fields, {}, left_out)
    if not of_use:
        raise ValueError("nothing is of use")
    count = _scalar(fields["bundleCount"])
    if not _is_count(count):
        left_out["bundleCount"] = f"bundleCount {_shown(count)}"
        count = 0
    average = _optional(fields, "weightedMaxEMA", _is_figure, left_out)
    if "weightedMaxEMA" in left_out:
        average = max(_share(figures[name]) for name in _WEIGHTED)
    return BrokerLoadData(
        **figures,
        bundleCount=count,
        weightedMaxEMA=average,
        msgThroughputEMA=_optional(fields, "msgThroughputEMA", _is_figure, left_out),
        updatedAt=_optional(fields, "updatedAt", _is_time, left_out),
    )


def _top_bundles(said: Raw, left_out: dict[str, str]) -> TopBundlesLoadData:
    entries = _TOP_BUNDLES.decode(said).topBundlesLoadData
    rows = _mended_rows({one.bundleName: one.stats for one in entries}, left_out)
    return TopBundlesLoadData([TopBundle(one.bundleName, rows[one.bundleName]) for one in entries])


#: By kind: the record of the contract, and what mends its report.
_KINDS: Mapping[str, tuple[Callable[..., TelemetryMessage], Callable[..., object]]] = {
    "load-report": (LoadReportRecord, _load_report),
    "broker-load-data": (BrokerLoadRecord, _broker_load),
    "top-bundles-load-data": (TopBundlesRecord, _top_bundles),
}


def _broker_figures(
    fields: Mapping[str, Raw],
    rows: Mapping[str, NamespaceBundleStats],
    left_out: dict[str, str],
) -> tuple[dict[str, Any], bool]:
    """Resources and traffic, and whether any of them could be used. Traffic that cannot be used is
    that of the bundles.
    """
    figures, of_use = dict[str, Any](), False
    for name in _RESOURCES:
        figures[name], wrong = _resource(fields[name])
        if wrong:
            left_out[name] = f"{name}{wrong}"
        else:
            of_use = True
    for name in _TRAFFIC:
        figures[name] = _scalar(fields[name])
        if _is_figure(figures[name]):
            of_use = True
        else:
            left_out[name] = f"{name} {_shown(figures[name])}"
            figures[name] = ordered_sum(getattr(row, name) for row in rows.values())
    return figures, of_use


def _resource(written: Raw) -> tuple[ResourceUsage, str]:
    """Usage and limit, and what is wrong with them; nothing: empty."""
    not_measured = ResourceUsage(NOT_MEASURED, NOT_MEASURED)
    said = _scalar(written)
    if said is not _NO_SCALAR:
        return not_measured, f" {_shown(said)}"
    try:
        fields = _of_resource(written)
    except msgspec.ValidationError:
        return not_measured, f" {_shown(said)}"
    usage, limit = _scalar(fields["usage"]), _scalar(fields["limit"])
    for part, figure in (("usage", usage), ("limit", limit)):
        if not _is_number(figure):
            return not_measured, f".{part} {_shown(figure)}"
    if is_measured_or_not(usage, limit):
        return ResourceUsage(usage, limit), ""
    wrong = f".limit {_shown(limit)}" if _is_figure(usage) else f".usage {_shown(usage)}"
    return not_measured, wrong


def _mended_rows(
    rows: Mapping[str, Raw], left_out: dict[str, str]
) -> dict[str, NamespaceBundleStats]:
    """The figures of bundles: one whose traffic cannot be used counts as idle, so it does not
    move.
    """
    stats, first, count = dict[str, NamespaceBundleStats](), "", 0
    for bundle, row in rows.items():
        stats[bundle], wrong = _row(row)
        if wrong:
            first = first or f"bundle {quoted(bundle)}: {wrong}"
            count += 1
    if count:
        left_out["bundle"] = first + (f", and {count - 1:,} more bundles" if count > 1 else "")
    return stats


def _row(written: Raw) -> tuple[NamespaceBundleStats, str]:
    """The figures of a bundle, and what is wrong with them; nothing: empty."""
    try:
        return _ROW.decode(written), ""
    except ValueError:
        pass
    try:
        said = {name: _scalar(field) for name, field in _of_row(written).items()}
    except ValueError:
        said = dict.fromkeys((*_TRAFFIC, *_COUNTS), _MISSING)
    bad = [name for name in _TRAFFIC if not _is_figure(said[name])]
    counts = [name for name in _COUNTS if not _is_count(said[name])]
    idle = dict.fromkeys(_TRAFFIC if bad else (), 0.0)
    stats: dict[str, Any] = {**said, **idle, **dict.fromkeys(counts, 0)}
    first = (*bad, *counts)[0]
    return NamespaceBundleStats(**stats), f"{first} {_shown(said[first])}"


def _optional(
    fields: Mapping[str, Raw],
    name: str,
    is_legal: Callable[[Any], bool],
    left_out: dict[str, str],
) -> Any:
    """A field that a report may lack; None if it cannot be used."""
    said = _scalar(fields[name])
    if said is None or said is _MISSING:
        return None
    if is_legal(said):
        return said
    left_out[name] = f"{name} {_shown(said)}"
    return None


def _scalar(written: Raw) -> Any:
    """Text, number, truth or null; objects and arrays are not built."""
    text = bytes(written)
    if not text:
        return _MISSING
    if text[:1] in b"{[":
        return _NO_SCALAR
    if text[:1] in b'"tfn':
        return msgspec.json.decode(text)
    if text == NOT_A_NUMBER:
        return nan
    is_short = len(text) <= _LONGEST and text.removeprefix(b"-").isdigit()
    return int(text) if is_short else float(text)


def _share(resource: ResourceUsage) -> float:
    return resource.usage / resource.limit if resource.limit > 0 else 0.0


def _is_integer(said: object) -> bool:
    return isinstance(said, int) and not isinstance(said, bool)


def _is_number(said: object) -> bool:
    return isinstance(said, int | float) and not isinstance(said, bool) and isfinite(said)


def _is_figure(said: Any) -> bool:
    return _is_number(said) and bool(0 <= said < LARGEST_FIGURE)


def _is_count(said: Any) -> bool:
    return _is_integer(said) and 0 <= said <= LARGEST_INTEGER


def _is_time(said: Any) -> bool:
    return _is_integer(said) and 0 <= said <= LARGEST_TIME


def _shown(said: object) -> str:
    """`is missing`, `is "NaN"`, `is -5`."""
    if said is _MISSING:
        return "is missing"
    if said is None:
        return "is null"
    if isinstance(said, str):
        return f"is {quoted(said)}"
    if isinstance(said, int | float) and not isinstance(said, bool):
        return f"is {float(said):g}"
    return "is no number"
