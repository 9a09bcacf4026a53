"""A real Pulsar cluster whose brokers are processes of their own: one can be killed, and one can
join.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from tools.servers.control_groups import ControlGroup
from tools.servers.jvm import Server, free_ports
from tools.servers.pulsar_cluster import (
    CLUSTER,
    PULSAR,
    Manager,
    PulsarCluster,
    broker_settings,
    clear,
    java_options,
    token_settings,
)

_STORAGE = replace(PULSAR, heap=("-Xms32m", "-Xmx128m", "-XX:MaxDirectMemorySize=192m"))
_BROKER = replace(PULSAR, heap=("-Xms64m", "-Xmx192m", "-XX:MaxDirectMemorySize=128m"))
#: Apart from the clusters in one process, which may run at the same time.
_SUBNETS: Mapping[Manager, int] = {"modular": 43, "extensible": 44}
#: How often a broker in a control group measures its CPU; its configuration allows only minutes.
CPU_SECONDS = 10


@dataclass(frozen=True)
class PulsarProcesses:
    """`cluster`: how the others reach it; `servers`: every broker's process by the broker's id,
    those that have not joined yet included.
    """

    cluster: PulsarCluster
    servers: Mapping[str, Server]

    def start(self, brokers: Sequence[str]) -> None:
        """Brokers join, or come back."""
        for broker in brokers:
            self.servers[broker].launch()
        for broker in brokers:
            self.servers[broker].wait_until_ready()

    def logged(self, words: str) -> int:
        """How often words stand in what the brokers have logged."""
        return sum(len(re.findall(words, text)) for text in self._logs())

    def unloads(self, bundle: str) -> int:
        """How often a broker has unloaded a bundle on request; requests that were
        passed on to another one do not count.
        """
        return self.logged(rf'PUT /admin/v2/namespaces/{re.escape(bundle)}/unload[^"]*" 204 ')

    def _logs(self) -> list[str]:
        return [
            server.log.read_text("utf-8", errors="replace")
            for server in self.servers.values()
            if server.log.exists()
        ]


@contextlib.contextmanager
def pulsar_processes(
    folder: Path,
    manager: Manager = "modular",
    *,
    brokers: int = 4,
    later: int = 0,
    guarded: bool = False,
    groups: Sequence[ControlGroup] = (),
    more: Mapping[str, str] | None = None,
    own: Sequence[Mapping[str, str]] = (),
) -> Iterator[PulsarProcesses]:
    """A cluster that is ready; killed at the end, and of its folder only logs and configuration
    stay.

    `later`: number of the `brokers` that are only prepared. `guarded`: every client must show a
    token, see `token_of`. `groups`: one for each broker, which then measures its CPU every
    CPU_SECONDS (with the modular load manager only). `more`: of broker.conf; `own`: of the
    broker.conf of each of the first brokers.
    """
    zookeeper, bookie, *ports = free_ports(2 + 2 * brokers)
    hosts = [f"127.0.{_SUBNETS[manager]}.{number}" for number in range(1, brokers + 1)]
    webs, binaries = ports[:brokers], ports[brokers:]
    common = (token_settings() if guarded else {}) | dict(more or {})
    files = [
        _write(
            folder / f"{host}.conf",
            broker_settings(manager, zookeeper, host) | common | dict(its or {}),
            web,
            binary,
        )
        for host, web, binary, its in zip_longest(hosts, webs, binaries, own)
    ]
    arguments = (CLUSTER, str(zookeeper), str(bookie), str(folder))
    storage = Server(
        _STORAGE, "PulsarStorage", arguments, folder, "The storage is ready", java_options()
    )
    ids = tuple(f"{host}:{web}" for host, web in zip(hosts, webs, strict=True))
    servers = {
        broker: _broker(folder / file.stem, file, group, first=file is files[0])
        for broker, file, group in zip_longest(ids, files, groups)
    }
    started = brokers - later
    url = "pulsar://" + ",".join(
        f"{host}:{port}" for host, port in zip(hosts[:started], binaries[:started], strict=True)
    )
    cluster = PulsarProcesses(PulsarCluster(storage, ids, url, guarded), servers)
    try:
        storage.start()
        cluster.start(ids[:started])
        yield cluster
    finally:
        for server in (*servers.values(), storage):
            server.stop()
        for server in servers.values():
            clear(server.folder, server.findings)
        clear(folder, {*storage.findings, *files, *(server.folder for server in servers.values())})


def _write(file: Path, settings: dict[str, str], web: int, binary: int) -> Path:
    ports = {"webServicePort": str(web), "brokerServicePort": str(binary)}
    file.write_text(
        "".join(f"{key}={value}\n" for key, value in (settings | ports).items()), "utf-8"
    )
    return file


def _broker(folder: Path, file: Path, group: ControlGroup | None, *, first: bool) -> Server:
    folder.mkdir()
    return Server(
        _BROKER,
        "PulsarBroker",
        (str(file),) if group is None else (str(file), str(CPU_SECONDS)),
        folder,
        "The broker is ready",
        java_options(),
        archiving=first,
        prefix=() if group is None else group.entering,
    )
