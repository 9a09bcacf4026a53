"""Doctor looks at what an executor needs on this machine: its folder, its journal, its brake, and
the key that it demands.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from pulsar_rebalancer.cli.finding import Finding
from pulsar_rebalancer.doctor.executor import check_executor
from pulsar_rebalancer.doctor.keys import check_approvals, check_intents, check_signing
from sinks.executor.journal import Journal, Received
from sinks.executor.settings import ExecutorSettings
from sinks.secret_file import Secret
from sinks.topics.connections import Connections
from sinks.topics.kafka.settings import KafkaSettings
from sinks.wire.position import Position
from sinks.wire.signing import SigningKey, SigningSettings
from strategies.settings import RoundSettings
from tests.control_topic import Control, command, now_ms
from tests.topic_uris import topics_of

TOPIC = Position("commands", 0, 0)


def executor(folder: Path) -> Finding:
    return check_executor(ExecutorSettings(state=str(folder)))


def test_a_folder_that_is_not_there_yet_is_not_made_by_looking(tmp_path: Path) -> None:
    found = executor(tmp_path / "state")
    assert (found.status, found.text) == ("ok", f"{tmp_path}/state will be created")
    assert not (tmp_path / "state").exists()


def test_a_folder_below_a_file_is_a_warning_because_the_job_needs_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = executor(tmp_path / "file" / "state")
    assert (found.status, "executor.state" in found.remedy) == ("warn", True)
    assert executor(tmp_path / "file").status == "fail"


def test_a_journal_is_read_and_left_as_it_is(tmp_path: Path) -> None:
    assert executor(tmp_path).text == f"{tmp_path} has no journal yet"
    with closing(Journal(tmp_path)) as journal:
        journal.intend(Received("one", TOPIC, b"{}"), "a:1", now_ms())
    for _ in range(2):
        found = executor(tmp_path)
        assert found.status == "ok"
        assert (
            found.text
            == f"{tmp_path}, no executor runs; 1 commands are unfinished; the next start checks "
            "them"
        )


@pytest.mark.heavy
def test_a_running_executor_is_fine(tmp_path: Path) -> None:
    with closing(Journal(tmp_path)):
        found = executor(tmp_path)
    assert (found.status, found.text) == ("ok", f"{tmp_path} is in use by a running executor")


@pytest.mark.parametrize(
    "content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 200]
)
def test_a_damaged_journal_is_a_failure(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "journal.sqlite").write_bytes(content)
    found = executor(tmp_path)
    assert (found.status, "journal.sqlite cannot be used" in found.text) == ("fail", True)


def test_a_brake_that_somebody_left_on_is_told(tmp_path: Path) -> None:
    (tmp_path / "pause").touch()
    found = executor(tmp_path)
    assert (found.status, f"{tmp_path}/pause exists" in found.text) == ("warn", True)


class Keys:
    """A control topic, and the key of the settings in a file of its own."""

    def __init__(self, folder: Path, text: str = "0123456789abcdef") -> None:
        self.control, self.file, self.key = (
            Control(folder),
            folder / "key",
            SigningKey(Secret(text.encode())),
        )
        self.file.write_text(text)
        self.file.chmod(0o600)

    def found(self) -> Finding:
        topics = topics_of(commands=self.control.uri("commands"))
        return check_signing(
            Connections(topics=topics, signing=SigningSettings(str(self.file))), now_ms()
        )


OTHER = SigningKey(Secret(b"a key of another job"))


def test_no_key_is_told_and_no_failure() -> None:
    found = check_signing(Connections(), now_ms())
    assert (found.status, found.text.partition(":")[0]) == ("ok", "none")


@pytest.mark.parametrize("text", ["", "short"])
def test_a_key_that_cannot_be_used_is_a_failure(tmp_path: Path, text: str) -> None:
    assert Keys(tmp_path, text).found().status == "fail"


def test_a_key_that_is_missing_is_a_failure(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    keys.file.unlink()
    assert (keys.found().status, "cannot be read" in keys.found().text) == ("fail", True)


def test_the_newest_commands_are_compared_with_the_key(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    assert (
        keys.found().text
        == f"{keys.file} is usable; there are no commands of the last day to compare with"
    )
    keys.control.send(command("t/ns/0x00000000_0xffffffff", "a:1"), key=OTHER)
    wrong = keys.found()
    assert (wrong.status, "wrong-signature" in wrong.remedy) == ("fail", True)
    keys.control.send(command("t/ns/0x00000000_0xffffffff", "a:1"), key=keys.key)
    mixed = keys.found()
    assert mixed.status == "warn"
    assert (
        "of the newest 2 commands 1 are signed with it, 1 are signed with another key" in mixed.text
    )
    keys.control.send(
        *[command("t/ns/0x00000000_0xffffffff", "a:1") for _ in range(20)], key=keys.key
    )
    assert (keys.found().status, keys.found().text) == (
        "ok",
        f"{keys.file} is usable and signed the newest 20 commands",
    )
    keys.control.send(command("t/ns/0x00000000_0xffffffff", "a:1"))
    unsigned = keys.found()
    assert (unsigned.status, "(unsigned)" in unsigned.remedy) == ("fail", True)


@pytest.mark.parametrize(
    ("mode", "status"),
    [
        (0o600, "ok"),
        (0o400, "ok"),
        (0o440, "ok"),
        (0o644, "warn"),
        (0o660, "warn"),
        (0o602, "warn"),
    ],
)
def test_a_key_that_others_can_read_or_change_is_told(
    tmp_path: Path, mode: int, status: str
) -> None:
    keys = Keys(tmp_path)
    keys.file.chmod(mode)
    found = keys.found()
    assert found.status == status
    assert found.remedy == ("" if status == "ok" else f"chmod 600 {keys.file}")


def test_what_is_wrong_with_the_commands_counts_more_than_who_can_read_the_key(
    tmp_path: Path,
) -> None:
    keys = Keys(tmp_path)
    keys.file.chmod(0o644)
    keys.control.send(command("t/ns/0x00000000_0xffffffff", "a:1"), key=OTHER)
    assert keys.found().status == "fail"


def test_commands_that_cannot_be_read_leave_the_key_usable(tmp_path: Path) -> None:
    topics = topics_of(commands="kafka://127.0.0.1:1/commands")
    kafka = KafkaSettings(timeout_ms=100)
    found = check_signing(
        Connections(topics=topics, kafka=kafka, signing=SigningSettings(str(Keys(tmp_path).file))),
        now_ms(),
    )
    assert (found.status, found.remedy) == ("warn", "see the finding about topic commands")


def approvals(
    folder: Path, mode: int = 0o600, ttl_ms: int = 1_800_000, **more: str
) -> list[Finding]:
    """The finding about a key of approvals in a file of the folder."""
    file = folder / "approvals-key"
    file.write_text("0123456789abcdef-approvals")
    file.chmod(mode)
    signing = SigningSettings(**{"approvals_key_file": str(file), **more})
    rounds = RoundSettings(command_ttl_ms=ttl_ms, cool_down_ms=3_600_000)
    return list(check_approvals(ExecutorSettings(approval="required"), signing, rounds))


def test_without_approvals_there_is_nothing_to_check() -> None:
    assert list(check_approvals(ExecutorSettings(), SigningSettings(), RoundSettings())) == []


def test_a_key_of_approvals_that_is_only_for_pauses(tmp_path: Path) -> None:
    (good,) = approvals(tmp_path)
    assert (good.status, good.text.partition(";")[0]) == ("ok", "plans wait for approval")
    signing = SigningSettings(approvals_key_file=str(tmp_path / "approvals-key"))
    (found,) = check_approvals(ExecutorSettings(), signing, RoundSettings())
    assert (found.status, found.text.partition(";")[0]) == ("ok", "not required")


def test_people_need_time_to_approve(tmp_path: Path) -> None:
    (found,) = approvals(tmp_path, ttl_ms=300_000)
    assert found.status == "warn"
    assert "commands expire after 5 min" in found.text
    assert "round.command_ttl_ms" in found.remedy


def test_a_bundle_rests_longer_than_its_plan_waits(tmp_path: Path) -> None:
    (found,) = approvals(tmp_path, ttl_ms=3_600_000)
    assert (found.status, "it may not rest at all" in found.text) == ("warn", True)
    assert "round.cool_down_ms" in found.remedy


def test_a_key_of_approvals_that_others_read_is_a_warning(tmp_path: Path) -> None:
    (found,) = approvals(tmp_path, mode=0o644)
    assert (found.status, "0644" in found.text) == ("warn", True)


def test_approvals_without_a_key_of_their_own_are_a_failure(tmp_path: Path) -> None:
    (found,) = approvals(tmp_path, approvals_key_file="")
    assert (found.status, "signing.approvals_key_file is empty" in found.text) == ("fail", True)
    (found,) = approvals(tmp_path, key_file=str(tmp_path / "approvals-key"))
    assert (found.status, "could approve its own plans" in found.text) == ("fail", True)
    (found,) = approvals(tmp_path, approvals_key_file="/nowhere")
    assert (found.status, "cannot be read" in found.text) == ("fail", True)


def intents_key(folder: Path, mode: int = 0o600, **more: str) -> list[Finding]:
    """The finding about a key of intents in a file of the folder."""
    file = folder / "intents-key"
    file.write_text("0123456789abcdef-intents")
    file.chmod(mode)
    return list(check_intents(SigningSettings(**{"intents_key_file": str(file), **more})))


def test_the_key_of_intents_is_checked_if_there_is_one(tmp_path: Path) -> None:
    assert list(check_intents(SigningSettings())) == []
    (good,) = intents_key(tmp_path)
    assert (good.check, good.status) == ("intents key", "ok")
    (readable,) = intents_key(tmp_path, mode=0o644)
    assert (readable.status, "0644" in readable.text) == ("warn", True)
    assert readable.remedy.startswith("chmod 600 ")
    (same,) = intents_key(tmp_path, key_file=str(tmp_path / "intents-key"))
    assert (same.status, "the same key as signing.key_file" in same.text) == ("fail", True)
    (missing,) = intents_key(tmp_path, intents_key_file=str(tmp_path / "nothing"))
    assert missing.status == "fail"
