"""Reads what is of use in a report that does not fit its contract: a figure that cannot be used is
left out by name, and a whole number may be written with a point.

Runs only after the decoder has refused a record. What it returns is decoded like any other record,
so what it does not mend is refused as before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import msgspec

from sinks.wire.contracts.fields import (
    LARGEST_FIGURE,
    LARGEST_INTEGER,
    NOT_MEASURED,
    is_measured_or_not,
)
from sinks.wire.names import quoted
from strategies.model import LARGEST_TIME

_RESOURCES = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
#: By the first of which a broker's own average is replaced that cannot be used.
_WEIGHTED = ("cpu", "bandwidthIn", "bandwidthOut")
_TRAFFIC = ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut")
_COUNTS = ("consumerCount", "producerCount", "topics")
#: The field with the figures of bundles.
TABLE = "lastStats"
#: Longest number that is read as one; longer ones are beyond every bound.
_LONGEST = 40
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Mended:
    """A record that may fit its contract. `left_out`: name of a field → what is wrong with it, as a
    sentence.
    """

    value: bytes
    left_out: Mapping[str, str]


def mended(value: bytes) -> Mended | None:
    """The record without what cannot be used of it; None where that leaves nothing."""
    left_out = dict[str, str]()
    try:
        tree = _read(value)
        report, mend = tree.get("report"), _KINDS.get(str(tree.get("kind")))
        if mend is not None and isinstance(report, dict) and not mend(report, left_out):
            return None
        return Mended(msgspec.json.encode(tree), left_out)
    except (ValueError, OverflowError, RecursionError):
        return None


def _read(value: bytes) -> dict[str, Any]:
    """Raises ValueError for what is no JSON object, and where a key occurs twice."""
    tree = json.loads(
        value.decode(),
        object_pairs_hook=_once,
        parse_float=_number,
        parse_int=lambda digits: int(digits) if len(digits) <= _LONGEST else float(digits),
    )
    if not isinstance(tree, dict):
        raise ValueError("no object")
    return tree


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _number(text: str) -> float:
    """A whole number as an integer, however it is written."""
    number = float(text)
    return int(number) if number.is_integer() and abs(number) <= LARGEST_INTEGER else number


def _load_report(report: dict[str, Any], left_out: dict[str, str]) -> bool:
    """Mends a modular broker's report; whether something of use is left."""
    rows = report.get(TABLE)
    if isinstance(rows, dict):
        _mend_rows(rows, left_out)
        totals = {name: sum(row[name] for row in rows.values()) for name in _TRAFFIC}
    else:
        left_out[TABLE] = f"{TABLE} {_shown(rows if TABLE in report else _MISSING)}"
        report[TABLE], totals = {}, {}
    listed = report.get("bundles")
    if listed is not None and not _are_texts(listed):
        left_out["bundles"] = f"bundles {_shown(listed)}"
        del report["bundles"]
    _drop(report, "startTimestamp", lambda start: isinstance(start, int), left_out)
    return _broker_figures(report, totals, left_out) or TABLE not in left_out


def _broker_load(report: dict[str, Any], left_out: dict[str, str]) -> bool:
    """Mends the figures of a broker of the extensible load manager; whether some are left."""
    of_use = _broker_figures(report, {}, left_out)
    if not _is_count(report.get("bundleCount")):
        left_out["bundleCount"] = f"bundleCount {_shown(report.get('bundleCount', _MISSING))}"
        report["bundleCount"] = 0
    _drop(report, "weightedMaxEMA", _is_figure, left_out)
    if "weightedMaxEMA" in left_out:
        report["weightedMaxEMA"] = max(_share(report[name]) for name in _WEIGHTED)
    _drop(report, "msgThroughputEMA", _is_figure, left_out)
    _drop(report, "updatedAt", lambda ms: _is_count(ms) and ms <= LARGEST_TIME, left_out)
    return of_use


