"""From the topics to the webhook: only changes, across restarts, and no secret is printed."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from sinks.metrics.http_server_and_probes import Liveness
from sinks.metrics.settings import address_of
from sinks.secret_file import Secret
from sinks.topics.files.topic import FileTopicWriter
from sinks.wire.record_encoding import encode_outcome, encode_round
from sinks.wire.signing_keys import SigningKey
from tests.control_topic import TOPICS, now_ms
from tests.notice_builders import MINUTE, a_round
from tests.unit.command_line import Answer, rebalancer
from tests.unit.metric_samples import get, scraped
from tests.unit.test_notices import an_outcome
from tools.processes.process import WITH_TRACES, Process
from tools.processes.set_words import set_words
from tools.servers.webhook import Answered, Hook, listening
from tools.waiting import eventually

SECRET = "T0secret/B0secret/nobody-may-see-this"
KEY = "the-key-nobody-may-see-0123456789"


class Stage:
    """Topics, settings and a webhook with a secret address."""

    def __init__(self, folder: Path, hook: Hook) -> None:
        self.folder, self.hook, self.number = folder, hook, 0
        secrets = folder / "secrets"
        secrets.mkdir(parents=True)
        (secrets / "url").write_text(f"http://127.0.0.1:{hook.port}/{SECRET}")
        (secrets / "key").write_text(KEY)
        self.settings: dict[str, object] = {
            **{f"topics.{name}": f"file://{folder}/{name}" for name in TOPICS},
            "notices.url_file": secrets / "url",
            "notices.key_file": secrets / "key",
            "notices.state": folder / "state",
            "notices.settle_rounds": 2,
        }

    def words(self, **more: object) -> list[str]:
        changed = {name.replace("__", "."): value for name, value in more.items()}
        return set_words({**self.settings, **changed})

    def notify(self, *words: str, **more: object) -> Answer:
        return rebalancer("notify", *words, *self.words(**more))

    def publish(self, *codes: str, key: SigningKey | None = None, **changes: object) -> None:
        """The next rounds, of the present time."""
        for code in codes:
            self.number += 1
            one = a_round(code, self.number, ts=now_ms(), **changes)
            self.write("rounds", encode_round(one), key)

    def write(self, topic: str, value: bytes, key: SigningKey | None = None) -> None:
        with FileTopicWriter(self.folder / topic) as writer:
            writer.append([value if key is None else key.sign(value)])

    def leaks(self, *printed: str) -> list[str]:
        """Where the secrets can be read, but for their own files."""
        files = [file for file in self.folder.rglob("*") if file.is_file()]
        texts = {str(one): one.read_bytes() for one in files if one.parent.name != "secrets"}
        texts |= {text[:40]: text.encode() for text in printed}
        texts |= {f"notice {n}": one.body for n, one in enumerate(self.hook.received)}
        secrets = [secret.encode() for secret in (*SECRET.split("/"), KEY)]
        return [place for place, text in texts.items() if any(one in text for one in secrets)]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with listening() as hook:
        yield Stage(tmp_path / "stage", hook)


def test_only_changes_that_last_are_sent_and_a_restart_repeats_none(stage: Stage) -> None:
    assert stage.notify("--once").code == 0
    stage.publish("balanced", "acting", "cannot-help", "balanced", "cannot-help", "cannot-help")
    first = stage.notify("--once")
    stage.publish("cannot-help", "cannot-help")
    second = stage.notify("--once")
    stage.publish("balanced", "balanced")
    third = stage.notify("--once")

    assert [one.code for one in (first, second, third)] == [0, 0, 0]
    assert stage.hook.kinds == ["cannot-help", "ended"]
    assert {one.path for one in stage.hook.received} == {f"/{SECRET}"}
    assert stage.hook.received[0].json["picture"] == (
        "1 of 3 brokers above the rest: b1:8080 82 %; lowest b3:8080 31 %; spread 51 points"
    )
    host = f"127.0.0.1:{stage.hook.port}"
    assert f"delivered cannot-help of prod: {host} answered 200" in first.err
    assert stage.leaks(first.err, second.err, third.err) == []


def test_outcomes_and_foreign_records(stage: Stage) -> None:
    assert stage.notify("--once").code == 0
    failed = replace(an_outcome("failed", "cluster-silent: no answer"), ts=now_ms())
    stage.write("outcomes", b"not a record")
    stage.write("outcomes", encode_outcome(failed))
    stage.write("rounds", b"{}")
    answer = stage.notify("--once")
    assert (answer.code, stage.hook.kinds) == (0, ["failed"])
    assert stage.hook.received[0].json["command"] == failed.command_id
    assert answer.err.count("skipped 1 record") == 2


def test_a_silent_cluster(stage: Stage) -> None:
    assert stage.notify("--once").code == 0
    late = a_round("balanced", 1, ts=now_ms() - 10 * MINUTE)
    stage.write("rounds", encode_round(late))
    for _ in range(2):
        assert stage.notify("--once").code == 0
    assert stage.hook.kinds == ["silent"]


def test_rounds_without_our_signature_count_for_nothing(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "signing").write_text(KEY)
    ours = SigningKey(Secret(KEY.encode()))
    signed = {"signing__key_file": tmp_path / "signing"}
    assert stage.notify("--once", **signed).code == 0
    stage.publish("blind", "blind", "blind", epoch=2**53)
    stage.publish("cannot-help", "cannot-help", key=ours)
    answer = stage.notify("--once", **signed)
    assert stage.hook.kinds == ["cannot-help"]
    assert "not signed with signing.key_file" in answer.err


def test_a_notice_that_is_given_up_does_not_hold_the_next_one(stage: Stage) -> None:
    assert stage.notify("--once").code == 0
    stage.publish("blind", "blind", "not-allowed", "not-allowed")
    stage.hook.answers.append(Answered(403))
    answer = stage.notify("--once")
    assert stage.hook.kinds == ["blind", "not-allowed"]
    assert "error: gave up blind of prod at attempt 1: " in answer.err
    assert "answered 403" in answer.err
    assert stage.leaks(answer.err) == []


def test_a_test_notice(stage: Stage) -> None:
    good = stage.notify("--test")
    stage.hook.answers.append(Answered(404))
    bad = stage.notify("--test", notices__form="slack")
    assert (good.code, bad.code) == (0, 1)
    assert stage.hook.received[0].json["kind"] == "test"
    assert stage.hook.received[1].json["text"].startswith("test — this is a test")
    assert "delivered test: " in good.err, "a test needs no cluster"
    assert not (stage.folder / "state").exists()
    assert stage.leaks(good.err, bad.err) == []


def test_a_long_pause_turns_the_loop_and_ends_when_the_process_stops() -> None:
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) == 5

    in_turns = Liveness(1.0, "a step").turning(wait)
    assert not in_turns(150.0)
    assert in_turns(3_600.0)
    assert pauses == [60.0, 60.0, 30.0, 60.0, 60.0]


def test_a_damaged_file_and_one_of_another_version(stage: Stage) -> None:
    assert stage.notify("--once").code == 0
    file = stage.folder / "state" / "notices.json"
    newer = file.read_text().replace('"v":1', '"v":2', 1)
    complaints = {"{": "is damaged", newer: "was written by another version"}
    for content, complaint in complaints.items():
        file.write_text(content)
        answer = stage.notify("--once")
        assert (answer.code, complaint in answer.err) == (1, True)


@pytest.mark.heavy
def test_a_process_that_is_killed_repeats_its_notice_counts_and_ends_on_sigterm(
    stage: Stage, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    words = stage.words(metrics__listen="127.0.0.1:0", log__format="json")
    with ExitStack() as stack:

        def start() -> Process:
            process = Process(log, "notify", *words, environment=WITH_TRACES)
            return stack.enter_context(process)

        first = start()
        eventually((stage.folder / "state" / "notices.json").exists)
        stage.hook.answers += [Answered(wait=first.kill), Answered(500), Answered(429)]
        stage.publish("blind", "blind")
        assert first.ended(60) == -signal.SIGKILL
        log.write_bytes(b"")
        second = start()
        eventually(lambda: '"delivered blind of' in log.read_text())
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        (address,) = (one["address"] for one in lines if "address" in one)
        served = address_of(address, "", 0)
        eventually(lambda: get(served, "/readyz")[0] == 200)
        page = get(served, "/metrics")[2]
        twin = stage.notify("--once")
        assert second.stop(60) == 0
    found = scraped(page)
    assert len(stage.hook.ids) == 4
    assert len({*stage.hook.ids}) == 1
    assert found["pulsar_rebalancer_notices_waiting",] == 0
    assert found["pulsar_rebalancer_notices_delivered_total", "blind"] == 1
    assert found["pulsar_rebalancer_notice_deliveries_failed_total", "500"] == 1
    assert found["pulsar_rebalancer_notice_deliveries_failed_total", "429"] == 1
    assert "Another notifier uses" in twin.err
    assert stage.leaks(log.read_text(), page) == []
