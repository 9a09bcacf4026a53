"""What is written comes back unchanged, on one line; tests/golden/encoded.txt has the bytes."""

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from sinks.secret_file import Secret
from sinks.wire.event_to_topic_rows import OutputRow, event_row
from sinks.wire.operator_records import (
    command_digest,
    encode_approval,
    encode_approval_outcome,
    encode_intent,
)
from sinks.wire.record_decoding import (
    DEFAULT_LIMITS,
    LARGEST_ORIGINAL,
    Origin,
    Position,
    decode,
    decode_answer,
    decode_approval,
    decode_approval_outcome,
    decode_command,
    decode_outcome,
    decode_rejected,
    decode_round,
    origin_size,
    pack_origin,
    unpack_origin,
)
from sinks.wire.record_encoding import (
    encode_command,
    encode_outcome,
    encode_outcome_telemetry,
    encode_round,
)
from sinks.wire.signing_keys import SigningKey, SigningSettings, intents_key
from strategies.cluster.intent_records_and_states import Intent, IntentStatus
from strategies.cluster.model import (
    Command,
    Evidence,
    Expected,
    Note,
    Outcome,
    OutcomeReport,
    Rejection,
    Round,
    Skip,
)
from strategies.cluster.move_cost import MoveCost
from strategies.cluster.packed_records import pack_record, unpack_record
from strategies.cluster.round_figures import Certificate, Forecast, Spread
from strategies.errors import ContractError, SettingsError, WireError
from strategies.executor.objections_to_approvals import Approval, ApprovalOutcome, ApprovedCommand
from tests.telemetry_lines import T0, bundle
from tests.world.intents import drain, id_of, intent, of_roll, roll

COMMAND = Command(
    id="c-1-1-abc",
    cluster="c",
    round=7,
    epoch=1,
    action="transfer",
    bundle=bundle(3),
    source="b1:8080",
    destination="b2:8080",
    strategy="avg",
    code="above-average",
    text="b1:8080 is at 80 %, 25 points above b2:8080",
    evidence={"usage": 0.8, "hits": 4, "of": None, "swap": False, "why": "größer"},
    expected=Expected(0.8, 0.7, 0.55, None),
    issued_at_ms=T0,
    expires_at_ms=T0 + 300_000,
)
_BUNDLES = (bundle(1), bundle(2))
_REST = {"cool_down_ms": 1_800_000}
_SKIP = Skip("bundle", _BUNDLES, "cooling", "moved a short while ago", "b1:8080", _REST)
ROUND = Round(
    cluster="c",
    round=7,
    epoch=1,
    ts=T0,
    closed_by="sweep",
    strategy="avg",
    brokers=("b2:8080", "b1:8080"),
    stale={"b3:8080": "silent for 200 s"},
    usage={"b2:8080": 0.55, "b1:8080": 0.8},
    usage_after={"b2:8080": 0.65, "b1:8080": 0.7},
    spread=Spread(0.25, 0.125, 1.1851851851851851),
    spread_after=Spread(0.05, 0.025, 1.037037037037037),
    throughput_spread=Spread(1e7, 5e6, 1.5),
    commands=("c-1-1-abc",),
    skips=(_SKIP,),
    digest="0123456789abcdef",
    version="0.1.0",
)
OUTCOME = Outcome("c-1-1-abc", "c", bundle(3), "applied", None, "b1:8080", "b2:8080", 153, T0 + 900)
LONGS = st.integers(-(2**63), 2**63 - 1)
PLAN = "1.7-0123456789ab"
APPROVAL = Approval(
    id="5f0c",
    cluster="c",
    action="approve",
    plan=PLAN,
    commands=(ApprovedCommand("c-1-1-abc", "0f" * 32),),
    by="Zoë",
    reason="fits",
    ts=T0 + 900,
    expires_at_ms=T0 + 300_000,
)
PAUSE = replace(APPROVAL, id="5f0d", action="pause", plan=None, commands=(), reason="upgrade")
_WHY = "replayed: a record with this id came before"
ANSWER = ApprovalOutcome("5f0c", "c", "approve", PLAN, "Zoë", "refused", _WHY, T0 + 1_000)


