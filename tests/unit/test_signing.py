"""Signed records: what is signed is what is checked; while keys change, two are accepted."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.notices.delivery import Notice, NoticeCause, headers_of, signature
from sinks.notices.settings import NoticeSettings, webhook
from sinks.secret_file import Secret
from sinks.wire.event_to_topic_rows import event_row
from sinks.wire.operator_records import encode_intent
from sinks.wire.record_decoding import DEFAULT_LIMITS, decode, decode_command, decode_round
from sinks.wire.record_encoding import encode_command
from sinks.wire.signing_keys import (
    SigningKey,
    SigningSettings,
    approvals_key,
    intents_key,
    signing_key,
)
from strategies.cluster.model import Command, Round
from strategies.errors import SettingsError, WireError
from tests.control_topic import Control, command
from tests.pulsar_fake.server import FakePulsar
from tests.unit.executor_lives import APPLY, FOUR, ONE, THREE, TWO, run
from tests.unit.plan_builders import APPROVALS_KEY, approval, give
from tests.unit.test_wire_encoding import COMMAND, ROUND
from tests.world.intents import drain

KEY = SigningKey(Secret(b"k" * 32))
RECORD = encode_command(COMMAND)
OLD, NEW = Secret(b"o" * 32), Secret(b"n" * 32)
BEFORE, DURING, AFTER = SigningKey(OLD), SigningKey(NEW, OLD), SigningKey(NEW)


@pytest.mark.parametrize(("record", "read"), [(COMMAND, decode_command), (ROUND, decode_round)])
def test_a_signed_record_is_the_same_record(
    record: Command | Round, read: Callable[[bytes], object]
) -> None:
    signed = event_row(record, KEY).value

    assert signed.startswith(event_row(record).value[:-1])
    assert read(signed) == record
    assert KEY.check(signed) == "signed"
    assert signed == event_row(record, KEY).value, "equal records stay equal bytes"


def test_what_is_not_signed_by_this_key_is_told_apart() -> None:
    assert KEY.check(RECORD) == "unsigned"
    assert KEY.check(BEFORE.sign(RECORD)) == "wrong"
    assert KEY.check(RECORD[:-1] + b',"sig":"00"}') == "wrong"
    assert KEY.check(KEY.sign(RECORD)[:-1] + b',"epoch":9}') == "wrong", "behind the signature"


@given(st.integers(0, len(RECORD) + 70), st.integers(1, 255))
def test_no_byte_can_be_changed(place: int, difference: int) -> None:
    signed = bytearray(KEY.sign(RECORD))
    signed[place] ^= difference

    assert KEY.check(bytes(signed)) != "signed"


def test_the_key_comes_from_a_file_and_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("a-key-of-sufficient-length\n", "utf-8")

    key = signing_key(SigningSettings(str(file)))

    assert key is not None
    assert key.secret.reveal() == b"a-key-of-sufficient-length"
    assert "sufficient" not in f"{key} {key!r} {key.secret} {key.secret!r}"
    assert signing_key(SigningSettings()) is None


class Files:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, **names: str) -> SigningSettings:
        """Setting without `_file` → the key's content, a letter that is repeated."""
        for name, letter in names.items():
            (self._folder / name).write_text(letter * 32, "utf-8")
            (self._folder / name).chmod(0o600)
        return SigningSettings(**{f"{name}_file": str(self._folder / name) for name in names})


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_both_keys_are_accepted_and_the_new_one_signs() -> None:
    assert [DURING.check(key.sign(b'{"v":1}')) for key in (BEFORE, DURING, AFTER)] == ["signed"] * 3
    assert DURING.sign(b'{"v":1}') == AFTER.sign(b'{"v":1}')
    assert AFTER.check(BEFORE.sign(b'{"v":1}')) == "wrong"
    assert DURING.check(SigningKey(Secret(b"x" * 32)).sign(b'{"v":1}')) == "wrong"
    assert DURING.check(b'{"v":1}') == "unsigned"


