"""Signed commands: what is signed is what is checked, byte by byte, and the key shows itself
nowhere.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.secret_file import Secret
from sinks.wire.codec import decode_command, decode_round, encode_command
from sinks.wire.output_rows import event_row
from sinks.wire.signing import SigningKey, SigningSettings, signing_key
from strategies.errors import SettingsError
from tests.unit.test_wire_encoding import COMMAND, ROUND

KEY = SigningKey(Secret(b"k" * 32))
RECORD = encode_command(COMMAND)


def test_a_signed_command_is_the_same_command() -> None:
    signed = event_row(COMMAND, KEY).value

    assert signed.startswith(RECORD[:-1])
    assert decode_command(signed) == COMMAND
    assert KEY.check(signed) == "signed"
    assert signed == event_row(COMMAND, KEY).value, "equal commands stay equal bytes"


def test_a_signed_round_is_the_same_round() -> None:
    """Executors learn epochs from it. Without a key its bytes are as they were."""
    signed = event_row(ROUND, KEY).value
    assert KEY.check(signed) == "signed"
    assert decode_round(signed) == ROUND
    assert signed.startswith(event_row(ROUND).value[:-1])


def test_unsigned_and_foreign_signatures_are_told_apart() -> None:
    assert KEY.check(RECORD) == "unsigned"
    assert KEY.check(SigningKey(Secret(b"o" * 32)).sign(RECORD)) == "wrong"
    assert KEY.check(RECORD[:-1] + b',"sig":"00"}') == "wrong"


@given(st.integers(0, len(RECORD) + 70), st.integers(1, 255))
def test_no_byte_can_be_changed(place: int, difference: int) -> None:
    signed = bytearray(KEY.sign(RECORD))
    signed[place] ^= difference

    assert KEY.check(bytes(signed)) != "signed"


def test_a_field_behind_the_signature_is_not_covered_by_it() -> None:
    assert KEY.check(KEY.sign(RECORD)[:-1] + b',"epoch":9}') == "wrong"


def test_the_key_comes_from_a_file_and_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("a-key-of-sufficient-length\n", "utf-8")

    key = signing_key(SigningSettings(str(file)))

    assert key is not None
    assert key.secret.reveal() == b"a-key-of-sufficient-length"
    assert "sufficient" not in f"{key} {key!r} {key.secret} {key.secret!r}"
    assert signing_key(SigningSettings()) is None


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read (No such file or directory)"),
        (" \n", "is empty"),
        ("short", "has fewer than 16 bytes"),
    ],
)
def test_what_is_said_about_a_file_that_is_no_key(
    tmp_path: Path, content: str | None, told: str
) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_text(content, "utf-8")

    with pytest.raises(SettingsError, match=r"signing\.key_file") as caught:
        signing_key(SigningSettings(str(file)))

    assert told in str(caught.value)
    assert "short" not in str(caught.value)
