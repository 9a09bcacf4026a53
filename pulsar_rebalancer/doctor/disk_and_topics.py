"""Checks of the places that the job reads and writes: disk, checkpoint, topics."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pulsar_rebalancer.doctor.finding import Finding, Rule, evaluate, ok
from sinks.topics.files.segments import segments
from sinks.topics.kafka.codecs import PACKAGES, broken_codecs
from sinks.topics.kafka.settings import kafka_access
from sinks.topics.pulsar.partition import PulsarLink
from sinks.topics.topic_admin import PulsarTopicFacts, pulsar_topic_facts, topic_facts
from sinks.topics.topic_settings import Connections, Topics, TopicUri
from strategies.errors import RebalancerError, SettingsError, Unauthorized
from strategies.figures.texts_of_counts_names_and_ages import counted
from strategies.fold.engine import EngineSettings
from streaming.checkpoint.guard import (
    CheckpointInUse,
    checkpoint_folder,
    foreign_names,
    guarded,
    other_settings,
)
from streaming.checkpoint.remembered_and_changed_settings import GUARD, guard_of, read_guard
from streaming.first_start import warming
from streaming.settings import JobSettings, uses_kafka

LITTLE_BYTES = 2**30
#: A job that was down for this duration must still find all records.
SHORT_RETENTION_MS = 3_600_000


def check_disk(job: JobSettings) -> Finding:
    """Checks the free space on the checkpoint's disk; state and changelogs grow with brokers and
    time.
    """
    try:
        above = existing(checkpoint_folder(job))
        free = shutil.disk_usage(above).free
    except (SettingsError, OSError) as error:
        return Finding("disk", "fail", str(error), "set job.checkpoint to a folder of this machine")
    text = f"{free / 2**30:.1f} GiB free at {above}"
    return evaluate(
        "disk",
        text,
        Rule(
            free < 100 * 2**20,
            "fail",
            text,
            "free space, or set job.checkpoint to a folder on another disk",
        ),
        Rule(free < LITTLE_BYTES, "warn", text, "free space: a full disk stops the job"),
    )


def check_temporary(
    folder: Path, mounts: Path = Path("/proc/mounts"), little_bytes: int = LITTLE_BYTES
) -> Iterator[Finding]:
    """Checks the folder of the job's temporary files; a finding only if there is something to do.
    `mounts`: the file systems of this machine, in the form of Linux.
    """
    free = shutil.disk_usage(existing(folder)).free
    in_memory = _kind(folder, mounts) in ("tmpfs", "ramfs")
    if not in_memory and free >= little_bytes:
        return
    where = "is in memory (tmpfs), with" if in_memory else "has"
    yield Finding(
        "temporary files",
        "warn",
        f"{folder} {where} {free / 2**30:.1f} GiB free; Spark keeps its copy of the state "
        "there, and a backlog of large records needs twice its size there",
        "set TMPDIR to a folder on a disk with room, for example that of job.checkpoint",
    )


def _kind(folder: Path, mounts: Path) -> str:
    """The kind of the file system of a folder; empty if it is not known."""
    try:
        lines = [line.split() for line in mounts.read_text("utf-8").splitlines()]
    except OSError:
        return ""
    # A later line of the same length is mounted over the earlier one.
    above = [
        (len(place), number, kind)
        for number, (_, place, kind, *_) in enumerate(lines)
        if folder.resolve().is_relative_to(place)
    ]
    return max(above, default=(0, 0, ""))[2]


def check_checkpoint(job: JobSettings, engine: EngineSettings) -> Finding:
    """Checks that the checkpoint is writable and belongs to these settings. A running job may use
    it. Creates nothing.
    """
    try:
        folder = checkpoint_folder(job)
        if not (folder / GUARD).exists():
            return _new_checkpoint(folder)
        return _checkpoint(folder, job, engine)
    except SettingsError as error:
        return Finding("checkpoint", "fail", error.complaints[0], error.complaints[-1])
    except RebalancerError as error:
        return Finding("checkpoint", "fail", str(error), "set job.checkpoint to a new folder")


def _checkpoint(folder: Path, job: JobSettings, engine: EngineSettings) -> Finding:
    guard, warm = guard_of(job, engine), warming(job, engine)
    written = read_guard(folder)
    if written.state != guard.state and warm.minutes:
        return Finding(
            "checkpoint",
            "warn",
            f"{folder} was written by version {written.product} in another state format",
            "nothing: the next start keeps it aside and begins a new checkpoint, for which "
            f"{warm.in_words}",
        )
    try:
        with guarded(folder, guard, warming=warm, timeout_s=0, keep=False) as held:
            changed = ""
            if held.change is not None:
                names = ", ".join(held.change.settings)
                changed = f"; changed since the last start, which is allowed: {names}"
            return ok("checkpoint", f"{folder} belongs to these settings{changed}")
    except CheckpointInUse:
        others = other_settings(folder, guard)
    return evaluate(
        "checkpoint",
        f"{folder} belongs to these settings and is in use by a job",
        Rule(
            bool(others),
            "warn",
            f"{folder} is in use by a job with other settings: {', '.join(others)}",
            "restart the job to apply these settings, or give them a job.checkpoint of their own",
        ),
    )


def check_topics(connections: Connections, *, expired: bool = False) -> Iterator[Finding]:
    """One finding per topic. A server that does not answer, or refuses the token, gets no further
    requests.

    `expired`: the token of [pulsar] is not valid now. Brokers get no requests then: the client
    would repeat a refused one to its timeout.
    """
    silent: dict[str, str] = {}
    if expired:
        silent = {topic.service_url: "token expiry" for topic in pulsar_topics(connections)}
    for name, topic in connections.topics.named():
        if name == "approvals" and not connections.signing.approvals_key_file:
            continue
        found = _check_topic(name, topic, connections, silent)
        # The job needs neither outcomes nor approvals. If a folder has the default name, it need
        # not exist on this machine.
        in_folder = (
            name in ("outcomes", "approvals") and found.status == "fail" and topic.scheme == "file"
        )
        yield replace(found, status="warn") if in_folder else found


def check_codecs(topics: Topics, broken: Callable[[], list[str]] = broken_codecs) -> list[Finding]:
    """Checks that records of Kafka topics can be decompressed here: each producer chooses its own
    codec. No finding if no topic is on Kafka. `broken`: returns the codecs that do not work here.
    """
    if not uses_kafka(topics):
        return []
    names = broken()
    packages = " ".join(PACKAGES[name] for name in names if PACKAGES[name])
    return [
        evaluate(
            "kafka codecs",
            f"{', '.join(PACKAGES)} can be read",
            Rule(
                bool(names),
                "fail",
                f"records in {' and '.join(names)} cannot be read: record, replay, explain, "
                "shadow, execute and a new checkpoint fail at them",
                f"pip install {packages}" if packages else "install a Python with zlib",
            ),
        )
    ]


def pulsar_topics(connections: Connections) -> list[TopicUri]:
    """The job's topics that are on Pulsar."""
    return [topic for _, topic in connections.topics.named() if topic.scheme == "pulsar"]