def test_a_digest_is_the_one_of_all_bytes_with_the_signature() -> None:
    record = SigningKey(Secret(b"k" * 32)).sign(encode_command(COMMAND))
    assert command_digest(record) == hashlib.sha256(record).hexdigest()
    assert command_digest(record) != command_digest(encode_command(COMMAND))


def test_the_records_of_outcomes_are_of_two_kinds() -> None:
    assert decode_answer(encode_outcome(OUTCOME)) == OUTCOME
    assert decode_answer(encode_approval_outcome(ANSWER)) == ANSWER
    pretends = encode_outcome(OUTCOME)[:-1] + b',"more":{"approval_id":"x"}}'
    assert decode_answer(pretends) == OUTCOME
    for broken in (b"{", b'{"approval_id":"x"}', b'{"approval_id":3}', b'"approval_id"'):
        with pytest.raises(WireError):
            decode_answer(broken)


def test_what_was_written_can_be_read() -> None:
    assert decode_approval(encode_approval(APPROVAL)) == APPROVAL
    assert decode_approval(encode_approval(PAUSE)) == PAUSE
    assert decode_approval_outcome(encode_approval_outcome(ANSWER)) == ANSWER
    assert decode_command(encode_command(COMMAND)) == COMMAND
    assert decode_round(encode_round(ROUND)) == ROUND
    for made in (OUTCOME, replace(OUTCOME, cost=MoveCost(16, 310, 12, 2, "modular"))):
        assert decode_outcome(encode_outcome(made)) == made
        assert decode(encode_outcome_telemetry(made), b"") == OutcomeReport("c", made.ts, made)


@pytest.mark.parametrize(
    "bounds", [Certificate(0.062, 0.05, 3.4e8, 3.1e8), Certificate(0.1, None, 0.0, None)]
)
def test_a_round_keeps_its_certificate_and_its_forecast(bounds: Certificate) -> None:
    proven = replace(ROUND, certificate=bounds, forecast=Forecast(0.021, 2, 1, 5))
    assert decode_round(encode_round(proven)) == proven


def test_a_forecast_of_an_earlier_version_has_no_useless_moves() -> None:
    written = encode_round(replace(ROUND, forecast=Forecast(0.021, 2, 1, 0)))
    earlier = written.replace(b',"useless_moves":0', b"")
    assert earlier != written
    assert decode_round(earlier).forecast == Forecast(0.021, 2, 1)


def test_a_reader_ignores_fields_of_later_versions_of_the_same_contract() -> None:
    assert decode_command(encode_command(COMMAND)[:-1] + b',"sig":"ab","later":[1]}') == COMMAND
    assert decode_round(encode_round(ROUND)[:-1] + b',"later":{}}') == ROUND


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_no_figure_that_json_cannot_hold_is_written(bad: float) -> None:
    for command in (
        replace(COMMAND, evidence={"usage": bad}),
        replace(COMMAND, expected=Expected(0.5, bad)),
    ):
        with pytest.raises(ContractError, match="JSON"):
            encode_command(command)
    for done in (
        replace(ROUND, usage={"b1:8080": bad}),
        replace(ROUND, usage_after={"b1:8080": bad}),
        replace(ROUND, measured={"b1:8080": bad}),
        replace(ROUND, spread=Spread(0.0, bad, 0.0)),
        replace(ROUND, skips=(Skip("cluster", ("c",), "x", "y", None, {"z": bad}),)),
    ):
        with pytest.raises(ContractError, match="JSON"):
            encode_round(done)


@settings(deadline=None)
@given(st.text(), st.floats(allow_nan=False, allow_infinity=False), LONGS)
def test_any_text_and_figure_comes_back_and_stays_on_one_line(
    text: str, figure: float, count: int
) -> None:
    evidence: Evidence = {text: text, "f": figure, "n": count}
    command = replace(COMMAND, text=text, evidence=evidence, expected=Expected(figure))
    written = encode_command(command)
    assert b"\n" not in written
    assert decode_command(written) == command
    assert json.loads(written)["reason"]["evidence"]["f"] == figure


