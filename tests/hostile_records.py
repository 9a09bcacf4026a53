"""Records made to cost their reader memory or time: deep, wide, long, full of keys, numbers or
escapes; refused in many ways.

A hostile record is a legal load report with one costly value, and one fault that makes the decoder
refuse it. Both are drawn by a seeded generator; the fault is before or behind the value, so that
the reader meets it early or late.
"""

import random
from collections.abc import Callable, Iterator, Mapping

from tests.telemetry_lines import bundle, line, load_report

Costly = Callable[[int], bytes]


def _filled(begin: bytes, item: bytes, end: bytes) -> Costly:
    return lambda size: begin + item * max(1, size // len(item)) + end


def _joined(begin: bytes, item: bytes, end: bytes) -> Costly:
    return lambda size: begin + b",".join([item] * max(1, size // (len(item) + 1))) + end


def _wide(item: bytes) -> Costly:
    return _joined(b"[", item, b"]")


def _deep_and_wide(size: int) -> bytes:
    """A comb: arrays in arrays, and as many leaves at the deepest place as fit."""
    levels = 380
    leaves = _joined(b'{"a":[' * (levels // 2), b"0", b"]}" * (levels // 2))
    return leaves(size - 5 * levels)


def _distinct(begin: bytes, item: bytes, end: bytes) -> Costly:
    """As many items with numbers as fit when each takes its hexadecimal digits."""

    def made(size: int) -> bytes:
        digits = len(f"{size // 8:x}")
        count = max(1, size // (digits + len(item) - 1))
        return begin + b",".join(item % number for number in range(count)) + end

    return made


def _bundles(size: int) -> bytes:
    """Names that a table of bundles may have, without any figures."""
    names = (b'"t/n/0x%08x_0x100000000":0' % number for number in range(max(1, size // 32)))
    return b"{" + b",".join(names) + b"}"


#: By name: a value of about `size` bytes. One character beyond 16 bits makes Python keep four bytes
#: for each of the others.
COSTLY: Mapping[str, Costly] = {
    "deep-and-wide": _deep_and_wide,
    "towers": _wide(b"[" * 380 + b"]" * 380),
    "empty-arrays": _wide(b"[]"),
    "empty-objects": _wide(b"{}"),
    "small-arrays": _wide(b"[0]"),
    "small-objects": _wide(b'{"a":0}'),
    "numbers": _wide(b"300"),
    "fractions": _wide(b"1.5"),
    "short-strings": _distinct(b"[", b'"%x"', b"]"),
    "distinct-keys": _distinct(b"{", b'"%x":0', b"}"),
    "repeated-keys": _joined(b"{", b'"a":[]', b"}"),
    "bundles": _bundles,
    "long-string": _filled(b'"', b"x", b'"'),
    "wide-character": _filled('"😀'.encode(), b"x", b'"'),
    "short-wide-strings": _wide('"😀"'.encode()),
    "escapes": _filled(b'"', b'\\\\\\"\\u0041', b'"'),
    "json-in-json": _filled(b'"', b'{\\"a\\":[', b'"'),
    "brackets-in-strings": _filled(b'"', b"[{", b'"'),
    "long-key": _filled(b'{"', b"k", b'":0}'),
    "huge-number": _filled(b"", b"9", b""),
    "huge-numbers": _wide(b"7" * 4_000),
    "long-fraction": _filled(b"0.", b"3", b""),
}

#: By name: what is wrong with the record; a field to replace in the envelope, or bytes to put at
#: its end.
_FIELDS: Mapping[str, tuple[bytes, bytes]] = {
    "no-kind": (b'"kind":"load-report",', b""),
    "unknown-kind": (b'"kind":"load-report"', b'"kind":"hostile"'),
    "later-version": (b'"v":1', b'"v":99'),
    "no-broker": (b'"broker":"b1:8080",', b""),
    "wrong-figure": (b'"usage":50.0', b'"usage":"high"'),
    "not-finite": (b'"usage":50.0', b'"usage":NaN'),
    "wrong-bundle": (bundle(1).encode(), b"nowhere"),
}
_ENDS: Mapping[str, bytes] = {
    "torn": b"",
    "half-a-character": b',"end":"\\ud800"}',
    "infinite-end": b',"end":-Infinity}',
    "glued": b"}}",
}
FAULTS = (*_FIELDS, *_ENDS)


def hostile(kind: str, fault: str, size: int, *, first: bool = False) -> bytes:
    """A record that the decoder refuses; `first`: the costly value is in front of what is wrong."""
    legal, more = load_report(), b'"more":' + COSTLY[kind](size)
    if fault in _FIELDS:
        legal, end = legal.replace(*_FIELDS[fault], 1), b"}"
    else:
        end = _ENDS[fault]
    return b"{" + more + b"," + legal[1:-1] + end if first else legal[:-1] + b"," + more + end


def costly_policies(kind: str, size: int) -> bytes:
    """A policies record that the decoder accepts, unless it is too crowded."""
    return line("policies", report={"x": None})[: -len("null}}")] + COSTLY[kind](size) + b"}}"


def costly_table(kind: str, size: int) -> bytes:
    """A load report whose table of bundles is anything, and without a usage of its CPU."""
    legal = load_report(loads={}).replace(b'"usage":50.0', b'"usage":NaN', 1)
    return legal.replace(b'"lastStats":{}', b'"lastStats":' + COSTLY[kind](size))


def costly_sweep(kind: str, size: int) -> bytes:
    """A sweep whose missing brokers are anything."""
    return line("sweep", sweep=1, brokers=[])[:-1] + b',"missing":' + COSTLY[kind](size) + b"}"


def costly_command(kind: str, size: int) -> bytes:
    """A record for the control topic that is no command, its limits anything."""
    return b'{"v":1,"id":"x","limits":' + COSTLY[kind](size) + b',"cluster":"c"}'


def hostile_records(
    count: int, seed: int, largest: int = 8 * 2**20 - 2_000
) -> Iterator[tuple[str, bytes]]:
    """`count` records, each kind and fault in turn; most have some kilobytes, one of a hundred has
    up to `largest` bytes.
    """
    rng = random.Random(seed)
    kinds = list(COSTLY)
    for number in range(count):
        size = (
            largest
            if number % 400 == 399
            else int(10 ** rng.uniform(2, 6 if number % 20 == 19 else 4.5))
        )
        kind, fault = kinds[number % len(kinds)], rng.choice(FAULTS)
        yield f"{kind}/{fault}", hostile(kind, fault, min(size, largest), first=rng.random() < 0.5)
