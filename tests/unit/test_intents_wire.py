"""The record of an intent: what is written is what is read, and who signs it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sinks.secret_file import Secret
from sinks.wire.codec import decode, decode_round, encode_intent, encode_round
from sinks.wire.origin import DEFAULT_LIMITS
from sinks.wire.signing import SigningKey, SigningSettings, intents_key
from strategies.cluster.intent_contract import Intent, IntentStatus
from strategies.cluster.packing import pack_record, unpack_record
from strategies.errors import SettingsError, WireError
from tests.telemetry_lines import intent as line
from tests.unit.test_wire_encoding import ROUND
from tests.world.intents import drain, id_of, intent, of_roll, roll

KEY = SigningKey(Secret(b"i" * 32))
ROLL = roll(1, 0, "b1:8080", "b2:8080", max_unavailable=2)
SOME = [
    drain(2, 1, "b1:8080"),
    drain(3, 1, "b1:8080", until_ms=9_000, together=True, roll=id_of(1)),
    intent(4, "undrain", 2, "b1:8080"),
    ROLL,
    of_roll(5, "restarting", 3, ROLL, "b1:8080"),
    of_roll(6, "restarted", 4, ROLL, "b1:8080"),
    of_roll(7, "halt", 5, ROLL),
    of_roll(8, "resume", 6, ROLL),
    of_roll(9, "end", 7, ROLL),
]


@pytest.mark.parametrize("record", SOME, ids=lambda record: record.action)
def test_an_intent_comes_back_unchanged(record: Intent) -> None:
    assert decode(encode_intent(record), b"") == record
    there = replace(record, origin=b"\x00where it stood")
    assert unpack_record(pack_record(there)) == there


def test_the_bytes_of_a_drain() -> None:
    assert encode_intent(drain(2, 1, "b1:8080", until_ms=9_000)).decode() == (
        '{"kind":"intent","v":1,"cluster":"c","ts":1795000001000,"id":"' + id_of(2) + '",'
        '"action":"drain","by":"Ann","reason":"new disks","broker":"b1:8080","until_ms":9000}'
    )


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (line(id="0A" * 16, broker="b1:8080"), "intent-id"),
        (line(broker="b1:8080", roll="z" * 32), "intent-id"),
        (line(together=True), "intent-field-missing"),
        (line(broker="b1:8080", brokers=["b2:8080"]), "intent-field-unexpected"),
        (line(broker="b1:8080", max_unavailable=1), "intent-field-unexpected"),
        (line(action="undrain", broker="b1:8080", until_ms=5), "intent-field-unexpected"),
        (line(action="roll", brokers=[]), "intent-field-missing"),
        (line(action="roll", brokers=["b1:8080", "b1:8080"]), "broker-listed-twice"),
        (line(action="roll", brokers=["b1"]), "broker-id"),
        (line(broker="b 1"), "broker-id"),
        (line(action="halt"), "intent-field-missing"),
        (line(action="restarting", broker="b1:8080"), "intent-field-missing"),
        (line(broker="b1:8080", by="  "), "by-empty"),
        (line(broker="b1:8080", reason="a\nb"), "reason-characters"),
        (line(broker="b1:8080", reason="x" * 2_001), "reason-length"),
    ],
)
def test_what_is_refused(bad: bytes, code: str) -> None:
    record = json.loads(bad)
    if record["action"] in ("halt",):
        record.pop("broker", None)
    with pytest.raises(WireError) as caught:
        decode(json.dumps(record).encode(), b"")
    assert caught.value.code == code


def test_with_a_key_only_its_signature_is_believed() -> None:
    record = encode_intent(SOME[0])
    assert decode(KEY.sign(record), b"", DEFAULT_LIMITS, KEY) == SOME[0]
    for wrong, code in (
        (record, "intent-unsigned"),
        (SigningKey(Secret(b"o" * 32)).sign(record), "intent-wrong-signature"),
        (KEY.sign(record).replace(b"Ann", b"Bob"), "intent-wrong-signature"),
    ):
        assert decode(wrong, b"").cluster == "c", "without a key nothing is checked"
        with pytest.raises(WireError) as caught:
            decode(wrong, b"", DEFAULT_LIMITS, KEY)
        assert caught.value.code == code


def test_the_key_of_intents_is_no_other_key(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a" * 32, "utf-8")
    (tmp_path / "b").write_text("b" * 32, "utf-8")
    a, b, nowhere = (str(tmp_path / name) for name in ("a", "b", "nowhere"))

    assert intents_key(SigningSettings()) is None
    assert intents_key(SigningSettings(a, nowhere, b)) == SigningKey(Secret(b"b" * 32))
    for settings in (SigningSettings(a, "", a), SigningSettings(b, a, a)):
        with pytest.raises(SettingsError, match=r"signing\.intents_key_file: holds the same key"):
            intents_key(settings)


def test_a_round_says_what_becomes_of_intents() -> None:
    status = IntentStatus(
        id_of(1), "drain", "draining", "3 of 5", "Wait.", "Ann", "disks", 1, 2, "b1:8080", left=3
    )
    rolling = replace(status, action="roll", state="rolling", phases={"b1:8080": "waiting"})
    done = replace(ROUND, intents=(status, rolling))

    assert decode_round(encode_round(done)) == done
    assert b"intents" not in encode_round(ROUND), "without intents the bytes are as they were"
