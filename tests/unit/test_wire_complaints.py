"""What is said about records that cannot be decoded: a stable code, the place, the next step; and
nothing but WireError ever comes out.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sinks.wire.codec import (
    cluster_of,
    decode,
    decode_answer,
    decode_approval,
    decode_approval_outcome,
    decode_command,
    decode_outcome,
    decode_rejected,
    decode_round,
    encode_approval,
)
from strategies.errors import WireError
from tests.changed_records import changed, without
from tests.illegal_records import (
    CODES,
    MAKERS,
    UNDECODABLE,
    Illegal,
    Maker,
    illegal_lines,
    illegal_records,
    oversized,
)
from tests.telemetry_lines import (
    broker_load,
    bundle,
    load_report,
    one_of_each,
    outcome,
    sweep,
    top_bundles,
)
from tests.unit.test_wire_encoding import APPROVAL

LEGAL = [
    load_report("b1:8080", 1),
    load_report("b2:8080", 2, {bundle(5): 7.0}),
    load_report("bücher:8080", 3, cluster="köln"),
]


def refusal(
    record: bytes, decoder: Callable[[bytes], object] = lambda value: decode(value, b"")
) -> WireError:
    with pytest.raises(WireError) as raised:
        decoder(record)
    return raised.value


@pytest.mark.parametrize(
    ("record", "code", "text"),
    [
        (
            b"",
            "not-json",
            "The record is not JSON: it is empty; write one JSON object per line, in UTF-8.",
        ),
        (
            b'{"v":1,',
            "not-json",
            "The record is not JSON: it ends too early, after 7 characters; write one JSON "
            "object per line, in UTF-8.",
        ),
        (
            b"\xef\xbb\xbf{}",
            "not-json",
            "The record is not JSON: it begins with a byte order mark; write one JSON object "
            "per line, in UTF-8.",
        ),
        (b'{"v":"\xff"}', "not-utf8", "Byte 6 of the record is not UTF-8; write records in UTF-8."),
        (
            b"[]",
            "not-object",
            "The record is an array, not an object; write one JSON object per line, as "
            "`jq -c '.[]'` does.",
        ),
        (
            b'{"v":2,"kind":"new"}',
            "unknown-version",
            "$.v is 2, and this program knows version 1 only; update it, or send version 1.",
        ),
        (
            changed(load_report(), "ts", to="NaN"),
            "not-finite",
            '$.ts is "NaN", no figure; leave the record out until the broker has measured one.',
        ),
        (
            changed(load_report(), "report", to={"cpu": {"usage": -1, "limit": 100}}),
            "missing-field",
            "$.report.memory is missing; send it, docs/schemas names every field of the contract.",
        ),
        (
            changed(load_report(), "ts", to=2**63),
            "out-of-range",
            "$.ts is 9223372036854775808, more than any real figure; leave the record out "
            "until its figures are right.",
        ),
        (changed(load_report(), "cluster", to=""), "cluster-empty", "$.cluster is empty; name it."),
        (changed(load_report(), "broker", to=""), "broker-empty", "$.broker is empty; name it."),
        (
            changed(load_report(), "broker", to="x" * 513),
            "too-long",
            "$.broker is 513 characters long; names of at most 512 are accepted.",
        ),
        (
            changed(sweep(1, "b1:1"), "cluster", to="x" * 513),
            "too-long",
            "$.cluster is 513 characters long; names of at most 512 are accepted.",
        ),
        (
            changed(load_report(), "broker", to="broker-1"),
            "broker-id",
            '$.broker is "broker-1", no broker id; send host:port of the broker\'s web service.',
        ),
        (
            changed(load_report(), "cluster", to="a\x1b[2J"),
            "cluster-name",
            '$.cluster is "a\\u001b[2J", with control characters in it; send the plain name '
            "of the cluster.",
        ),
        (
            load_report(loads={"t/ns/0x80000000_0x40000000": 1.0}),
            "bundle-name",
            '$.report.lastStats["t/ns/0x80000000_0x40000000"] is no bundle name: '
            "tenant/namespace/0xLLLLLLLL_0xUUUUUUUU is expected, "
            "with the lower end below the upper; report the name as Pulsar's admin API prints it.",
        ),
        (
            sweep(1, "b1:1", "b1:1"),
            "broker-listed-twice",
            'The sweep lists broker "b1:1" twice; list each as answered or as missing, once.',
        ),
        (
            sweep(1, "b1:1", missing={"b1:1": "late"}),
            "broker-listed-twice",
            'The sweep lists broker "b1:1" twice; list each as answered or as missing, once.',
        ),
        (
            sweep(1, "b1:1")[:-1] + b',"answering":["b1:1"]}',
            "broker-not-missing",
            '$.answering[0] is "b1:1", which $.missing does not contain; list only brokers without '
            "figures.",
        ),
        (
            changed(sweep(1, "b1:1"), "missing", to={"b2:1": "late", "b3:1": 4}),
            "wrong-type",
            '$.missing["b3:1"] is an integer where a string belongs; write it as docs/schemas '
            "describes it.",
        ),
        (
            changed(outcome(), "report", "cluster", to="d"),
            "other-cluster",
            '$.report.cluster is "d" and $.cluster is "c"; send an outcome to its own cluster.',
        ),
        (
            changed(outcome(), "report", "owner_after", to="broker-1"),
            "broker-id",
            '$.report.owner_after is "broker-1", no broker id; send host:port of the broker\'s '
            "web service.",
        ),
        (
            outcome(status="done"),
            "unknown-value",
            '$.report.status is "done", which the contract does not know; see docs/schemas '
            "for what it allows.",
        ),
        (
            b'{"v":1,"kind":"note","cluster":"\\ud800"}',
            "not-utf8",
            "$.cluster holds half of a surrogate pair; write whole characters.",
        ),
    ],
)
def test_a_complaint_names_the_place_and_the_next_step(record: bytes, code: str, text: str) -> None:
    error = refusal(record)
    assert (error.code, error.text) == (code, text)


def test_the_known_kinds_are_listed() -> None:
    error = refusal(changed(load_report(), "kind", to="load-reprot"))
    assert error.code == "unknown-kind"
    assert (
        "load-report, broker-load-data, top-bundles-load-data, sweep, policies, outcome, intent, "
        "note" in error.text
    )


def test_a_bundle_is_listed_once() -> None:
    twice = top_bundles().replace(bundle(1).encode(), bundle(0).encode())
    assert refusal(twice).code == "bundle-listed-twice"


def test_extensible_brokers_are_checked_like_modular_ones() -> None:
    assert refusal(without(broker_load(), "report")).code == "missing-field"
    assert refusal(changed(broker_load(), "report", to={"bundleCount": 4})).code == "missing-field"
    entry = ("report", "topBundlesLoadData", 1)
    assert refusal(changed(top_bundles(), *entry, "bundleName", to="t/ns")).code == "bundle-name"
    assert refusal(without(top_bundles(), *entry, "bundleName")).code == "missing-field"


def test_half_a_character_is_found_in_values_and_keys() -> None:
    for broken in (
        b'"cluster":"\\ud800"',
        b'"cluster":"c","x":{"\\udfff":{}},"ts":"\\ud800"',
        b'"cluster":7,"x":{"\\udfff":[]}',
    ):
        assert refusal(b'{"v":1,"kind":"note",' + broken + b"}").code == "not-utf8"


def test_long_names_and_numbers_are_cut_in_the_sentence() -> None:
    for record in (
        load_report(loads={"x" * 100_000: 1.0}),
        sweep(1, "b1:1").replace(b'"sweep":1', b'"sweep":' + b"7" * 4000),
        changed(load_report(), "kind", to="k" * 100_000),
    ):
        assert len(refusal(record).text) < 400


@pytest.mark.parametrize("maker", UNDECODABLE)
def test_each_kind_of_bad_input_has_its_codes(maker: Maker) -> None:
    records = list(illegal_lines(LEGAL, 100, 1, [maker]))
    assert records
    for _, kind, record in records:
        error = refusal(record)
        assert error.code in CODES[kind], error.text
        assert error.text.endswith(".")
        assert ";" in error.text or ". " in error.text


def test_a_record_of_nine_megabytes_is_too_large() -> None:
    kind, record = oversized(random.Random(0), LEGAL[0])
    assert refusal(record).code in CODES[kind]


def test_every_kind_has_a_name_and_codes() -> None:
    assert {maker(random.Random(0), LEGAL[0])[0] for maker in (*MAKERS, oversized)} == set(CODES)


@settings(deadline=None)
@given(illegal_records(LEGAL))
def test_no_illegal_record_gets_through(illegal: Illegal) -> None:
    assert refusal(illegal[1]).code in CODES[illegal[0]]


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
        step = data.draw(
            st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder)))
        )
        if (
            not isinstance(holder[step], dict | list)
            or not holder[step]
            or data.draw(st.booleans())
        ):
            break
        holder = holder[step]
    holder[step] = data.draw(JSON)
    decode_or_refuse(json.dumps(tree).encode())


@settings(deadline=None)
@given(st.binary(max_size=200) | JSON.map(lambda tree: json.dumps(tree).encode()))
@example(b'{"":{}}')
def test_noise_is_refused(record: bytes) -> None:
    for decoder in (
        lambda value: decode(value, b""),
        decode_command,
        decode_round,
        decode_outcome,
        decode_rejected,
        decode_answer,
        decode_approval,
        decode_approval_outcome,
    ):
        with pytest.raises(WireError):
            decoder(record)


#: Keys that no contract names; some look like what the decoder writes into its messages.
ODD_KEYS = (
    "",
    " ",
    "$",
    "...",
    "[0]",
    "[...]",
    "x` - at `$.v",
    "missing required field `v`",
    "\x00",
    "\ud83d\ude00",
    "__class__",
)


@pytest.mark.parametrize("key", ODD_KEYS)
@pytest.mark.parametrize("value", [{}, {"": {}}, [], None, "x"], ids=str)
def test_a_key_that_no_contract_names_ends_no_complaint(key: str, value: object) -> None:
    """In every kind of record, at the top and in all objects below, beside each fault: a field of
    it is missing, or is another thing.
    """
    for record in one_of_each():
        tree = json.loads(record)
        for name in tree:
            for faulty in (
                {field: tree[field] for field in tree if field != name},
                tree | {name: {"": []}},
            ):
                decode_or_refuse(json.dumps(faulty | {key: value}).encode())
                decode_or_refuse(json.dumps(with_key_everywhere(faulty, key, value)).encode())
    for decoder in (decode_command, decode_round, decode_answer, decode_rejected, decode_approval):
        refusal(json.dumps({key: value}).encode(), decoder)
        refusal(json.dumps({"v": 1, key: value}).encode(), decoder)


def with_key_everywhere(tree: object, key: str, value: object) -> object:
    if isinstance(tree, list):
        return [with_key_everywhere(one, key, value) for one in tree]
    return (
        {name: with_key_everywhere(one, key, value) for name, one in tree.items()} | {key: value}
        if isinstance(tree, dict)
        else tree
    )


def test_depth_is_judged_the_same_however_deep_the_caller_stands() -> None:
    def code_below(levels: int, record: bytes) -> str:
        return code_below(levels - 1, record) if levels else refusal(record).code

    for nested, code in ((399, "missing-field"), (400, "too-deep"), (600, "too-deep")):
        record = b'{"v":1,"kind":"note","more":' + b"[" * nested + b"]" * nested + b"}"
        assert code_below(0, record) == code_below(400, record) == code
    assert refusal(b"[" * 1_000_000).code == "too-deep"


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    decode(changed(load_report(), "surprise", to="[{" * 5000), b"")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"by": ""}, "empty"),
        ({"by": " "}, "by-empty"),
        ({"reason": ""}, "reason-empty"),
        ({"reason": "a\nb"}, "reason-characters"),
        ({"by": "a\u202eb"}, "by-characters"),
        ({"by": "a" * 513}, "too-long"),
        ({"reason": "a" * 2_001}, "reason-length"),
        ({"plan": None}, "plan-missing"),
        ({"action": "pause"}, "plan-unexpected"),
        ({"action": "pause", "plan": None}, "commands-unexpected"),
        ({"commands": []}, "commands-missing"),
        ({"commands": [{"id": "a", "digest": "0F" * 32}]}, "digest"),
        ({"commands": [{"id": "a", "digest": "0f" * 32}] * 2}, "command-listed-twice"),
        ({"action": "dance"}, "unknown-value"),
        ({"cluster": "a\x07"}, "cluster-name"),
        ({"ts": -1}, "negative"),
        ({"v": 2}, "unknown-version"),
    ],
)
def test_a_malformed_approval_has_a_code_of_its_own(changes: dict[str, object], code: str) -> None:
    tree = json.loads(encode_approval(APPROVAL)) | changes
    assert refusal(json.dumps(tree).encode(), decode_approval).code == code


def test_commands_and_rounds_are_complained_about_in_the_same_way() -> None:
    assert (
        refusal(b'{"v":1}', decode_command).text
        == "$.id is missing; send it, docs/schemas names every field of the contract."
    )
    assert refusal(b'{"v":9}', decode_round).code == "unknown-version"
    assert refusal(b"x", decode_outcome).code == "not-json"
    assert refusal(b'{"v":1,"topic":3}', decode_rejected).code == "wrong-type"
