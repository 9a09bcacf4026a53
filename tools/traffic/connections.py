"""Which broker the clients of each topic were connected to, and until when, by what their library
has logged.

A broker that goes disconnects its clients, however busy the machine is. A pause alone says less: on
a busy machine all topics pause, and a client that was refused a few times after a move waits for
some seconds more before it asks again.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Literal

#: "2026-11-27 01:51:09.965 INFO  [1407] ProducerImpl:189 | [topic, name] Created producer on broker
#: [127.0.0.1:52270 -> 127.0.43.4:29310]", and "... HandlerBase:160 | [topic, subscription, 0]
#: Schedule reconnection in 0.1 s"; a name of a consumer has one part more.
_LINE = re.compile(
    r"(?P<time>\S+ \S+) .* \| \[(?P<topic>[^],]+), (?P<name>[^]]*)\] "
    r"(?:Created \w+ on broker \[\S+ -> (?P<host>\S+):\d+\]|Schedule reconnection)"
)


@dataclass(frozen=True)
class Connection:
    """Of a client with a broker, whose address is `host`; ms since the epoch, `until` is infinite
    for one that was never lost.
    """

    topic: str
    client: Literal["producer", "consumer"]
    host: str
    since: float
    until: float = inf


def connections_log(traffic: Path) -> Path:
    """Beside the log of the traffic."""
    return traffic.with_name("connections.log")


def read_connections(file: Path) -> list[Connection]:
    """All of a log of the C++ library, in the order of their ends."""
    found, kept = list[Connection](), dict[tuple[str, str], Connection]()
    for at, topic, client, host in _events(file):
        if (lost := kept.pop((topic, client), None)) is not None:
            found.append(replace(lost, until=at))
        if host is not None:
            kept[topic, client] = Connection(topic, client, host, at)
    return [*found, *kept.values()]


def _events(
    file: Path,
) -> Iterator[tuple[float, str, Literal["producer", "consumer"], str | None]]:
    """When a client of a topic has a connection with a host, or wants a new one."""
    for line in file.read_text("utf-8").splitlines():
        if (one := _LINE.match(line)) is not None:
            at = datetime.fromisoformat(one["time"]).timestamp() * 1_000
            yield at, one["topic"], "consumer" if "," in one["name"] else "producer", one["host"]
