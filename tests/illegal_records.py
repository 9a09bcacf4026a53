"""Illegal telemetry made from legal lines, one function per kind of bad input, by a seeded
generator and as a hypothesis strategy.

Every maker takes a random generator and a legal load report (bytes, one JSON object) and returns
the bytes that it made of it; the kind of bad input is its name. `CODES` names, for each kind, the
codes its rejected row may carry.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence

from tests.changed_records import changed, without
from tests.telemetry_lines import dumps

Illegal = tuple[str, bytes]
Maker = Callable[[random.Random, bytes], bytes]

_RESOURCES = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
_TOTALS = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
_COUNTS = ("consumerCount", "producerCount", "topics")
_NUMBER = "@number@"
_YEAR_MS = 365 * 24 * 3600 * 1000


def not_json(rng: random.Random, line: bytes) -> bytes:
    """Torn, glued, mutilated, or no JSON to begin with."""
    cut = rng.randrange(1, len(line) - 1)
    return rng.choice(
        [
            line[:cut],
            line[cut:],
            line[:cut] + b"\x01" + line[cut:],
            line + b"," + line,
            b"",
            b"   ",
            b"load-report",
            b"{'v':1}",
        ]
    )


def not_utf8(rng: random.Random, line: bytes) -> bytes:
    """A byte that UTF-8 does not know, inside a string, so that it would be JSON otherwise."""
    cut = line.index(b'"cluster":"') + len(b'"cluster":"')
    return line[:cut] + rng.choice([b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf8"]) + line[cut:]


def not_object(rng: random.Random, line: bytes) -> bytes:
    return rng.choice(
        [b"[" + line + b"]", b"17", b'"load-report"', b"null", b"true", b"[]", b"-1.5e3"]
    )


def wrong_type(rng: random.Random, line: bytes) -> bytes:
    """A field of the envelope holds something else than it should."""
    path = rng.choice(_ENVELOPE)
    wrong: list[object] = [[], [1], True, {}, None, "many"]
    return _with(line, path, rng.choice([one for one in wrong if not _fits(path, one)]))


def missing_field(rng: random.Random, line: bytes) -> bytes:
    return without(line, *rng.choice(_ENVELOPE))


def not_finite(rng: random.Random, line: bytes) -> bytes:
    """NaN or infinite, as a token JSON does not know, or as text, which is how Jackson writes
    it.
    """
    token = rng.choice([b"NaN", b"Infinity", b"-Infinity", b'"NaN"', b'"Infinity"', b'"-Infinity"'])
    return _with_number(line, ("ts",), token)


def negative(rng: random.Random, line: bytes) -> bytes:
    token = rng.choice([b"-1", b"-12", b"-9223372036854775808"])
    return _with_number(line, ("ts",), token)


def too_big(rng: random.Random, line: bytes) -> bytes:
    """Beyond 2^63, as integer, as float, or larger than any float."""
    tokens = [b"9223372036854775809", b"18446744073709551616", b"1" + b"0" * 40, b"9" * 5000]
    return _with_number(line, ("ts",), rng.choice([*tokens, b"1e400"]))


def wrong_time(rng: random.Random, line: bytes) -> bytes:
    return _with(line, ("ts",), rng.choice([-1, 2**53 + 1, 2**63, 2**70, 1.5, "now", None, True]))


def unknown_kind(rng: random.Random, line: bytes) -> bytes:
    return _with(
        line, ("kind",), rng.choice(["load-reports", "", "LOAD-REPORT", "größe", "x" * 300])
    )


def unknown_version(rng: random.Random, line: bytes) -> bytes:
    return _with(line, ("v",), rng.choice([0, 2, 3, -1, 2**40]))


def unnamed(rng: random.Random, line: bytes) -> bytes:
    """Cluster or broker that is empty, absurdly long, not printable, or a broker without its
    port.
    """
    field = rng.choice(["cluster", "broker"])
    names = ["", "x" * 5000, "a\nb:8080", "\x1b[2J:8080"] + (
        ["broker-1", "broker-1:", ":8080", "a b:80", "b:123456"] if field == "broker" else []
    )
    return _with(line, (field,), rng.choice(names))


def bad_bundle_name(rng: random.Random, line: bytes) -> bytes:
    names = [
        "",
        "not-a-range",
        "t/ns",
        "t/ns/0x00000000",
        "t/ns/0x80000000_0x40000000",
        "t/ns/0x40000000_0x40000000",
        "t/ns/0x0000000g_0x40000000",
        "0x00000000_0x40000000",
        "t/ns/0x00000000-0x40000000",
        "t//0x00000000_0x40000000",
        "t/n\ns/0x00000000_0x40000000",
        "p/c/t/ns/0x00000000_0x40000000",
        "x" * 600 + "/ns/0x00000000_0x40000000",
    ]
    tree = json.loads(line)
    stats = tree["report"]["lastStats"]
    stats[rng.choice(names)] = dict.fromkeys((*_TOTALS, *_COUNTS), 1)
    return dumps(tree)


def broker_listed_twice(rng: random.Random, line: bytes) -> bytes:
    tree = json.loads(line)
    broker = tree["broker"]
    listed = rng.choice([([broker, "b2:8080", broker], {}), ([broker], {broker: "no answer"})])
    sweep = {
        "v": 1,
        "kind": "sweep",
        "cluster": tree["cluster"],
        "ts": tree["ts"],
        "sweep": 7,
        "brokers": listed[0],
        "missing": listed[1],
    }
    return dumps(sweep)


def too_deep(rng: random.Random, line: bytes) -> bytes:
    levels = rng.choice([500, 5_000, 100_000])
    return line[:-1] + b',"more":' + b"[" * levels + b"]" * levels + b"}"


def oversized(rng: random.Random, line: bytes, record_bytes: int) -> Illegal:
    """Legal but for its size."""
    more = bytes([rng.randrange(97, 123)]) * (record_bytes - len(line))
    return "oversized", line[:-1] + b',"more":"' + more + b'"}'


def out_of_order(rng: random.Random, line: bytes) -> bytes:
    """A report that is older than the original; put it after that."""
    return _with(line, ("ts",), json.loads(line)["ts"] - rng.randrange(1, 1000))


def from_the_future(rng: random.Random, line: bytes) -> bytes:
    """Years ahead, and no two alike, so that nobody can take them for a clock that was set."""
    return _with(line, ("ts",), json.loads(line)["ts"] + rng.randrange(_YEAR_MS, 100 * _YEAR_MS))


#: Kinds whose records no decoder accepts, whatever came before them.
UNDECODABLE: tuple[Maker, ...] = (
    not_json,
    not_utf8,
    not_object,
    wrong_type,
    missing_field,
    not_finite,
    negative,
    too_big,
    wrong_time,
    unknown_kind,
    unknown_version,
    unnamed,
    bad_bundle_name,
    broker_listed_twice,
    too_deep,
)
#: Kinds that are illegal only because of what came before them.
UNTIMELY: tuple[Maker, ...] = (out_of_order, from_the_future)
MAKERS: tuple[Maker, ...] = (*UNDECODABLE, *UNTIMELY)


def _kind(maker: Maker) -> str:
    return maker.__name__.replace("_", "-")


CODES: dict[str, frozenset[str]] = {
    **{_kind(maker): frozenset({_kind(maker)}) for maker in MAKERS},
    "not-json": frozenset({"not-json", "not-object"}),
    "too-big": frozenset({"out-of-range"}),
    "wrong-time": frozenset({"negative", "out-of-range", "wrong-type"}),
    "unnamed": frozenset(
        {"cluster-empty", "cluster-name", "broker-empty", "broker-id", "too-long"}
    ),
    "bad-bundle-name": frozenset({"bundle-name"}),
    "oversized": frozenset({"too-large"}),
    "from-the-future": frozenset({"clock-ahead"}),
}


def illegal_lines(
    legal: Sequence[bytes], count: int, seed: int, makers: Sequence[Maker] = MAKERS
) -> Iterator[tuple[int, str, bytes]]:
    """`count` illegal records, every kind in turn: the index of the load report each was made of,
    its kind, its bytes.
    """
    rng = random.Random(seed)
    reports = [index for index, line in enumerate(legal) if b'"load-report"' in line]
    for number in range(count):
        index = rng.choice(reports)
        maker = makers[number % len(makers)]
        yield index, _kind(maker), maker(rng, legal[index])


_Path = tuple[str, ...]


#: What a report must have; of its figures, those that cannot be used are left out.
_ENVELOPE: tuple[_Path, ...] = (("cluster",), ("broker",), ("ts",), ("report",))


def bad_figure(rng: random.Random, line: bytes) -> tuple[str, bytes]:
    """A legal report with one figure, resource or row of a bundle that cannot be used: the name of
    what is left out, and the record.
    """
    report = json.loads(line)["report"]
    rows = [("report", "lastStats", name) for name in report["lastStats"]]
    resources = [("report", name) for name in _RESOURCES]
    path = rng.choice([*_numbers(line), *resources, *rows])
    name = "bundle" if "lastStats" in path else path[1]
    is_row = path[:2] == ("report", "lastStats") and len(path) == 3
    if rng.random() < 0.2 and not is_row:  # a bundle that is not listed is no bad figure
        return name, without(line, *path)
    tokens = [b"NaN", b"Infinity", b"-Infinity", b'"NaN"', b'"many"', b"null", b"true", b"[]"]
    tokens += [b"-7", b"-0.001", b"1e19", b"1e400", b"9" * 5000]
    if path[-1] in _COUNTS:
        tokens.append(b"4.5")
    return name, _with_number(line, path, rng.choice(tokens))


def _numbers(line: bytes) -> list[_Path]:
    report = json.loads(line)["report"]
    resources: list[_Path] = [
        ("report", name, figure) for name in _RESOURCES for figure in ("usage", "limit")
    ]
    totals: list[_Path] = [("report", name) for name in _TOTALS]
    return (
        resources
        + totals
        + [
            ("report", "lastStats", bundle, name)
            for bundle in report["lastStats"]
            for name in (*_TOTALS, *_COUNTS)
        ]
    )


def _fits(path: _Path, value: object) -> bool:
    return value == {} if path == ("report",) else isinstance(value, str) and path != ("ts",)


def _with(line: bytes, path: _Path, value: object) -> bytes:
    return changed(line, *path, to=value)


def _with_number(line: bytes, path: _Path, token: bytes) -> bytes:
    """The record with a token in place of a number that Python would not write."""
    return _with(line, path, _NUMBER).replace(f'"{_NUMBER}"'.encode(), token)
