"""Explains why a record cannot be decoded: reason code, the field's path, and the next step.

Runs only after msgspec refused a record: its messages name neither the bundle nor the next step, so
the record is parsed a second time, more slowly. Every text depends on the record alone, because a
replay must produce the same rejected rows. Memory and time are linear in the record's size: the
paths of values are not stored, and no text quotes more than one line.
"""

import json
import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sinks.wire.contracts.execution import CommandRecord
from sinks.wire.contracts.telemetry import PoliciesRecord
from sinks.wire.json_paths import (
    HALF_A_CHARACTER,
    Steps,
    leaves,
    path_of,
    steps_in,
    value_at,
)
from sinks.wire.names_and_times import MILLISECONDS, check_time, check_utf8, quoted, too_deep
from strategies.errors import WireError

_MISSING = re.compile(r"missing required field `([^`]*)`")
_EXPECTED = re.compile(r"Expected `([^`]*)`")
#: Without one of these in its bytes, a record holds no NaN, no infinity and no unpaired surrogate.
_SUSPICIOUS = re.compile(rb"NaN|Infinity|\\u[dD]")
_TYPES = {
    str: "a string",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    list: "an array",
    dict: "an object",
    type(None): "null",
}
#: The same by the decoder's names.
_EXPECTED_TYPES = {
    **{kind.__name__: said for kind, said in _TYPES.items()},
    "array": "an array",
    "object": "an object",
}
_EMPTY = {"cluster": "cluster-empty", "broker": "broker-empty"}
#: Fields whose content the contract leaves open; nothing in them is refused.
_OPEN: Mapping[type[Any], str] = {PoliciesRecord: "report", CommandRecord: "limits"}
#: The decoder's message may quote the record; it is cut to this number of characters.
_LONGEST_QUOTE = 200

#: Fields by name; their values are checked and not built.
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])

#: A type of the contract, or one type per kind of record.
Contract = type[Any] | Mapping[str, type[Any]]


@dataclass(frozen=True, slots=True)
class _NoNumber:
    """NaN or Infinity: not legal in JSON, but written by many programs."""

    text: str


def complaint(value: bytes, contract: Contract, decoder_message: str) -> WireError:
    """The error for a record that the decoder refused. `decoder_message`: the decoder's own
    message.
    """
    try:
        tree = _known_fields(value, contract)
        if tree is None:
            tree = _read(value)
            if _SUSPICIOUS.search(value):
                _check_characters(tree)
        _check_version(tree)
        if isinstance(contract, Mapping):
            _check_kind(tree, contract, value)
        _check_fields(tree, contract[tree["kind"]] if isinstance(contract, Mapping) else contract)
        return _unexplained(_read(value), decoder_message)
    except WireError as error:
        return error
    except RecursionError:
        return too_deep()


def _known_fields(value: bytes, contract: Contract) -> dict[str, Any] | None:
    """The record without fields that no contract names, which may be nearly all of it; None where
    the whole record has to be read.
    """
    if _SUSPICIOUS.search(value):
        return None
    types = contract.values() if isinstance(contract, Mapping) else (contract,)
    known = [("v", "kind"), *(one.__struct_fields__ for one in types)]
    try:
        check_utf8(value)
        return {
            name: _parse(bytes(raw))
            for name, raw in _FIELDS.decode(value).items()
            if any(name in fields for fields in known)
        }
    except (ValueError, RecursionError):
        return None


def _read(value: bytes) -> dict[str, Any]:
    try:
        tree = _parse(value)
    except UnicodeDecodeError as error:
        raise WireError(
            "not-utf8", f"Byte {error.start} of the record is not UTF-8; write records in UTF-8."
        ) from None
    except json.JSONDecodeError as error:
        raise WireError(
            "not-json",
            f"The record is not JSON: {_hint(error)}; write one JSON object per line, in UTF-8.",
        ) from None
    if not isinstance(tree, dict):
        how = ", as `jq -c '.[]'` does" if isinstance(tree, list) else ""
        raise WireError(
            "not-object",
            f"The record is {_TYPES.get(type(tree), 'no number')}, not an object; write one "
            f"JSON object per line{how}.",
        )
    return tree


