"""Cluster and time of a record are found without decoding it, or not at all."""

from __future__ import annotations

import json

import pytest

from sinks.wire.codec import Peeked, decode, peek
from strategies.cluster.intent_contract import Intent
from tests.telemetry_lines import T0, line, load_report, one_of_each


def test_all_kinds_but_intents_are_found_as_decoding_finds_them() -> None:
    for value in [*one_of_each(), load_report(seconds=7)]:
        record = decode(value, b"")
        has_quota = not isinstance(record, Intent)
        assert peek(value) == (record.cluster, record.ts, has_quota)


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
def test_where_a_glance_finds_nothing_no_quota_applies(value: bytes) -> None:
    assert not peek(value).has_quota


@pytest.mark.parametrize(
    "value",
    [
        b' { "ts" : 5 , "v":1,"cluster"\n:"c","big":true,"kind":"note" , "report":[1]}',
        b'{"v": 1, "kind": "note", "cluster": "c", "broker": "b:1", "ts": 5, "torn',
        b'{"note":NaN,"kind":"note","cluster":"c","ts":5}',
        b'{"note":-Infinity,"kind":"note","cluster":"\\u0063","ts":5}',
        b'{"note":02400.0,"kind":"note","cluster":"c","ts":5}',
        b'{"note":02400.0,"kind":"note","cluster":"c","ts":5.0}',
    ],
)
def test_other_orders_and_spellings_are_legal(value: bytes) -> None:
    assert peek(value) == Peeked("c", 5, True)


@pytest.mark.parametrize("size", [1, 2_000, 2**18])
def test_a_record_is_read_to_its_end_for_what_its_beginning_does_not_say(size: int) -> None:
    late = {"report": {"x": "x" * size}, "kind": "note", "cluster": "c", "ts": T0}
    assert peek(json.dumps(late).encode()) == Peeked("c", T0, True)
    assert peek(json.dumps(late).encode()[:-1]) == Peeked("")
    assert peek(json.dumps({**late, "kind": "intent"}).encode()) == Peeked("c", T0)


@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_name_may_have_any_letters(ascii_only: bool) -> None:
    fields = {"v": 1, "kind": "note", "cluster": "münchen", "ts": T0}
    value = json.dumps(fields, ensure_ascii=ascii_only, separators=(",", ":")).encode()
    assert peek(value) == Peeked("münchen", T0, True)


def test_the_beginning_is_enough() -> None:
    assert peek(line("note", 0)[:80] + b"\xff" * 2**20) == Peeked("c", T0, True)