def test_commands_in_flight_are_applied_at_every_step_of_the_change(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(command(ONE, one, two), key=BEFORE)
    assert run(pulsar, control, replace(APPLY, key=BEFORE)) == [("applied", "")]

    control.send(command(TWO, one, two), key=BEFORE)  # on its way when the executor gets the keys
    control.write("rounds", [event_row(replace(ROUND, cluster="c", epoch=0), BEFORE).value])
    control.send(command(THREE, one, two), key=AFTER)  # the job has the new key
    assert run(pulsar, control, replace(APPLY, key=DURING))[1:] == [("applied", "")] * 2

    control.send(command(FOUR, one, two), key=BEFORE)  # of somebody who still has the old key
    assert run(pulsar, control, replace(APPLY, key=AFTER))[3:] == [("refused", "wrong-signature")]


def test_a_plan_that_waits_for_people_outlives_both_changes(
    pulsar: FakePulsar, control: Control
) -> None:
    """Commands are held with the old signature, and approved with the new key of approvals."""
    one, two, _ = pulsar.cluster.brokers
    approvals = SigningKey(Secret(b"p" * 32), APPROVALS_KEY.secret)
    before = replace(APPLY, key=BEFORE, approvals_key=APPROVALS_KEY, approval_required=True)
    during = replace(before, key=DURING, approvals_key=approvals)
    first, second = command(ONE, one, two), command(TWO, one, two, round=2)
    control.send(first, second, key=BEFORE)
    assert run(pulsar, control, before) == []

    give(control, approval(first, key=BEFORE))
    give(control, approval(second, key=BEFORE), key=approvals)

    assert run(pulsar, control, during) == [("applied", ""), ("applied", "")]


def test_a_command_that_is_published_again_with_the_new_key_is_applied_once(
    pulsar: FakePulsar, control: Control
) -> None:
    """The job was killed in a micro-batch, and started with the new key."""
    one, two, _ = pulsar.cluster.brokers
    control.send(command(ONE, one, two), key=BEFORE)
    control.send(command(ONE, one, two), key=AFTER)

    statuses = [status for status, _ in run(pulsar, control, replace(APPLY, key=DURING))]

    assert statuses.count("applied") == 1
    assert len(pulsar.asked("PUT")) == 1


def test_drains_of_both_keys_are_accepted() -> None:
    records = [key.sign(encode_intent(drain(1, 0, "b1:8080"))) for key in (BEFORE, AFTER)]
    for record in records:
        assert decode(record, b"", DEFAULT_LIMITS, DURING).cluster == "c"
    with pytest.raises(WireError, match="is not of the key"):
        decode(records[0], b"", DEFAULT_LIMITS, AFTER)


@pytest.mark.parametrize(
    ("name", "read"),
    [("key", signing_key), ("approvals_key", approvals_key), ("intents_key", intents_key)],
)
def test_the_settings_name_both_keys(files: Files, name: str, read: object) -> None:
    assert callable(read)
    assert read(files(**{name: "n", f"previous_{name}": "o"})) == DURING
    with pytest.raises(SettingsError, match=rf"signing\.previous_{name}_file: names a key, but"):
        read(files(**{f"previous_{name}": "o"}))


def test_a_previous_key_of_commands_approves_nothing_either(files: Files) -> None:
    with pytest.raises(SettingsError, match="could approve its own plans"):
        approvals_key(files(key="n", previous_key="o", approvals_key="o"))
    with pytest.raises(SettingsError, match="could sign more than that"):
        intents_key(files(key="n", previous_key="o", intents_key="i", previous_intents_key="o"))


def test_notices_have_both_signatures(files: Files) -> None:
    names = files(key="n", previous_key="o")
    new, old = names.key_file, names.previous_key_file
    hook = webhook(NoticeSettings("http://a/b", key_file=new, previous_key_file=old))
    notice = Notice("test", "c", "Hello", 1, 1, NoticeCause("test", "A test.", ""))
    headers = headers_of(notice, b"{}", hook, 5)
    both = [signature(key, notice.id, 5, b"{}") for key in (NEW, OLD)]
    assert headers["webhook-signature"].split() == both
