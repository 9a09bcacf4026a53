"""The bytes of our records are in encoded.txt, the meaning of telemetry in answers/decoded.txt."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path

from sinks.wire.event_to_topic_rows import encode_rejected
from sinks.wire.operator_records import encode_approval, encode_approval_outcome, encode_intent
from sinks.wire.record_decoding import Origin, Position, decode, peek
from sinks.wire.record_encoding import (
    encode_command,
    encode_outcome,
    encode_outcome_telemetry,
    encode_round,
)
from strategies.cluster.model import BundleStats, Figures
from strategies.cluster.move_cost import MoveCost
from strategies.errors import WireError
from strategies.figures.usage import percent
from tests.golden.printed import compare
from tests.golden.test_told import RECORDS, changed
from tests.golden.told import assert_told
from tests.telemetry_lines import bundle, line, policies
from tests.unit.test_wire_encoding import ANSWER, APPROVAL, COMMAND, OUTCOME, PAUSE, ROUND
from tests.world.intents import drain, intent

LEGAL: Mapping[str, bytes] = {
    **RECORDS,
    "withdrawn": line("broker-load-data", broker="b1:8080", report=None),
    "withdrawn_bundles": line("top-bundles-load-data", broker="b1:8080", report=None),
    "policies": policies(),
    "note": b'{"v":1,"kind":"note","cluster":"c"}',
}


def test_records_are_the_bytes_of_the_file(rewrite: bool) -> None:
    at = (0x03400000, 0x03800000)
    measured = replace(OUTCOME, cost=MoveCost(16, 310, 12, 2, "modular"))
    torn = Origin(Position("telemetry", 2, 77), b'{"v":1,', 7)
    records = {
        "command": encode_command(COMMAND),
        "round": encode_round(ROUND),
        "outcome": encode_outcome(OUTCOME),
        "outcome in the telemetry": encode_outcome_telemetry(OUTCOME),
        "outcome of a measured move": encode_outcome(measured),
        "rejected": encode_rejected(WireError("not-json", "It ends too early."), torn, ""),
        "approval": encode_approval(APPROVAL),
        "pause": encode_approval(PAUSE),
        "answer": encode_approval_outcome(ANSWER),
        "drain": encode_intent(drain(2, 1, "b1:8080", until_ms=9_000)),
        "split": encode_intent(
            intent(3, "split", 1, "b1:8080", bundle=bundle(3), positions=at, moves_children=True)
        ),
        "command of a split": encode_command(replace(COMMAND, action="split", boundaries=at)),
    }
    lines = (f"# {name}\n{record.decode()}\n" for name, record in records.items())
    compare(Path(__file__).with_name("encoded.txt"), lines, rewrite)


def test_what_legal_records_mean(rewrite: bool) -> None:
    """Input: a legal record, or one with changed fields, of which the differences are shown."""

    def tell(lines: Sequence[str]) -> Iterator[str]:
        for one in lines:
            name, _, edits = one.partition(" ")
            legal = meaning(LEGAL[name])
            told = meaning(changed(LEGAL[name], edits.replace("BUNDLE", bundle(0))))
            shown = {key: told[key] for key in told if not edits or told[key] != legal.get(key)}
            yield "; ".join(f"{key} {value}" for key, value in shown.items()) or "means the same"

    assert_told("decoded.txt", tell, rewrite)


def test_what_is_known_of_a_record_without_decoding_it(rewrite: bool) -> None:
    """Input: bytes; answer: cluster, time, and whether the cluster's quota applies."""

    def tell(lines: Sequence[str]) -> Iterator[str]:
        yield from (repr(peek(ast.literal_eval(one))) for one in lines)

    assert_told("peeked.txt", tell, rewrite)


def meaning(record: bytes) -> dict[str, object]:
    """What a record says, by field."""
    told: dict[str, object] = {}
    found = decode(record, b"")
    for field in fields(found):
        value = getattr(found, field.name)
        if isinstance(value, Figures):
            told |= asdict(value) | {"% of bandwidth_in": percent(value.bandwidth_in)}
        elif isinstance(value, BundleStats):
            columns = {name: getattr(value, name) for name in ("traffic", "topics", "sessions")}
            told |= {
                f"{key} of bundles": f"{one.dtype} {one.tolist()}" for key, one in columns.items()
            }
            told |= {"names": value.names, "shape": value.traffic.shape}
        else:
            told[field.name] = value
    return {"kind": type(found).__name__} | told
