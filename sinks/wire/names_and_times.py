"""Checks names of bundles, brokers and clusters; times, of which one in another unit than
milliseconds since 1970 is recognised; and nesting and number of JSON arrays and objects, counted in
the bytes: memory is at most three times the record.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sinks.wire.contracts.execution import LONGEST_NAME
from strategies.errors import WireError

#: Letters of any script are legal. Control characters, line breaks, marks that change the direction
#: of text, and bytes that are no text are not.
_CONTROLS = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
CONTROL = re.compile(f"[{_CONTROLS}]")
#: Two parts (three in the heartbeat namespaces of old brokers), then the range.
_PART = rf"[^/{_CONTROLS}]+"
_NAMESPACE = re.compile(rf"{_PART}/{_PART}(?:/{_PART})?")
_RANGE = re.compile(r"(0x[0-9a-fA-F]{8})_(0x[0-9a-fA-F]{8}|0x100000000)")
#: The marks around the digits of a range, the values of hexadecimal digits, and what each of eight
#: counts.
_RANGE_LENGTH = len("0xLLLLLLLL_0xUUUUUUUU")
_MARKS = np.frombuffer(b"0x_0x", np.uint8)
_DIGITS = np.full(256, 16, dtype=np.int64)
_DIGITS[list(b"0123456789abcdef")] = range(16)
_DIGITS[list(b"ABCDEF")] = range(10, 16)
_PLACES = 16 ** np.arange(7, -1, -1)
#: From this number of names on, they are checked together.
_MANY = 1_000
_BROKER = re.compile(rf"[^/\s{_CONTROLS}]+:[0-9]{{1,5}}")


def is_bundle(name: str) -> bool:
    """True if the name is tenant/namespace/range and the range's lower end is below its upper end.

    Caches the two halves, not the whole name: a large cluster has half a million bundles but few
    namespaces and ranges.
    """
    namespace, _, range_ = name.rpartition("/")
    return len(name) <= LONGEST_NAME and _is_range(range_) and _is_namespace(namespace)


@lru_cache(maxsize=2**14)
def _is_namespace(name: str) -> bool:
    return _NAMESPACE.fullmatch(name) is not None


@lru_cache(maxsize=2**14)
def _is_range(text: str) -> bool:
    match = _RANGE.fullmatch(text)
    return match is not None and int(match[1], 16) < int(match[2], 16)


def is_broker(name: str) -> bool:
    """True if the name has the form host:port; the host may use any script."""
    return len(name) <= LONGEST_NAME and _is_host_and_port(name)


@lru_cache(maxsize=2**14)
def _is_host_and_port(name: str) -> bool:
    return _BROKER.fullmatch(name) is not None


def check_bundles(names: Sequence[str], place: str) -> None:
    """Raises WireError for the first invalid bundle name. `place`: path of an entry, with {} where
    its key goes.
    """
    for name in () if _all_usual(names) else names:
        if not is_bundle(name):
            raise WireError(
                "bundle-name",
                f"{place.format(quoted(name))} is no bundle name: "
                "tenant/namespace/0xLLLLLLLL_0xUUUUUUUU is expected, with the lower end "
                "below the upper; report the name as Pulsar's admin API prints it.",
            )


def _all_usual(names: Sequence[str]) -> bool:
    """True if all of many names are legal, with ranges of the usual length: the ranges are read as
    columns of digits, which takes a tenth of the time of one by one. False means nothing.
    """
    if len(names) < _MANY or max(map(len, names)) > LONGEST_NAME:
        return False
    parts = [name.rpartition("/") for name in names]
    ranges = [range_ for _, _, range_ in parts]
    text = "".join(ranges)
    if any(len(one) != _RANGE_LENGTH for one in ranges) or not text.isascii():
        return False
    found = np.frombuffer(text.encode(), np.uint8).reshape(-1, _RANGE_LENGTH)
    lower, upper = _DIGITS[found[:, 2:10]], _DIGITS[found[:, 13:21]]
    return (
        bool((found[:, [0, 1, 10, 11, 12]] == _MARKS).all())
        and bool((lower < 16).all() and (upper < 16).all())
        and bool((lower @ _PLACES < upper @ _PLACES).all())
        and all(map(_is_namespace, dict.fromkeys(namespace for namespace, _, _ in parts)))
    )


def first_repeated(names: Iterable[str]) -> str | None:
    """The first name that was there before; None if all differ."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def check_broker(name: str, place: str) -> None:
    """Raises WireError unless the name has the form host:port."""
    if not is_broker(name):
        raise WireError(
            "broker-id",
            f"{place} is {quoted(name)}, no broker id; send host:port of the broker's web service.",
        )


def is_cluster(name: str) -> bool:
    """True if the name is printable and short enough to be a record's key."""
    return 0 < len(name) <= LONGEST_NAME and CONTROL.search(name) is None


