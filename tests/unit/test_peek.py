"""Cluster and time of a record are found without decoding it, or not at all."""

from __future__ import annotations

import json

import pytest

from sinks.wire.codec import decode
from sinks.wire.peek import Peeked, peek
from strategies.cluster.intent_contract import Intent
from tests.telemetry_lines import T0, intent, line, load_report, one_of_each


def test_all_kinds_but_intents_are_found_as_decoding_finds_them() -> None:
    for value in [*one_of_each(), load_report(seconds=7)]:
        record = decode(value, b"")
        if not isinstance(record, Intent):
            assert peek(value) == (record.cluster, record.ts)
    assert peek(intent()) is None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b'{"cluster":"c"}',
        b'{"kind":"note","cluster":"c","ts":"5"}',
        b'{"kind":"note","cluster":"c","ts":-5}',
        b'{"kind":"note","cluster":"c","ts":1.5}',
        b'{"kind":"note","cluster":"c","ts":99999999999999999}',
        b'{"kind":"note","cluster":"","ts":5}',
        b'{"kind":"note","cluster":"\xff","ts":5}',
        b'{"report":{"cluster":"c","kind":"note","ts":5}}',
    ],
)
def test_where_a_glance_finds_nothing_the_record_is_decoded_as_ever(value: bytes) -> None:
    assert peek(value) is None


def test_blanks_and_other_orders_are_legal() -> None:
    value = b' { "ts" : 5 , "v":1,"cluster"\n:"c","big":true,"kind":"note" , "report":[1'
    assert peek(value) == Peeked("c", 5)


@pytest.mark.parametrize("size", [1, 2_000, 2**18])
def test_a_record_is_read_to_its_end_for_what_its_beginning_does_not_say(size: int) -> None:
    late = {"report": {"x": "x" * size}, "kind": "note", "cluster": "c", "ts": T0}
    assert peek(json.dumps(late).encode()) == Peeked("c", T0)
    assert peek(json.dumps(late).encode()[:-1]) is None
    assert peek(json.dumps({**late, "kind": "intent"}).encode()) is None


def test_a_name_may_be_escaped() -> None:
    found = peek(json.dumps({"kind": "note", "cluster": "münchen", "ts": T0}).encode())
    assert found == Peeked("münchen", T0)


def test_the_beginning_is_enough() -> None:
    assert peek(line("note", 0)[:80] + b"\xff" * 2**20) == Peeked("c", T0)