def _top_bundles(report: dict[str, Any], left_out: dict[str, str]) -> bool:
    """Mends the busiest bundles of a broker; False where names are missing."""
    entries = report.get("topBundlesLoadData")
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        return False
    if not _are_texts([one.get("bundleName") for one in entries]):
        return False
    rows = {one["bundleName"]: one.get("stats") for one in entries}
    _mend_rows(rows, left_out)
    for one in entries:
        one["stats"] = rows[one["bundleName"]]
    return True


_KINDS: Mapping[str, Callable[[dict[str, Any], dict[str, str]], bool]] = {
    "load-report": _load_report,
    "broker-load-data": _broker_load,
    "top-bundles-load-data": _top_bundles,
}


def _broker_figures(
    report: dict[str, Any], totals: Mapping[str, float], left_out: dict[str, str]
) -> bool:
    """Mends resources and traffic; whether any of them could be used. `totals`: traffic in place of
    what cannot be used.
    """
    of_use = False
    for name in _RESOURCES:
        wrong = _wrong_resource(report.get(name, _MISSING))
        if wrong is None:
            of_use = True
        else:
            left_out[name] = f"{name}{wrong}"
            report[name] = {"usage": NOT_MEASURED, "limit": NOT_MEASURED}
    for name in _TRAFFIC:
        if _is_figure(report.get(name)):
            of_use = True
        else:
            left_out[name] = f"{name} {_shown(report.get(name, _MISSING))}"
            report[name] = totals.get(name, 0.0)
    return of_use


def _wrong_resource(said: object) -> str | None:
    """What is wrong with usage and limit of a resource; None if nothing is."""
    if not isinstance(said, dict):
        return f" {_shown(said)}"
    for part in ("usage", "limit"):
        if not _is_number(said.get(part)):
            return f".{part} {_shown(said.get(part, _MISSING))}"
    usage, limit = said["usage"], said["limit"]
    if is_measured_or_not(usage, limit):
        return None
    return f".limit {_shown(limit)}" if _is_figure(usage) else f".usage {_shown(usage)}"


def _mend_rows(rows: dict[str, Any], left_out: dict[str, str]) -> None:
    """Mends the figures of bundles: one whose traffic cannot be used counts as idle, so it does not
    move.
    """
    wrong = dict[str, str]()
    for bundle, row in rows.items():
        given = row if isinstance(row, dict) else {}
        bad = [name for name in _TRAFFIC if not _is_figure(given.get(name))]
        counts = [name for name in _COUNTS if not _is_count(given.get(name))]
        if not (bad or counts):
            continue
        first = (*bad, *counts)[0]
        wrong[bundle] = f"{first} {_shown(given.get(first, _MISSING))}"
        idle = dict.fromkeys(_TRAFFIC if bad else (), 0.0)
        rows[bundle] = {**given, **idle, **dict.fromkeys(counts, 0)}
    if wrong:
        bundle, why = next(iter(wrong.items()))
        more = f", and {len(wrong) - 1:,} more bundles" if len(wrong) > 1 else ""
        left_out["bundle"] = f"bundle {quoted(bundle)}: {why}{more}"


def _drop(
    report: dict[str, Any],
    name: str,
    is_legal: Callable[[Any], bool],
    left_out: dict[str, str],
) -> None:
    """Removes a field that a report may lack, if it cannot be used."""
    said = report.get(name)
    if said is not None and (isinstance(said, bool) or not is_legal(said)):
        left_out[name] = f"{name} {_shown(said)}"
        del report[name]


def _share(resource: Mapping[str, float]) -> float:
    return resource["usage"] / resource["limit"] if resource["limit"] > 0 else 0.0


def _is_number(said: object) -> bool:
    return isinstance(said, int | float) and not isinstance(said, bool) and isfinite(said)


def _is_figure(said: Any) -> bool:
    return _is_number(said) and bool(0 <= said < LARGEST_FIGURE)


def _is_count(said: Any) -> bool:
    return isinstance(said, int) and _is_figure(said) and said <= LARGEST_INTEGER


def _are_texts(said: object) -> bool:
    return isinstance(said, list) and all(isinstance(one, str) for one in said)


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
