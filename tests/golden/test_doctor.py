"""What the checks of `rebalancer doctor` find on this machine, in keys and in topics is in
doctor.txt, for good and for bad facts. Checks that ask servers are in tests/unit.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from pulsar_rebalancer.doctor.disk_and_topics import (
    check_checkpoint,
    check_disk,
    check_temporary,
    check_topics,
)
from pulsar_rebalancer.doctor.finding import Finding
from pulsar_rebalancer.doctor.java_python_and_spark import check_java, check_python
from pulsar_rebalancer.doctor.job_and_executor import check_epochs, check_executor
from pulsar_rebalancer.doctor.signing_keys_and_tokens import (
    check_approvals,
    check_expiry,
    check_intents,
    check_signing,
)
from sinks.executor.journal import Journal, Received
from sinks.executor.settings import ExecutorSettings
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.secret_file import Secret
from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.kafka.settings import KafkaSettings
from sinks.topics.topic_settings import Connections
from sinks.wire.record_decoding import Position
from sinks.wire.signing_keys import SigningKey, SigningSettings
from strategies.fold.engine import EngineSettings
from strategies.settings import LimitSettings, RoundSettings
from streaming.checkpoint.guard import guarded
from streaming.checkpoint.remembered_and_changed_settings import guard_of
from streaming.settings import JobSettings
from tests.control_topic import Control, command, now_ms
from tests.golden.printed import compare, steady, titled
from tests.topic_uris import topic_of, topics_of

ENGINE, KEY = EngineSettings(), "0123456789abcdef"
BUNDLE = "t/ns/0x00000000_0xffffffff"
Findings = Iterator[Finding | str]


def program(folder: Path, name: str, prints: str) -> str:
    file = folder / name / "bin" / "java"
    file.parent.mkdir(parents=True)
    file.write_text(f"#!/bin/sh\n{prints}\n", "utf-8")
    file.chmod(0o755)
    return str(file)


def java_and_python(folder: Path) -> Findings:
    versions = ("21.0.1", "1.8.0_402", "11.0.2", "25", "21-ea")
    for place, version in enumerate(versions):
        program(folder, str(place), f"echo 'openjdk version \"{version}\"' >&2")
        yield check_java({"JAVA_HOME": str(folder / str(place))})
    program(folder, "none", "echo 'no idea' >&2")
    for home in ("none", "nowhere"):
        yield check_java({"JAVA_HOME": str(folder / home)})
    yield check_java({"PATH": str(folder)})
    cluster = JobSettings(master="spark://host:7077")
    assert check_python({"PYSPARK_PYTHON": "/nowhere"}, JobSettings()).status == "ok"
    assert check_python({}, cluster).status == "ok"
    other = program(folder, "python", "echo 3.8")
    assert check_python({"PYSPARK_PYTHON": other}, cluster).status == "fail"
    assert check_python({"PYSPARK_PYTHON": "/nowhere"}, cluster).status == "warn"


def temporary_files(folder: Path) -> Findings:
    mounts = folder / "mounts"
    memory, disk = f"tmpfs {folder} tmpfs rw\n", f"/dev/a {folder} ext4 rw\n"
    for text in (f"/dev/a / ext4 rw\n{memory}", memory + disk):
        mounts.write_text(text, "utf-8")
        yield from check_temporary(folder, mounts, little_bytes=0)
    yield from check_temporary(folder, folder / "none", little_bytes=0)
    yield from check_temporary(folder, folder / "none", little_bytes=2**62)


def checkpoints(folder: Path) -> Findings:
    job = JobSettings(checkpoint=f"{folder}/checkpoint")
    yield check_checkpoint(job, ENGINE)
    assert not (folder / "checkpoint").exists()
    limited = replace(ENGINE, limits=LimitSettings(moves_per_round=3))
    with guarded(folder / "checkpoint", guard_of(job, ENGINE)):
        yield from (check_checkpoint(job, ENGINE), check_checkpoint(job, limited))
    for engine in (ENGINE, limited, limited, EngineSettings(round=RoundSettings(epoch=2))):
        yield check_checkpoint(job, engine)
    (folder / "other").mkdir()
    (folder / "other" / "holiday.jpg").touch()
    yield check_checkpoint(replace(job, checkpoint=f"{folder}/other"), ENGINE)
    for place in ("s3://bucket/x", f"{folder}/other/holiday.jpg/x"):
        yield check_checkpoint(replace(job, checkpoint=place), ENGINE)
    yield check_disk(replace(job, checkpoint="s3://bucket/x"))


def topics(folder: Path) -> Findings:
    with FileTopicWriter(folder / "telemetry") as writer:
        writer.append([b"{}"])
    for name in ("rounds", "outcomes", "approvals"):
        (folder / name).touch()
    control = Control(folder)
    names = ("telemetry", "commands", "rounds", "rejected", "outcomes", "approvals")
    named = topics_of(**{name: control.uri(name) for name in names})
    on_kafka = replace(named, commands=topic_of("kafka://host:9092/commands"))
    wrong = KafkaSettings(security_protocol="SSL", ca_file=f"{folder}/nowhere.pem")
    yield from check_topics(Connections(topics=on_kafka, kafka=wrong))
    signing = SigningSettings(approvals_key_file=f"{folder}/key")
    empty = replace(named, telemetry=topic_of(control.uri("rejected")))
    yield from check_topics(Connections(topics=empty, signing=signing))


def executor(folder: Path) -> Findings:
    def found(name: str) -> Finding:
        return check_executor(ExecutorSettings(state=f"{folder}/{name}"))

    yield found("state")
    assert not (folder / "state").exists()
    (folder / "file").touch()
    yield from (found("file/state"), found("file"))
    (folder / "state").mkdir()
    yield found("state")
    with closing(Journal(folder / "state")) as journal:
        journal.intend(Received("one", Position("commands", 0, 0), b"{}"), "a:1", now_ms())
        yield found("state")
    yield from (found("state"), found("state"))
    (folder / "state" / "pause").touch()
    yield found("state")
    for content in (b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 200):
        (folder / "state" / "journal.sqlite").write_bytes(content)
        yield replace(found("state"), text=found("state").text.partition(" cannot be used")[0])


def key_file(folder: Path, name: str, text: str = KEY, mode: int = 0o600) -> str:
    file = folder / name
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def keys_of_commands(folder: Path) -> Findings:
    control, ours = Control(folder), SigningKey(Secret(KEY.encode()))
    before = SigningKey(Secret(b"o" * 32))
    named = topics_of(commands=control.uri("commands"))
    signing = SigningSettings(key_file=key_file(folder, "key"))

    def found(signing: SigningSettings = signing) -> Finding:
        return check_signing(Connections(topics=named, signing=signing), now_ms())

    yield check_signing(Connections(), now_ms())
    for text in ("", "short"):
        yield found(SigningSettings(key_file=key_file(folder, "bad", text)))
    yield from (found(SigningSettings(key_file=f"{folder}/missing")), found())
    for mode in (0o400, 0o440, 0o644, 0o660, 0o602):
        yield found(SigningSettings(key_file=key_file(folder, "open", mode=mode)))
    changing = replace(signing, previous_key_file=key_file(folder, "previous", "o" * 32))
    control.send(command(BUNDLE, "a:1"), key=before)
    yield from (found(changing), found())
    control.send(command(BUNDLE, "a:1"), key=ours)
    yield from (found(changing), found())
    yield found(replace(changing, previous_key_file=key_file(folder, "previous", "o" * 32, 0o644)))
    control.send(*[command(BUNDLE, "a:1") for _ in range(20)], key=ours)
    yield found()
    control.send(command(BUNDLE, "a:1"))
    yield from (found(), found(SigningSettings(key_file=key_file(folder, "open", mode=0o644))))


def keys_of_people(folder: Path) -> Findings:
    """Keys of approvals and of intents, and the time that people have."""
    required = ExecutorSettings(approval="required")
    path = key_file(folder, "approvals")
    good = SigningSettings(approvals_key_file=path)
    previous = replace(good, previous_approvals_key_file=key_file(folder, "previous"))
    opened = SigningSettings(approvals_key_file=key_file(folder, "open", mode=0o644))
    yield from check_approvals(ExecutorSettings(), SigningSettings(), RoundSettings())
    yield from check_approvals(ExecutorSettings(), good, RoundSettings())
    for signing in (previous, opened, SigningSettings(), replace(good, key_file=path)):
        rounds = RoundSettings(command_ttl_ms=1_800_000, cool_down_ms=3_600_000)
        yield from check_approvals(required, signing, rounds)
    for ttl_ms in (300_000, 1_800_000, 3_600_000):
        rounds = RoundSettings(command_ttl_ms=ttl_ms, cool_down_ms=3_600_000)
        yield from check_approvals(required, good, rounds)
    yield from check_intents(SigningSettings())
    drains = SigningSettings(intents_key_file=path)
    for signing in (
        drains,
        replace(drains, previous_intents_key_file=key_file(folder, "previous")),
        SigningSettings(intents_key_file=key_file(folder, "open", mode=0o644)),
        replace(drains, key_file=path),
        SigningSettings(intents_key_file=f"{folder}/missing"),
    ):
        yield from check_intents(signing)


def tokens(folder: Path) -> Findings:
    now, hour, day = 1_800_000_000, 3_600, 86_400

    def part(tree: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(tree).encode()).rstrip(b"=").decode()

    claims: tuple[dict[str, object], ...] = (
        {},
        {"exp": now + 30 * day},
        {"exp": now + 3 * day},
        {"exp": now + 3 * hour + 0.5},
        {"exp": now + 55 * 60, "iat": now - 5 * 60},
        {"exp": now + 5 * 60, "iat": now - 55 * 60},
        {"exp": now},
        {"exp": now - 2 * day, "nbf": now + day},
        {"exp": now + 30 * day, "nbf": now + 2 * hour},
        {"exp": now + 30 * day, "nbf": now - 1},
        {"exp": 10**400},
        {"exp": "tomorrow"},
        {"exp": True},
    )
    opaque = ["opaque", "a.b", "a.b.c.d.e", "x.\u00e4.y", "x.%%%.y", f"x.{'W' * 4000}.y"]
    opaque += [f"x.{part(tree)}.y" for tree in ([1], None)]
    signed = [f"{part({'alg': 'HS256'})}.{part({'sub': 'a', **one})}.c2ln" for one in claims]
    for token in (*signed, *opaque):
        (folder / "token").write_text(token)
        yield from check_expiry(PulsarSettings("c", token_file=f"{folder}/token"), now)
    yield from check_expiry(PulsarSettings("c", token_file=f"{folder}/missing"), now)
    yield from check_expiry(PulsarSettings("c"), now)


def a_round(epoch: int, number: int = 0, *commands: str, cluster: str = "c", ts: int = 0) -> bytes:
    made = {"epoch": epoch, "round": number, "ts": ts, "commands": commands}
    return msgspec.json.encode({"v": 1, "cluster": cluster, **made})


def epochs(folder: Path) -> Findings:
    """Rounds that are on the topic already, and the epoch of this checkpoint."""
    two = [a_round(1), a_round(1, cluster="d"), a_round(2), a_round(2, cluster="d")]
    same = [a_round(1, 1), a_round(1, 2, "a"), a_round(1, 1), a_round(1, 2, "a"), a_round(1, 3)]
    differing = [*same, a_round(1, 3, "c"), a_round(1, 4, ts=1), a_round(1, 4, ts=2)]
    other = [a_round(1), a_round(2, cluster="d"), a_round(1), a_round(2, cluster="d")]
    stories: tuple[tuple[list[bytes], int | None], ...] = (
        ([], None),
        ([a_round(1), a_round(2)], 2),
        ([a_round(1), a_round(2), a_round(1)], 1),
        ([a_round(1), a_round(2), a_round(1), a_round(2), a_round(2)], 2),
        (same, 1),
        (differing, 1),
        ([*differing, a_round(2)], 1),
        (other, 1),
        ([*two, b"not json"], None),
    )
    for place, (records, ours) in enumerate(stories):
        yield examined(folder / str(place), records, ours)
    (folder / "damaged" / "checkpoint").mkdir(parents=True)
    (folder / "damaged" / "checkpoint" / "rebalancer.json").write_text("{}", "utf-8")
    yield examined(folder / "damaged", [], None)


def examined(folder: Path, records: list[bytes], ours: int | None) -> Finding:
    control = Control(folder)
    control.write("rounds", records)
    named = topics_of(rounds=control.uri("rounds"))
    job = JobSettings(checkpoint=f"{folder}/checkpoint", connections=Connections(topics=named))
    if ours is not None:
        with guarded(folder / "checkpoint", guard_of(job, ENGINE), lambda: ours):
            pass
    return check_epochs(job)


STORIES: tuple[Callable[[Path], Findings], ...] = (
    java_and_python, temporary_files, checkpoints, topics, executor, keys_of_commands,
    keys_of_people, tokens, epochs,
)  # fmt: skip


def told_by(stories: Iterable[Callable[[Path], Findings]], root: Path) -> Iterator[str]:
    """The findings of stories, each of which has a folder of its own."""
    for story in stories:
        (folder := root / story.__name__).mkdir()
        yield from (titled(story), *lines(story(folder), root), "\n")


def lines(found: Iterable[Finding | str], folder: Path) -> Iterator[str]:
    for one in found:
        if isinstance(one, str):
            yield f"{one}\n"
        else:
            remedy = f"      → {one.remedy}\n" if one.remedy else ""
            yield steady(f"{one.status:4}  {one.check}: {one.text}\n{remedy}", folder)


@pytest.mark.heavy
def test_checks_find_what_the_file_says(tmp_path: Path, rewrite: bool) -> None:
    compare(Path(__file__).with_name("doctor.txt"), told_by(STORIES, tmp_path), rewrite)
