"""Where the topics are, and what a process needs to read and write them: their URIs, the settings
of their servers and folders, and the form of their records.

A topic URI is the same everywhere: file:///folder, kafka://host:port/topic,
pulsar://host:port/tenant/namespace/topic. `pulsar+ssl://` is Pulsar's own scheme for a TLS port.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote, unquote, urlsplit

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.kafka.settings import KafkaSettings
from sinks.wire.raw_broker_reports import SourceSettings
from sinks.wire.record_decoding import WireLimits
from sinks.wire.signing_keys import SigningSettings
from strategies.cluster.budget import HOUR_MS
from strategies.errors import SettingsError
from strategies.settings import Setting

Scheme = Literal["file", "kafka", "pulsar"]
_SECURE = "pulsar+ssl"
#: The rule of org.apache.kafka.common.internals.Topic, which also forbids "." and "..".
_KAFKA_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class TopicUri:
    """`servers`: host:port, or several separated by commas; empty for files.

    `name`: the folder, the Kafka topic, or tenant/namespace/topic. `secure`: a Pulsar topic on a
    TLS port.
    """

    scheme: Scheme
    servers: str
    name: str
    secure: bool = False

    @property
    def folder(self) -> Path:
        """The folder of a file topic. Raises SettingsError for topics on servers."""
        if self.scheme != "file":
            raise SettingsError([f"{self}: this needs a file topic; use file:///folder."])
        return Path(self.name)

    @property
    def service_url(self) -> str:
        """The service URL of a Pulsar topic, as Pulsar clients expect it."""
        return f"{_SECURE if self.secure else self.scheme}://{self.servers}"

    @property
    def identity(self) -> str:
        """The URI without servers, which stays equal when servers are added or renamed."""
        return str(self) if self.scheme == "file" else f"{self.scheme}:///{quote(self.name)}"

    def __str__(self) -> str:
        path = quote(self.name)
        return f"file://{path}" if self.scheme == "file" else f"{self.service_url}/{path}"


def parse_topic(uri: str) -> TopicUri:
    """Parses a topic URI. Raises SettingsError with the expected form."""
    try:
        parts = urlsplit(uri)
        addressed = [urlsplit(f"//{server}") for server in parts.netloc.split(",")]
        named = all(
            server.hostname and server.port is not None and not server.username
            for server in addressed
        )
    except ValueError as error:
        raise _complaint(uri, f"is not a URI ({error})") from error
    if parts.scheme == "file":
        return _file(uri, parts.netloc, unquote(parts.path))
    if parts.scheme not in ("kafka", "pulsar", _SECURE):
        raise _complaint(uri, "has an unknown scheme")
    if not named:
        raise _complaint(uri, "names no host:port")
    name = unquote(parts.path).strip("/")
    levels = 1 if parts.scheme == "kafka" else 3
    if len([part for part in name.split("/") if part]) != levels or name.count("/") != levels - 1:
        raise _complaint(uri, "names no topic")
    if parts.scheme == "kafka" and not _KAFKA_NAME.fullmatch(name):
        raise SettingsError(
            [
                f"{uri}: Kafka names topics with letters, digits, '.', '_' and '-', at most "
                "249 of them; write such a name."
            ]
        )
    return TopicUri(
        "kafka" if parts.scheme == "kafka" else "pulsar",
        parts.netloc,
        name,
        parts.scheme == _SECURE,
    )


def file_topic(folder: Path) -> TopicUri:
    """The topic in a folder."""
    return TopicUri("file", "", str(folder.absolute()))


def file_topic_uri(folder: Path) -> str:
    """The URI of a folder, as settings contain it."""
    return str(file_topic(folder))


def _file(uri: str, host: str, path: str) -> TopicUri:
    if host not in ("", "localhost"):
        raise _complaint(uri, "names a host; a file topic has three slashes")
    if not path.startswith("/"):
        raise _complaint(uri, "must name an absolute folder")
    if path == "/" or "\0" in path:
        raise _complaint(uri, "names no folder")
    return TopicUri("file", "", path.rstrip("/"))


def _complaint(uri: str, what: str) -> SettingsError:
    return SettingsError(
        [
            f"{uri}: {what}; write file:///folder, kafka://host:port/topic or "
            "pulsar://host:port/tenant/namespace/topic."
        ]
    )


_HOME = Path("/var/lib/pulsar-rebalancer")


@dataclass(frozen=True, slots=True)
class Topics:
    """Where records come from and where they go; every topic is a URI and means the same
    everywhere.
    """

    telemetry: Annotated[TopicUri, Setting("Load reports, sweeps and outcomes")] = file_topic(
        _HOME / "telemetry"
    )
    commands: Annotated[TopicUri, Setting("Commands (the control topic)")] = file_topic(
        _HOME / "commands"
    )
    rounds: Annotated[TopicUri, Setting("One record per round: its input and decisions")] = (
        file_topic(_HOME / "rounds")
    )
    rejected: Annotated[TopicUri, Setting("Records that could not be used, with the reason")] = (
        file_topic(_HOME / "rejected")
    )
    outcomes: Annotated[TopicUri, Setting("Outcomes of commands, reported by executors")] = (
        file_topic(_HOME / "outcomes")
    )
    approvals: Annotated[
        TopicUri,
        Setting("Approvals of plans, pauses and resumes; used by executors with an approvals key"),
    ] = file_topic(_HOME / "approvals")

    def named(self) -> Iterator[tuple[str, TopicUri]]:
        """All six by the names of their settings, in this order."""
        for field in fields(self):
            yield field.name, getattr(self, field.name)


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Retention, as the servers of Kafka and Pulsar have it for their topics."""

    retention_hours: Annotated[
        int,
        Setting(
            "Writers delete segments whose newest line is older, but never the newest segment; "
            "0 = never",
            "h",
            ge=0,
            le=876_000,
        ),
    ] = 0
    #: Stop if records were deleted before they were read, otherwise go on with the oldest one: the
    #: job's `fail_on_data_loss`.
    fail_on_data_loss: bool = True

    @property
    def retention_ms(self) -> int | None:
        """None = no segment is deleted."""
        return self.retention_hours * HOUR_MS or None


@dataclass(frozen=True, slots=True)
class TopicAccess:
    """Settings for reaching the servers of topics, and of topics in folders."""

    kafka: KafkaSettings = KafkaSettings()
    pulsar: PulsarSettings = PulsarSettings()
    files: FileSettings = FileSettings()


NO_SECURITY = TopicAccess()


@dataclass(frozen=True, slots=True)
class Connections:
    """The settings that the job, the collector, the executor and the commands without Spark
    share.
    """

    topics: Topics = Topics()
    wire: WireLimits = WireLimits()
    files: FileSettings = FileSettings()
    kafka: KafkaSettings = KafkaSettings()
    pulsar: PulsarSettings = PulsarSettings()
    source: SourceSettings = SourceSettings()
    signing: SigningSettings = SigningSettings()

    @property
    def access(self) -> TopicAccess:
        """Settings for reaching the servers of the topics."""
        return TopicAccess(self.kafka, self.pulsar, self.files)