def check_cluster(name: str) -> None:
    """Raises WireError for a name with control characters."""
    if not is_cluster(name):
        raise WireError(
            "cluster-name",
            f"$.cluster is {quoted(name)}, with control characters in it; send the plain name "
            "of the cluster.",
        )


def quoted(text: str, longest: int = 80) -> str:
    """The text in quotes, printable and cut to `longest` characters, for use in a message."""
    shown = text if len(text) <= longest else text[:longest] + "…"
    return (
        '"'
        + "".join(c if c.isprintable() and c != '"' else f"\\u{ord(c):04x}" for c in shown)
        + '"'
    )


#: What belongs there, for messages.
MILLISECONDS = "send milliseconds since 1970"
#: 2001 to 2100, in seconds.
_BEGIN, _END = 978_307_200, 4_102_444_800
#: Unit → how many of them are a second.
_UNITS = {"seconds": 1, "microseconds": 10**6, "nanoseconds": 10**9}


def other_unit(time: float) -> str:
    """The unit, if the number is a time of this century in another one; otherwise empty."""
    return next((unit for unit, per in _UNITS.items() if _BEGIN * per <= time < _END * per), "")


def check_time(ts: float) -> None:
    """Raises WireError for a time in another unit: in milliseconds, seconds are January 1970."""
    unit = other_unit(ts)
    if unit:
        right = int(ts * 1000 // _UNITS[unit])
        raise WireError(
            "out-of-range", f"$.ts is {ts}, a time in {unit}; {MILLISECONDS}, here {right}."
        )


#: No contract nests deeper. A fixed limit, because Python's own depends on the depth of the
#: caller's stack.
DEEPEST = 400
#: An array or object costs a reader 100 to 300 bytes even if it is empty: up to FEW may be short;
#: beyond that, each needs MEAN_BYTES of the record on average. A load report has one per 130 bytes.
FEW = 20_000
MEAN_BYTES = 32

_NEITHER_QUOTES_NOR_BRACKETS = bytes(set(range(256)) - set(b'"[]{}'))
_STEPS = np.zeros(256, dtype=np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
#: Bytes looked at together: what numpy makes of them takes fifteen times as much.
_PIECE = 2**18


def check_shape(value: bytes) -> None:
    """Raises WireError for a record that nests too deep or has too many arrays and objects for its
    size.
    """
    openings = value.count(b"{") + value.count(b"[")
    if openings <= DEEPEST:  # most records end here
        return
    deepest, found = _depth_and_count(value)
    if deepest > DEEPEST:
        raise too_deep()
    most = max(FEW, len(value) // MEAN_BYTES)
    if found > most:
        raise WireError(
            "too-crowded",
            f"The record has {found} arrays and objects, more than the {most} allowed for its "
            "size; write it as docs/schemas describes it.",
        )


def check_utf8(value: bytes) -> None:
    """Raises UnicodeDecodeError for bytes that are not UTF-8. Decodes pieces: a wide character
    makes Python take 4 bytes for each other.
    """
    if value.isascii():
        return
    decoder = getincrementaldecoder("utf-8")()
    for start in range(0, len(value), _PIECE):
        decoder.decode(value[start : start + _PIECE])
    decoder.decode(b"", final=True)


def too_deep() -> WireError:
    """The error for a record that nests deeper than any contract."""
    return WireError(
        "too-deep",
        "The record nests hundreds of levels deep; write it as its contract in docs/schemas "
        "describes it.",
    )


def _depth_and_count(value: bytes) -> tuple[int, int]:
    """The deepest nesting, and the number of arrays and objects."""
    depth = deepest = found = 0
    for brackets in _brackets(value):
        depths = np.cumsum(brackets, dtype=np.int32)
        deepest = max(deepest, depth + int(depths.max(initial=0)))
        depth += int(depths[-1]) if depths.size else 0
        found += int(np.count_nonzero(brackets == 1))
    return deepest, found


def _brackets(value: bytes) -> Iterator[NDArray[np.int8]]:
    """+1 per opening bracket, −1 per closing bracket, those in strings excluded; piece by piece."""
    if b"\\" in value:  # a search for one byte costs a twentieth of one for two
        value = value.replace(b"\\\\", b"").replace(b'\\"', b"")
    signs = value.translate(None, _NEITHER_QUOTES_NOR_BRACKETS)
    del value
    within = False
    for start in range(0, len(signs), _PIECE):
        marks = np.frombuffer(
            signs, dtype=np.uint8, count=min(_PIECE, len(signs) - start), offset=start
        )
        quotes = marks == ord('"')
        strings = np.logical_xor.accumulate(quotes) ^ within
        yield np.take(_STEPS, marks[~strings & ~quotes])
        within = bool(strings[-1])