def existing(folder: Path) -> Path:
    """The folder, or its nearest parent that exists."""
    return next(above for above in (folder, *folder.parents) if above.exists())


def writable(folder: Path) -> bool:
    """True if this user may create files in it."""
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _new_checkpoint(folder: Path) -> Finding:
    above = existing(folder)
    usable = writable(above)
    return evaluate(
        "checkpoint",
        f"{folder} will be created",
        Rule(
            not usable,
            "fail",
            f"{folder} cannot be created: {above} is not writable",
            "set job.checkpoint to a writable folder",
        ),
        Rule(
            usable and above == folder and bool(foreign_names(folder)),
            "fail",
            f"{folder} has files that are not a checkpoint's",
            "set job.checkpoint to an empty or new folder",
        ),
    )


def _check_topic(
    name: str, topic: TopicUri, connections: Connections, silent: dict[str, str]
) -> Finding:
    check = f"topic {name}"
    if topic.service_url in silent:
        return Finding(
            check,
            "fail",
            f"{topic}: not checked",
            f"see the finding about {silent[topic.service_url]}",
        )
    try:
        if topic.scheme == "kafka":
            return _check_kafka(check, topic, connections)
        if topic.scheme != "file":
            return _check_pulsar(check, topic, connections)
        return _check_file(name, topic.folder)
    except RebalancerError as error:
        silences = error.retryable or isinstance(error, Unauthorized)
        if topic.scheme == "kafka":
            silences = not isinstance(error, SettingsError)
        if silences and topic.scheme != "file":
            silent[topic.service_url] = check
        return Finding(check, "fail", str(error), f"correct that, or change topics.{name}")