POSITIONS = st.builds(Position, st.text(max_size=20), st.integers(0, 2**40), st.integers(0, 2**53))


@settings(deadline=None)
@given(POSITIONS, st.binary(max_size=300))
def test_an_origin_comes_back(position: Position, value: bytes) -> None:
    origin = pack_origin(position, value)
    assert unpack_origin(origin) == Origin(position, value, len(value))
    assert origin_size(origin) == len(value)
    assert not unpack_origin(origin).truncated


def test_an_original_that_an_earlier_version_has_compressed_is_read() -> None:
    """The state keeps the first records of a cluster with their origin."""
    position, value = Position("t", 3, 7), b"x" * 1_000
    header = bytearray(pack_origin(position, b"", len(value)))
    header[1] = 1
    compressed = zstandard.ZstdCompressor(level=1).compress(value)
    assert unpack_origin(bytes(header) + compressed) == Origin(position, value, len(value))


def test_an_origin_keeps_as_much_as_a_rejected_row_shows() -> None:
    value = b"x" * (LARGEST_ORIGINAL + 1)
    origin = unpack_origin(pack_origin(Position("t", 0, 0), value))
    assert origin == Origin(Position("t", 0, 0), value[:LARGEST_ORIGINAL], len(value))
    assert origin.truncated


def test_an_origin_of_a_cut_record_knows_its_true_size() -> None:
    origin = unpack_origin(pack_origin(Position("t", 0, 0), b"abc", 50_000_000))
    assert (origin.value, origin.size, origin.truncated) == (b"abc", 50_000_000, True)


@pytest.mark.parametrize("origin", [b"", b"\x01", b"\x09" + bytes(40)])
def test_bytes_that_are_no_origin_are_refused(origin: bytes) -> None:
    with pytest.raises(ContractError):
        unpack_origin(origin)


@pytest.mark.heavy
def test_every_event_has_its_topic() -> None:
    assert event_row(COMMAND) == OutputRow("commands", "c", encode_command(COMMAND))
    assert event_row(ROUND) == OutputRow("rounds", "c", encode_round(ROUND))
    origin = pack_origin(Position("telemetry", 0, 5), b"{...}")
    row = event_row(Rejection("clock-ahead", "It is an hour ahead.", Note("c", T0, origin)))
    assert (row.kind, row.key) == ("rejected", "c")
    rejected = decode_rejected(row.value)
    assert (rejected.topic, rejected.partition, rejected.offset) == ("telemetry", 0, 5)
    assert (rejected.cluster, rejected.code) == ("c", "clock-ahead")
    assert rejected.original == b"{...}"


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
    intent(10, "move", 8, bundle=bundle(3)),
    intent(11, "split", 8, bundle=bundle(3), positions=(16, 2**32 - 2), moves_children=True),
    intent(12, "split", 8, "b1:8080", bundle=bundle(3), algorithm="other", moves_children=True),
]


@pytest.mark.parametrize("record", SOME, ids=lambda record: record.action)
def test_an_intent_comes_back_unchanged(record: Intent) -> None:
    assert decode(encode_intent(record), b"") == record
    there = replace(record, origin=b"\x00where it stood")
    assert unpack_record(pack_record(there)) == there


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
    for same in (SigningSettings(a, "", a), SigningSettings(b, a, a)):
        with pytest.raises(SettingsError, match=r"signing\.intents_key_file: holds the same key"):
            intents_key(same)


def test_a_round_says_what_becomes_of_intents() -> None:
    status = IntentStatus(
        id_of(1), "drain", "draining", "3 of 5", "Wait.", "Ann", "disks", 1, 2, "b1:8080", left=3
    )
    rolling = replace(status, action="roll", state="rolling", phases={"b1:8080": "waiting"})
    done = replace(ROUND, intents=(status, rolling))

    assert decode_round(encode_round(done)) == done
    assert b"intents" not in encode_round(ROUND), "without intents the bytes are as they were"
