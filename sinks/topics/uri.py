"""Topic URIs, the same everywhere: file:///folder, kafka://host:port/topic,
pulsar://host:port/tenant/namespace/topic.

`pulsar+ssl://` is Pulsar's own scheme for a TLS port.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

from strategies.errors import SettingsError

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