def _check_file(name: str, folder: Path) -> Finding:
    known, above = segments(folder), existing(folder)
    return evaluate(
        f"topic {name}",
        f"{folder}, {counted(len(known), 'segment')}" if known else f"{folder} will be created",
        Rule(
            not writable(above),
            "fail",
            f"{above} is not writable",
            f"change its owner, or topics.{name}",
        ),
        Rule(
            name == "telemetry" and not known,
            "warn",
            f"{folder} has no records yet",
            f"start the program that writes there, or change topics.{name}",
        ),
    )


def _check_kafka(check: str, topic: TopicUri, connections: Connections) -> Finding:
    facts = topic_facts(topic, kafka_access(connections.kafka))
    if facts is None:
        return _no_topic(check, topic)
    kept = facts.configs.get("retention.ms", "")
    kept_ms = int(kept) if kept.isdecimal() else SHORT_RETENTION_MS
    copies = "one copy" if facts.replicas == 1 else f"{facts.replicas} copies"
    return evaluate(
        check,
        f"{topic}, {counted(facts.partitions, 'partition')}, {copies}",
        Rule(
            facts.compacted,
            "fail",
            f"{topic} is compacted",
            "set its cleanup.policy to delete: all records of a cluster have the same key, so "
            "compaction removes all but the newest",
        ),
        Rule(
            kept_ms < SHORT_RETENTION_MS,
            "warn",
            f"{topic} keeps records for {kept_ms / 60_000:g} min only",
            "raise its retention.ms: records that the job has not read by then are lost, and "
            "replays need older records",
        ),
        Rule(
            facts.leaderless > 0,
            "fail",
            f"{topic}: {facts.leaderless} of {facts.partitions} partitions have no leader",
            "start the missing brokers",
        ),
    )


def _no_topic(check: str, topic: TopicUri) -> Finding:
    return Finding(
        check, "fail", f"{topic}: no such topic", "create it with: rebalancer topics create"
    )


def _check_pulsar(check: str, topic: TopicUri, connections: Connections) -> Finding:
    # The admin API first: it refuses a wrong token at once. The client of topics only times out,
    # without a reason.
    facts = pulsar_topic_facts(topic, connections.pulsar) if connections.pulsar.admin_urls else None
    if connections.pulsar.admin_urls and facts is None:
        return _no_topic(check, topic)
    with closing(PulsarLink(topic, connections.pulsar)) as link:
        partitions = counted(len(link.partitions()), "partition")
    if facts is None:
        return Finding(
            check,
            "warn",
            f"{topic}, {partitions}; its retention is unknown",
            "set pulsar.cluster and pulsar.admin_urls, so that doctor can check its retention",
        )
    kept = f"keeps records for {_retention(facts)}"
    return evaluate(
        check,
        f"{topic}, {partitions}, {kept}",
        Rule(
            facts.deletes_acknowledged,
            "fail",
            f"{topic} keeps no records",
            "set a retention: rebalancer topics create --update, or one on its namespace; "
            "without it, brokers may delete records that "
            "the job has not read. A topic that brokers deleted while it was idle lost its "
            "retention",
        ),
        Rule(
            bool(facts.deleted_when_idle),
            "warn",
            f"{topic} {kept}, but brokers delete it, with its retention, while it is empty and "
            "unused",
            "switch off its deletion: rebalancer topics create --update, or pulsar-admin "
            "topicPolicies set-inactive-topic-policies",
        ),
    )


def _retention(facts: PulsarTopicFacts) -> str:
    minutes = facts.retention_minutes
    if minutes is None:
        return "an unknown time"
    return "ever" if minutes < 0 else f"{minutes / 60:g} h"