def _parse(value: bytes) -> Any:
    return json.loads(value.decode(), parse_constant=_NoNumber, parse_int=_integer)


def _hint(error: json.JSONDecodeError) -> str:
    if error.doc.startswith("\ufeff"):
        return "it begins with a byte order mark"
    if error.doc.strip() in ("{", "[", "[{"):
        return "it is the beginning of JSON that takes several lines (`jq -c .` joins them)"
    if error.pos >= len(error.doc.rstrip()):
        return (
            "it is empty"
            if not error.doc.strip()
            else f"it ends too early, after {error.pos} characters"
        )
    return f"{error.msg.removesuffix(' at')} (character {error.pos})"


def _unexplained(tree: dict[str, Any], decoder_message: str) -> WireError:
    """For a record that fits the contract and is refused: an infinite number in an open field, or a
    key that occurs twice.
    """
    for steps, leaf, _ in leaves(tree):
        if isinstance(leaf, float) and not math.isfinite(leaf):
            return _out_of_range(path_of(steps), leaf)
    if len(decoder_message) > _LONGEST_QUOTE:
        decoder_message = f"{decoder_message[:_LONGEST_QUOTE]}…"
    return WireError(
        "not-json",
        f"The record is not JSON as its contract means it ({decoder_message}); write every "
        "key of an object once.",
    )


def _integer(digits: str) -> int | float:
    """A number of 400 digits or more as a float: int() refuses thousands of digits, and such a
    number is out of range anyway.
    """
    return int(digits) if len(digits) < 400 else float(digits)


def _check_characters(tree: dict[str, Any]) -> None:
    """Refuses values that JSON cannot hold. Runs before the version check, which must not report
    the fields of a later version.
    """
    for steps, leaf, halved in leaves(tree):
        if isinstance(leaf, _NoNumber):
            raise WireError(
                "not-finite",
                f"{path_of(steps)} is {leaf.text}, which is no JSON number; leave the record "
                "out or send a figure.",
            )
        if halved or (isinstance(leaf, str) and HALF_A_CHARACTER.search(leaf)):
            raise WireError(
                "not-utf8",
                f"{path_of(steps)} holds half of a surrogate pair; write whole characters.",
            )


def _check_version(tree: dict[str, Any]) -> None:
    version = tree.get("v", 1)
    if isinstance(version, bool) or not isinstance(version, int):
        raise _wrong_type("$.v", version, "an integer")
    if version != 1:
        raise WireError(
            "unknown-version",
            f"$.v is {_number(version)}, and this program knows version 1 only; update it, or "
            "send version 1.",
        )


def _check_kind(tree: dict[str, Any], contract: Mapping[str, type[Any]], value: bytes) -> None:
    if "kind" not in tree:
        # A field of every load report.
        if b'"bandwidthIn"' not in value or "report" in tree:
            raise _missing("$.kind")
        raise WireError(
            "missing-field",
            "The record is a bare load report, as a broker answers it: $.kind, $.cluster, $.broker "
            "and $.ts are missing, and the report belongs into $.report; write it so, as "
            "`rebalancer collect` does.",
        )
    kind = tree["kind"]
    if not isinstance(kind, str):
        raise _wrong_type("$.kind", kind, "a string")
    if kind not in contract:
        raise WireError(
            "unknown-kind",
            f"$.kind is {quoted(kind)}; known are {', '.join(contract)}. Update this program, or "
            "do not send that kind to it.",
        )


def _check_fields(tree: dict[str, Any], expected: type[Any]) -> None:
    """Raises WireError for the first field that is wrong. Where the decoder only says "some entry
    of this object", finds the entry.
    """
    open_field = _OPEN.get(expected)
    if open_field is not None and isinstance(tree.get(open_field), dict):
        tree = tree | {open_field: {}}
    message = _refusal(tree, expected)
    if message is None:
        return
    steps = steps_in(message)
    if "..." in steps:
        at = steps.index("...")
        key, message = _first_refused(tree, expected, steps[:at], message)
        steps = (*steps[:at], key, *steps_in(message)[at + 1 :])
    raise _judge(tree, steps, message)


