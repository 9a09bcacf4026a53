"""What is said about records that cannot be decoded; nothing but WireError comes out."""

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sinks.wire.operator_records import encode_approval
from sinks.wire.record_decoding import (
    cluster_of,
    decode,
    decode_answer,
    decode_approval,
    decode_approval_outcome,
    decode_command,
    decode_outcome,
    decode_rejected,
    decode_round,
)
from strategies.errors import WireError
from tests.changed_records import changed
from tests.telemetry_lines import intent, load_report, one_of_each, sweep
from tests.unit.test_wire_encoding import APPROVAL

DECODERS = (decode_command, decode_round, decode_answer, decode_rejected, decode_approval)


def refusal(
    record: bytes, decoder: Callable[[bytes], object] = lambda value: decode(value, b"")
) -> WireError:
    with pytest.raises(WireError) as raised:
        decoder(record)
    return raised.value


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (changed(load_report(), "broker", to="x" * 513), "too-long"),
        (changed(sweep(1, "b1:1"), "cluster", to="x" * 513), "too-long"),
        (changed(encode_approval(APPROVAL), "by", to="a" * 513), "too-long"),
        (changed(encode_approval(APPROVAL), "reason", to="a" * 2_001), "reason-length"),
        (changed(intent(), "reason", to="a" * 2_001), "reason-length"),
    ],
)
def test_names_and_reasons_have_a_longest_length(record: bytes, code: str) -> None:
    decoder = decode_approval if b"plan" in record else lambda value: decode(value, b"")
    assert refusal(record, decoder).code == code


def test_long_names_and_numbers_are_cut_in_the_sentence() -> None:
    for record in (
        load_report(loads={"x" * 100_000: 1.0}),
        sweep(1, "b1:1").replace(b'"sweep":1', b'"sweep":' + b"7" * 4000),
        changed(load_report(), "kind", to="k" * 100_000),
    ):
        assert len(refusal(record).text) < 400


def decode_or_refuse(record: bytes) -> None:
    with contextlib.suppress(WireError):
        decode(record, b"")
    cluster_of(record)


@settings(deadline=None)
@given(st.sampled_from(one_of_each()), st.integers(0), st.binary(max_size=6), st.integers(0, 8))
def test_whatever_happens_to_a_line_it_is_decoded_or_refused(
    record: bytes, at: int, put: bytes, drop: int
) -> None:
    at %= len(record)
    decode_or_refuse(record[:at] + put + record[at + drop :])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.heavy
@settings(deadline=None)
@given(st.sampled_from(one_of_each()), st.data())
def test_whatever_stands_in_a_field_it_is_decoded_or_refused(
    record: bytes, data: st.DataObject
) -> None:
    tree = json.loads(record)
    holder = tree
    while True:
        steps = sorted(holder) if isinstance(holder, dict) else range(len(holder))
        step = data.draw(st.sampled_from(steps))
        below = holder[step]
        if not isinstance(below, dict | list) or not below or data.draw(st.booleans()):
            break
        holder = below
    holder[step] = data.draw(JSON)
    decode_or_refuse(json.dumps(tree).encode())


@settings(deadline=None)
@given(st.binary(max_size=200) | JSON.map(lambda tree: json.dumps(tree).encode()))
@example(b'{"":{}}')
def test_noise_is_refused(record: bytes) -> None:
    for decoder in (*DECODERS, decode_outcome, decode_approval_outcome):
        refusal(record, decoder)
    refusal(record)


#: Keys that no contract names; some look like what the decoder writes into its messages.
ODD_KEYS = ["", " ", "$", "...", "[0]", "[...]", "x` - at `$.v", "missing required field `v`"]
ODD_KEYS += ["\x00", "\ud83d\ude00", "__class__"]


@pytest.mark.parametrize("key", ODD_KEYS)
@pytest.mark.parametrize("value", [{}, {"": {}}, [], None, "x"], ids=str)
def test_a_key_that_no_contract_names_ends_no_complaint(key: str, value: object) -> None:
    """In every kind of record, in all objects, beside each fault."""
    for record in one_of_each():
        tree = json.loads(record)
        for name in tree:
            for faulty in (
                {field: tree[field] for field in tree if field != name},
                tree | {name: {"": []}},
            ):
                decode_or_refuse(json.dumps(faulty | {key: value}).encode())
                decode_or_refuse(json.dumps(with_key_everywhere(faulty, key, value)).encode())
    for decoder in DECODERS:
        refusal(json.dumps({key: value}).encode(), decoder)
        refusal(json.dumps({"v": 1, key: value}).encode(), decoder)


def with_key_everywhere(tree: object, key: str, value: object) -> object:
    if isinstance(tree, list):
        return [with_key_everywhere(one, key, value) for one in tree]
    if not isinstance(tree, dict):
        return tree
    return {name: with_key_everywhere(one, key, value) for name, one in tree.items()} | {key: value}


def test_depth_is_judged_the_same_however_deep_the_caller_stands() -> None:
    def code_below(levels: int, record: bytes) -> str:
        return code_below(levels - 1, record) if levels else refusal(record).code

    for nested, code in ((399, "missing-field"), (400, "too-deep"), (600, "too-deep")):
        record = b'{"v":1,"kind":"note","more":' + b"[" * nested + b"]" * nested + b"}"
        assert code_below(0, record) == code_below(400, record) == code
    assert refusal(b"[" * 1_000_000).code == "too-deep"