def _refusal(tree: dict[str, Any], expected: type[Any]) -> str | None:
    try:
        msgspec.convert(tree, expected)
    except msgspec.ValidationError as error:
        return str(error)
    return None


def _first_refused(
    tree: dict[str, Any], expected: type[Any], steps: Steps, message: str
) -> tuple[str, str]:
    """The key of the refused entry and the decoder's message about it alone; `tree` keeps only that
    entry.

    Bisects the entries, so that the number of decoder calls grows with the logarithm of their
    number.
    """
    holder, above = value_at(tree, steps), value_at(tree, steps[:-1])
    entries = list(holder.items())

    def refusal(some: Sequence[tuple[str, Any]]) -> str | None:
        above[steps[-1]] = dict(some)
        decoder_message = _refusal(tree, expected)
        return (
            decoder_message
            if decoder_message is not None
            and steps_in(decoder_message)[: len(steps) + 1] == (*steps, "...")
            else None
        )

    first = bisect_left(
        range(1, len(entries)), True, key=lambda count: refusal(entries[:count]) is not None
    )
    return entries[first][0], refusal([entries[first]]) or message


def _judge(tree: dict[str, Any], steps: Steps, message: str) -> WireError:
    if missing := _MISSING.search(message):
        return _missing(path_of((*steps, missing[1])))
    value, place = value_at(tree, steps), path_of(steps)
    if place == "$.ts" and isinstance(value, int | float):
        check_time(value)
    expected = _EXPECTED.search(message)
    if expected is None:
        return WireError(
            "unknown-value",
            f"{place} is {_shown(value)}, which the contract does not know; see docs/schemas "
            "for what it allows.",
        )
    numeric = "float" in expected[1] or "int" in expected[1]
    if isinstance(value, str) and numeric and value in ("NaN", "Infinity", "-Infinity"):
        return WireError(
            "not-finite",
            f"{place} is {quoted(value)}, no figure; leave the record out until the broker "
            "has measured one.",
        )
    if (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and numeric
        and " " in message[expected.end() :].partition(" - at ")[0]
    ):
        return _out_of_range(place, value)
    if isinstance(value, str) and "length" in message:
        return _bad_length(place, value, steps)
    if isinstance(value, float) and math.isinf(value):
        return _out_of_range(place, value)
    return _wrong_type(place, value, _EXPECTED_TYPES.get(expected[1].split(" | ")[0], expected[1]))


def _out_of_range(place: str, value: float) -> WireError:
    if value < 0:
        return WireError(
            "negative",
            f"{place} is {_number(value)}, below 0; leave the record out until its figures "
            "are right.",
        )
    return WireError(
        "out-of-range",
        f"{place} is {_number(value)}, more than any real figure; leave the record out until "
        "its figures are right.",
    )


def _bad_length(place: str, value: str, steps: Steps) -> WireError:
    if not value:
        return WireError(_EMPTY.get(str(steps[-1]), "empty"), f"{place} is empty; name it.")
    return WireError(
        "too-long", f"{place} is {len(value)} characters long; names of at most 512 are accepted."
    )


def _wrong_type(place: str, value: Any, expected: str) -> WireError:
    how = MILLISECONDS if place == "$.ts" else "write it as docs/schemas describes it"
    return WireError(
        "wrong-type",
        f"{place} is {_TYPES.get(type(value), 'no value')} where {expected} belongs; {how}.",
    )


def _missing(place: str) -> WireError:
    return WireError(
        "missing-field",
        f"{place} is missing; send it, docs/schemas names every field of the contract.",
    )


def _shown(value: Any) -> str:
    return (
        quoted(value)
        if isinstance(value, str)
        else _number(value)
        if isinstance(value, (int, float))
        else _TYPES.get(type(value), "no value")
    )


def _number(value: float) -> str:
    """The number, shortened where it has more than 30 characters: an integer may have thousands of
    digits.
    """
    if value in (math.inf, -math.inf):
        return f"{'-' if value < 0 else ''}1.8e308 or more"
    text = str(value)
    return text if len(text) <= 30 else f"{text[:24]}… ({len(text)} digits)"
